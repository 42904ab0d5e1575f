"""Untrusted names on every screen and in all its output: nothing raw, no crash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from ioh.model.derive import derive
from ioh.model.finding import Evidence, Finding, NotEvaluated, Severity
from ioh.model.player import News, RecordingState, TimelineEvent
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.sinks.cells import display_width
from ioh.terminal.line import Line
from ioh.tui.actions import with_valid_choice
from ioh.tui.drill_down import narrowed
from ioh.tui.options import ScreenOptions
from ioh.tui.render.screen import draw
from ioh.tui.state import Narrow, ViewState
from tests.support.hostile import NAMES, hostile_samples, raw_chars, without_layer
from tests.support.screen_player import FakePlayer, Stage, on_screen, stage
from tests.support.screens import layer_of, screen_data, states

SHORT = tuple(name for name in NAMES if len(name) < 200)
KINDS = (  # one of each kind
    *("\x1b[31mred\x1b[0m", "\x9b31mred", "a\r\nb", "a\tb", "[/b]x[red]y", "\u202egnp.exe"),
    *("👩\u200d👩\u200d👧\u200d👦", "Z\u0351\u036b\u0343a\u0301", "\ud800", "/" + "深" * 4095, ""),
)


@cache
def samples() -> list[Sample]:
    return hostile_samples(4)


def finding(name: str, severity: Severity) -> Finding:
    text = f"{name}!"
    evidence = (Evidence(text, text, 1.0, 2.0, text),)
    since_unix_s = samples()[0].time_unix_s
    return Finding(text, text, "block", severity, "high", text, evidence,
        text, text, text, text, text, since_unix_s, text)  # fmt: skip


@cache
def intervals() -> list[Snapshot]:
    """Every name in every table, part, note, finding and rule; another host name in each."""
    names = [printable(name) for name in NAMES]  # as everything that makes findings must
    found = tuple(finding(name, "critical") for name in names)
    missing = tuple(NotEvaluated(name, name, name) for name in names)
    made = [derive(older, newer) for older, newer in pairwise(samples())]
    return [replace(one, findings=found, not_evaluated=missing) for one in made]


def texts(lines: list[Line]) -> Iterator[str]:
    for line in lines:
        for text, _ in line.spans:
            yield text


@pytest.mark.parametrize("size", [(20, 5), (80, 24), (300, 80)])
def test_no_screen_contains_raw_characters(size: tuple[int, int]) -> None:
    snapshot = intervals()[0]
    data = screen_data(snapshot, narrowed="x", title=snapshot.hostname)
    for state in states()[:: 7 if size[0] > 200 else 3]:
        frame = draw(with_valid_choice(state, snapshot), data, *size)
        assert not raw_chars("".join(texts(frame.lines)))
        assert not any("\n" in text for text in texts(frame.lines))
        assert {line.width for line in frame.lines} == {size[0]}
        assert {display_width(line.text) for line in frame.lines} == {size[0]}


@pytest.mark.parametrize("name", KINDS)
def test_each_name_everywhere_at_once(name: str) -> None:
    made = without_layer(hostile_samples(2, names=(name,)), "nfs_client", name)
    snapshot = replace(derive(*made), findings=(finding(name, "warning"),))
    data = screen_data(
        snapshot,
        mode="replay",
        title=name,
        message=(name, "crit"),
        status=name,
        recording=RecordingState(path=name, failure=name),
        narrowed=name,
    )
    assert data.timeline is not None
    timeline = replace(data.timeline, text=name, moments=(TimelineEvent(0.0, name),))
    data = replace(data, timeline=timeline)
    for state in (ViewState(), ViewState(screen="findings"), ViewState(focus="top")):
        frame = draw(with_valid_choice(state, snapshot), data, 120, 40)
        assert not raw_chars("".join(texts(frame.lines)))
        assert {line.width for line in frame.lines} == {120}
    data = screen_data(None, status=name)
    assert not raw_chars("".join(texts(draw(ViewState(), data, 80, 24).lines)))


@pytest.mark.parametrize("layer", ["syscall", "nfs_client", "tcp", "nfs_server", "block"])
def test_every_row_can_be_narrowed_to_whatever_its_name(layer: str) -> None:
    for table, rows in layer_of(intervals()[0], layer).tables.items():
        for row in rows[::51]:
            only = Narrow(table, row.key)
            snapshot = narrowed(intervals()[0], only)
            state = with_valid_choice(ViewState(layer=layer, narrow=only), snapshot)
            frame = draw(state, screen_data(snapshot), 100, 30)
            assert not raw_chars("".join(texts(frame.lines)))


def hostile_feed() -> FakePlayer:
    name = "\x1b]52;c;aGVsbG8=\x07\x9b31m\u202e\n[/b]"
    feed = FakePlayer(
        intervals(), moments=(TimelineEvent(samples()[1].time_unix_s, name),), title=name
    )
    feed.recording = RecordingState(path=name)
    return feed


def test_no_raw_characters_leave_the_screen(here: Path) -> None:
    """The application itself: its frames, messages, palette, clipboard and files."""

    def check(on: Stage) -> None:
        for line in on.canvas.frame.lines:
            assert not raw_chars(line.text)
            assert "\n" not in line.text

    async def flow(on: Stage) -> None:
        on.player.say(News(status=on.player.title))
        await on.pilot.pause()
        check(on)
        await on.push(3)
        for key in ("1", "c", "S", "t", "tab", "enter", "S", "escape", "2", "f", "question_mark"):
            await on.press(key)
            check(on)
        await on.press("escape", "space", "left", "left_square_bracket", "R")
        for name in SHORT[::2]:
            on.app.say(name)
            on.app.redraw()
            check(on)
        await on.press("ctrl+p")
        await on.press(*"[/b]x[red]")
        await on.pilot.pause(0.2)
        await on.press("escape")
        assert not raw_chars(on.app.clipboard)
        assert "\\x1b[31mred" in on.app.clipboard

    options = ScreenOptions(utc=True, filters_text=printable("\x1b[31m[/b]\u202e"))
    app = stage(flow, hostile_feed(), options=options)
    assert app.error is None
    assert app.return_value is None
    saved = sorted(here.iterdir())
    assert {path.suffix for path in saved} == {".svg", ".txt"}
    for path in saved:
        assert not raw_chars(path.read_text("utf-8"))
        assert path.name.isascii()


@on_screen(hostile_feed, told=2)
async def test_a_filter_finds_hostile_names_as_they_are_shown(on: Stage) -> None:
    await on.press("slash", "[", "/", "b", "]", "enter")
    assert "[/b]x[red]y" in on.text
    assert "ddddd" not in on.text.split("pid comm")[1].split("nfs client")[0]
