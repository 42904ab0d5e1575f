"""The whole screen is drawn at exactly the requested size, whatever it shows, in any mode."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist
from ioh.model.player import RecordingState
from ioh.model.snapshot import OpStats
from ioh.sinks.cells import display_width
from ioh.terminal.line import ScreenFrame
from ioh.tui.actions import with_valid_choice
from ioh.tui.render.glyphs import to_ascii
from ioh.tui.render.screen import ScreenData, draw
from ioh.tui.render.zoom import LayersView, panel
from ioh.tui.state import ViewState
from ioh.tui.theme import styles_for
from tests.support.screens import drawn, kinds, layer_of, minute, screen_data, states, with_layer

LAST = minute()[-1]
STYLES = styles_for("dark", "truecolor")
RECORDING = RecordingState("run.ioh", 1_795_270_000.0, 3_100_000)


@cache
def shown_states(kind: str) -> list[ViewState]:
    snapshot = kinds()[kind]
    return [with_valid_choice(state, snapshot) for state in states(tuple(snapshot.specs))]


@cache
def data_of(kind: str, variant: str) -> ScreenData:
    snapshot = kinds()[kind]
    if variant == "live":
        return screen_data(snapshot)
    if variant == "replay":
        return screen_data(
            snapshot, mode="replay", shown="paused", title="run.ioh", speed=8.0, is_ascii=True
        )
    return screen_data(
        snapshot,
        age_s=9.5,
        recording=RECORDING,
        narrowed="only 4121 fio",
        message=("said at the bottom " * 20, "crit"),
        status="compiling the probes: nfs_client, nfs_server",
    )


def check(frame: ScreenFrame, width: int, height: int) -> None:
    assert len(frame.lines) == height
    for line in frame.lines:
        assert line.width == width == display_width(line.text), line.text
        assert {style for _, style in line.spans} <= set(STYLES)
    for hit in frame.hits:
        assert 0 <= hit.y < height
        assert hit.left < hit.right


@settings(max_examples=80)
@given(st.data(), st.integers(20, 300), st.integers(5, 80))
def test_every_line_has_the_requested_width(data: st.DataObject, width: int, height: int) -> None:
    kind = data.draw(st.sampled_from(sorted(kinds())))
    state = data.draw(st.sampled_from(shown_states(kind)))
    variant = data.draw(st.sampled_from(["live", "replay", "busy"]))
    check(draw(state, data_of(kind, variant), width, height), width, height)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 4), (5, 2), (19, 3)])
def test_no_size_is_too_small_to_be_drawn(width: int, height: int) -> None:
    for state in shown_states("demo")[::3]:
        for variant in ("replay", "busy"):
            check(draw(state, data_of("demo", variant), width, height), width, height)


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (RECORDING, "● REC 00:01:00 2.96M"),
        (replace(RECORDING, size_bytes=33_676), "● REC 00:01:00 32.9K"),
        (RecordingState(failure="disk full"), "REC FAILED"),
    ],
)
def test_a_recording_shows_that_it_runs(recording: RecordingState, said: str) -> None:
    data = screen_data(kinds()["demo"], recording=recording)
    assert said in draw(ViewState(), data, 80, 24).lines[0].text


@pytest.mark.parametrize("kind", ["demo", "others"])
def test_in_ascii_every_line_keeps_its_width(kind: str) -> None:
    for state in shown_states(kind):
        for line in draw(state, data_of(kind, "replay"), 120, 40).lines:
            plain = to_ascii(line.text)
            assert plain.isascii()
            assert len(plain) == line.width
            if kind != "others":  # names in Chinese
                assert plain.count("?") == line.text.count("?"), (
                    "a character of ours has no stand-in"
                )


def test_drawing_does_not_change_its_arguments() -> None:
    data = screen_data(minute()[-1])
    for state in shown_states("demo")[::3]:
        before = draw(state, data, 120, 40)
        assert draw(state, data, 120, 40).lines == before.lines


@pytest.mark.parametrize(
    ("source", "count", "said"),
    [
        ("bpf", 0, "nothing in this interval"),
        ("bpf", None, "this source has no histogram"),
        ("proc", 0, "this source has no histogram"),
    ],
)
def test_an_op_that_has_not_happened_yet_is_not_called_unmeasured(
    source: str, count: int | None, said: str
) -> None:
    """A disk that nobody has written to since ioh started: the probe has no histogram of it."""
    ops = {**layer_of(LAST, "block").ops, "write": OpStats(count=count)}
    shown = with_layer(LAST, "block", source=source, ops=ops)
    view = LayersView(ViewState(chosen=("block", "write")), shown, ())
    assert said in panel(view, 60, 10).text()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_nothing_moves_as_numbers_and_findings_come_and_go(size: tuple[int, int]) -> None:
    """The latency axis and all labels stay where they are, whatever is measured."""
    calm, trouble = kinds()["demo"], kinds()["trouble"]
    places = set()
    for snapshot in (calm, trouble, replace(calm, findings=())):
        frame = drawn(snapshot, size)
        found = [(y, x.text.index(" >17s")) for y, x in enumerate(frame.lines) if " >17s" in x.text]
        places.add(tuple(found))
        assert found
    assert len(places) == 1 or size == (80, 24), "there, what calls become has lines of its own"


def test_the_number_of_hidden_sizes_is_shown() -> None:
    cells = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    for at in range(SIZE_BUCKETS):
        cells[at * LATENCY_BUCKETS + 9] = at + 1
    ops = layer_of(LAST, "block").ops
    read = replace(ops["read"], size_lat=SizeLatencyHist(tuple(cells)))
    snapshot = with_layer(LAST, "block", ops={**ops, "read": read})
    text = drawn(snapshot, (80, 24), ViewState(layer="block", chosen=("block", "read"))).text()
    lines = [line for line in text.splitlines() if re.match(r" *[>\d]+[KMG]? +\d+ ", line)]
    hidden = SIZE_BUCKETS - len(lines)
    assert hidden
    assert f"+{hidden} sizes" in text


@pytest.mark.parametrize(("lost_pct", "style"), [(0.99, "dim"), (1.0, "warn"), (None, "warn")])
def test_lost_events_warn_from_one_percent(lost_pct: float | None, style: str) -> None:
    """Below it means and rates are accurate to two digits."""
    none = replace(LAST, findings=())
    snapshot = with_layer(none, "block", lost={"unseen": 3}, lost_pct=lost_pct)
    lines = drawn(snapshot, (120, 40)).lines
    said = [span for line in lines for span in line.spans if "events not measured" in span[0]]
    assert [shown for _, shown in said] == [style]
