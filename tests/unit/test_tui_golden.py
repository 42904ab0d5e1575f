"""Every screen at three sizes, as committed; IOH_REGENERATE_GOLDEN=1 rewrites the files.

All of them as text with the styles of its spans, where a difference is easy to read; the main ones
also as pictures (SVG), as S saves them, in every theme; each panel by itself.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.model.player import Mean, RecordingState
from ioh.terminal.line import ScreenFrame
from ioh.terminal.picture import svg
from ioh.tui.actions import with_valid_choice
from ioh.tui.drill_down import narrowed
from ioh.tui.options import ThemeName
from ioh.tui.render.box import boxed, trends_of
from ioh.tui.render.compare import Compared
from ioh.tui.render.overview import box_of
from ioh.tui.render.screen import ScreenData, draw
from ioh.tui.render.zoom import LayersView
from ioh.tui.state import Narrow, ViewState
from ioh.tui.theme import styles_for
from tests.support.demo_samples import START_S
from tests.support.screens import LAYERS, MOMENTS, judged, kinds, minute, screen_data, without

GOLDEN = Path(__file__).parent.parent / "golden" / "tui"
SIZES = ((80, 24), (120, 40), (200, 60))
ONLY = Narrow("process", ("4121", "dbserver"))
RECORDING = RecordingState("ioh-demo.ioh", START_S + 20, 3_100_000)


def main(layer: str = "", panel: str = "hist") -> ViewState:
    op = "in" if layer == "tcp" else "read"
    chosen = (layer, op) if layer else ("", "")
    state = ViewState(layer=layer, chosen=chosen, panel=panel)  # type: ignore[arg-type]
    return with_valid_choice(state, judged())


def live(state: ViewState) -> tuple[ViewState, ScreenData]:
    return state, screen_data(judged(), recording=RECORDING)


def paused() -> tuple[ViewState, ScreenData]:
    data = screen_data(minute()[29], shown="paused", history=minute()[:30])
    return main(), replace(data, message=("mark: fio run 3 starts", "accent"))


def replayed() -> tuple[ViewState, ScreenData]:
    return main(), screen_data(judged(), mode="replay", shown="playing", title="run.ioh", speed=8.0)


def narrow() -> tuple[ViewState, ScreenData]:
    snapshot = narrowed(judged(), ONLY)
    state = replace(main(), narrow=ONLY, focus="top")
    return state, screen_data(snapshot, history=(), narrowed="only 4121 dbserver")


def troubled() -> tuple[ViewState, ScreenData]:
    """The network loses segments."""
    return main(), screen_data(kinds()["trouble"])


def compared() -> tuple[ViewState, ScreenData]:
    """The minute's last interval, as if 49 had its numbers, beside its 11th, as if ten had."""
    marks = tuple(moment for moment in MOMENTS if moment.until_unix_s is None)
    spread = {("nfs_client", "read"): {"bytes_per_s": 2.5e6, "ops_per_s": 31.0}}
    means = (Mean(minute()[-1], 49, spread), Mean(minute()[10], 10, spread, ("tcp: 7 of 10",)))
    data = replace(screen_data(judged()), compared=Compared(marks[0], marks, means, 49))
    return ViewState(screen="compare"), data


SCREENS = {
    "overview": live(main()),
    **{f"zoom-{layer}": live(main(layer)) for layer in LAYERS},
    "heat": live(main("block", "heat")),
    "graph": live(main("syscall", "graph")),
    "findings": live(ViewState(screen="findings")),
    "help": live(ViewState(screen="help")),
    "paused": paused(),
    "replay": replayed(),
    "narrow": narrow(),
    "one-gone": (main(), screen_data(without(judged(), "nfs_client"))),
    "losing": troubled(),
    "commands": live(ViewState(screen="commands", prompt="command", typed="pau")),
    "compare": compared(),
    "mark": live(replace(main(), prompt="mark", typed="fio run 4")),
    "waiting": (ViewState(), screen_data(None, status="compiling the probes: nfs_client")),
}
PICTURES: tuple[tuple[str, tuple[int, int], ThemeName], ...] = (
    *((name, size, "dark") for name in ("overview", "zoom-block", "findings") for size in SIZES),
    ("overview", SIZES[1], "light"),
    ("overview", SIZES[1], "mono"),
)
# Of a box: one of three beside each other, as low as it gets; one of two; a single one.
PANEL_SIZES = ((40, 7), (58, 10), (120, 14))


def as_text(frame: ScreenFrame) -> str:
    """The frame, then the styles of each line: ``from-to style``."""
    styles = []
    for y, line in enumerate(frame.lines):
        at, found = 0, []
        for text, style in line.spans:
            if style:
                found.append(f"{at}-{at + len(text)} {style}")
            at += len(text)
        styles.append(f"{y}: {', '.join(found)}".rstrip())
    return frame.text() + "\n" + "\n".join(styles) + "\n"


def check(name: str, made: str) -> None:
    path = GOLDEN / name
    if os.environ.get("IOH_REGENERATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made, encoding="utf-8", newline="\n")
    assert made == path.read_text("utf-8"), f"{name}: see the first lines of this module"


def name_of(screen: str, size: tuple[int, int], kind: str) -> str:
    return f"{screen}-{size[0]}x{size[1]}.{kind}"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_is_as_committed(screen: str, size: tuple[int, int]) -> None:
    state, data = SCREENS[screen]
    check(name_of(screen, size, "frame"), as_text(draw(state, data, *size)))


def name_of_picture(screen: str, size: tuple[int, int], theme: ThemeName) -> str:
    return name_of(screen if theme == "dark" else f"{screen}-{theme}", size, "svg")


@pytest.mark.parametrize(("screen", "size", "theme"), PICTURES)
def test_a_picture_is_as_committed(screen: str, size: tuple[int, int], theme: ThemeName) -> None:
    state, data = SCREENS[screen]
    frame, styles = draw(state, data, *size), styles_for(theme, "truecolor")
    made = svg(frame, styles, "ioh db01", is_light=theme == "light")
    check(name_of_picture(screen, size, theme), made)


@pytest.mark.parametrize("size", PANEL_SIZES)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_panel_is_as_committed(layer: str, size: tuple[int, int]) -> None:
    state, data = troubled()
    assert data.snapshot is not None
    view = LayersView(state, data.snapshot, data.points, data.tick)
    one = data.snapshot.measured[layer]
    box = box_of(one.spec)
    check(
        name_of(f"panel-{layer}", size, "frame"),
        as_text(boxed(box, view, one, trends_of(box, view, one), *size)),
    )


def test_every_golden_file_has_its_case() -> None:
    wanted = {name_of(screen, size, "frame") for screen in SCREENS for size in SIZES}
    wanted |= {name_of_picture(*each) for each in PICTURES}
    wanted |= {name_of(f"panel-{layer}", s, "frame") for layer in LAYERS for s in PANEL_SIZES}
    assert {path.name for path in GOLDEN.iterdir()} == wanted
