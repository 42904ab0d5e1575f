"""Every screen at three sizes, as committed; IOH_REGENERATE_GOLDEN=1 writes the files anew.

Text with the styles of its spans for all of them, where a difference can be read; pictures
(SVG) of the main ones, as S saves them and as the terminal library exports them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.model.feed import RecordingState
from ioh.tui.actions import with_valid_choice
from ioh.tui.narrow import narrowed
from ioh.tui.picture import svg
from ioh.tui.render.line import Frame
from ioh.tui.render.screen import ScreenData, draw
from ioh.tui.state import Narrow, ViewState
from ioh.tui.theme import styles_for
from tests.demo_samples import START_S
from tests.screen_feed import FakeFeed, Stage, stage
from tests.screens import LAYERS, MOMENTS, judged, minute, screen_data, without

GOLDEN = Path(__file__).parent.parent / "golden" / "tui"
SIZES = ((80, 24), (120, 40), (200, 60))
ONLY = Narrow("process", ("4121", "dbserver"), "syscall")
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
    return main(panel="graph"), screen_data(
        judged(), mode="replay", shown="playing", title="run.ioh", speed=8.0
    )


def narrow() -> tuple[ViewState, ScreenData]:
    snapshot = narrowed(judged(), ONLY)
    state = replace(main(), narrow=ONLY, focus="top")
    return state, screen_data(snapshot, history=(), narrowed="only 4121 dbserver")


SCREENS = {
    "overview": live(main()),
    **{f"zoom-{layer}": live(main(layer)) for layer in LAYERS},
    "heat": live(main("block", "heat")),
    "graph": live(main(panel="graph")),
    "findings": live(ViewState(screen="findings")),
    "help": live(ViewState(screen="help")),
    "paused": paused(),
    "replay": replayed(),
    "narrow": narrow(),
    "one-gone": (main(), screen_data(without(judged(), "nfs_client"))),
    "waiting": (ViewState(), screen_data(None, status="compiling the probes: nfs_client")),
}
PICTURES = ("overview", "zoom-block", "findings")
EXPORTS = {"overview": (), "heat": ("l",), "help": ("question_mark",)}


def as_text(frame: Frame) -> str:
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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", PICTURES)
def test_a_picture_is_as_committed(screen: str, size: tuple[int, int]) -> None:
    state, data = SCREENS[screen]
    frame = draw(state, data, *size)
    check(name_of(screen, size, "svg"), svg(frame, styles_for("dark", "truecolor"), "ioh db01"))


@pytest.mark.parametrize("screen", EXPORTS)
def test_what_the_terminal_library_shows_is_as_committed(screen: str) -> None:
    async def flow(on: Stage) -> None:
        await on.push(30)
        await on.press(*EXPORTS[screen])
        check(f"export-{screen}-80x24.svg", on.app.export_screenshot(title="ioh"))

    feed = FakeFeed(minute(), moments=MOMENTS)
    stage(flow, feed, size=(80, 24))


def test_every_golden_file_has_its_case() -> None:
    wanted = {name_of(screen, size, "frame") for screen in SCREENS for size in SIZES}
    wanted |= {name_of(screen, size, "svg") for screen in PICTURES for size in SIZES}
    wanted |= {f"export-{screen}-80x24.svg" for screen in EXPORTS}
    assert {path.name for path in GOLDEN.iterdir()} == wanted
