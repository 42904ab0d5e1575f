"""Trends, charts, heat maps and size × latency tables: the right size, and true to the data."""

from __future__ import annotations

import re
from bisect import bisect_right

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist, latency_index
from ioh.sinks.cells import display_width
from ioh.terminal.line import Line
from ioh.tui.render.glyphs import BARS, BRAILLE, drawn_in_ascii
from ioh.tui.render.histogram import (
    HEAT_LEVELS,
    axis_for,
    column_label,
    heat_scale,
    render_heat_map,
    shaded,
)
from ioh.tui.render.trends import binned, per_column, render_bars, render_braille
from tests.support.fakes import size_index

VALUE = st.none() | st.floats(0, 1e15) | st.integers(0, 10**18)
VALUES = st.lists(VALUE, max_size=80)


def hist(*ops: tuple[int, float, int]) -> SizeLatencyHist:
    """A histogram of (size in bytes, latency in µs, count)."""
    cells = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    for size_bytes, latency_us, count in ops:
        cells[size_index(size_bytes) * LATENCY_BUCKETS + latency_index(latency_us)] += count
    return SizeLatencyHist(tuple(cells))


@example([1.1e-308], 1)
@given(VALUES, st.integers(1, 4))
def test_there_is_one_bar_for_each_value(values: list[float | None], height: int) -> None:
    lines = render_bars(values, height)
    assert {display_width(text) for text in lines} == {len(values)}
    for value, bar in zip(values, lines[-1], strict=True):
        assert (bar == " ") == (not value), "something above 0 is seen, 0 and unknown are not"
    known = [value for value in values if value]
    if known:
        assert lines[0][values.index(max(known))] == BARS[-1]


def test_in_ascii_bars_of_different_heights_differ() -> None:
    plain = drawn_in_ascii(BARS)
    assert plain.isascii()
    assert len(set(plain)) == len(BARS)


@given(VALUES, st.integers(1, 90), st.integers(0, 10**6))
def test_a_trend_moves_by_whole_columns(values: list[float | None], width: int, tick: int) -> None:
    """The next interval moves the bars by one column or none, and changes only the last one."""
    before, after = binned(values, width, tick), binned([*values, 5.0], width, tick + 1)
    assert len(before) == len(after) == width
    moved = (tick + 1) % per_column(width) == 0
    # The oldest intervals are no longer among the values, or not yet.
    kept = max(0, min(width, len(values) // per_column(width)) - 2)
    assert after[width - 1 - kept : -1] == before[width - 1 - kept + moved :][:kept]


def test_trends_of_a_few_values() -> None:
    assert binned([1.0, 2.0, 3.0], 60, 9) == [*[None] * 57, 1.0, 2.0, 3.0]
    assert binned([1.0, None, 3.0, 5.0], 30, 3) == [*[None] * 28, 1.0, 5.0]
    assert binned([1.0, None, 3.0, 5.0], 30, 4) == [*[None] * 27, 1.0, 3.0, 5.0]


def test_braille_has_two_bars_a_character() -> None:
    values = [0.0, None, 4.0, 1.0, 2.0, 0.001]
    assert render_braille(values, 30, 5) == " " * 28 + "⣇⣄"
    assert render_braille(values, 30, 4) == " " * 27 + "⢸⣠⡀"


def test_in_ascii_a_pair_of_bars_is_the_higher_one() -> None:
    plain = [drawn_in_ascii("".join(chars)) for chars in BRAILLE]
    assert plain == [" .-+@", "..-+@", "---+@", "++++@", "@@@@@"]


def column(bucket: int, count: int) -> tuple[int, ...]:
    return tuple(count if b == bucket else 0 for b in range(LATENCY_BUCKETS))


def test_a_heat_map_with_too_few_rows_loses_no_operation() -> None:
    fast, slow = latency_index(2), latency_index(9_000_000)
    lines = render_heat_map([column(fast, 5), column(slow, 5)], 12, 4)
    text = [line.text for line in lines[:-1]]
    assert text[-1].rstrip().endswith("█"), "the fast ones are joined with the lowest row"
    assert text[0].endswith("█")


@given(st.integers(0, 10**18), st.integers(1, 10**18))
def test_a_heat_level_is_one_of_the_scale(count: int, largest: int) -> None:
    scale = heat_scale(largest)
    assert 0 <= bisect_right(scale, count) < HEAT_LEVELS
    assert (bisect_right(scale, count) == 0) == (count == 0)
    assert bisect_right(scale, largest) == HEAT_LEVELS - 1


@pytest.mark.parametrize("room", [4, 13, 25, 26, 40, 52, 80, 104, 300])
@pytest.mark.parametrize("widest", [1, 2, 3, 4])
def test_the_axis_joins_as_many_buckets_in_each_column(room: int, widest: int) -> None:
    axis = axis_for(room, widest)
    assert axis.width <= room
    assert axis.cell <= widest
    counts = list(range(1, LATENCY_BUCKETS + 1))
    joined = axis.joined(counts)
    assert joined[1:] == [
        sum(counts[bucket + 1 - axis.each : bucket + 1]) for bucket in axis.buckets[1:]
    ]
    assert sum(joined) == sum(counts)
    assert (axis.each == 1) == (room >= LATENCY_BUCKETS)
    heading = axis.heading(2)
    assert len(heading) == 2 + axis.width
    for label in re.finditer(r"\S+", heading):
        bucket = next(b for b in range(LATENCY_BUCKETS) if column_label(b) == label[0])
        column = axis.buckets.index(bucket)
        assert label.end() == 2 + (column + 1) * axis.cell, "right above its column"


def test_a_tail_of_one_in_a_thousand_is_visible() -> None:
    row = hist((4096, 100, 1000), (4096, 9_000_000, 1)).row(size_index(4096))
    axis = axis_for(26)
    text = shaded(Line(), row, axis, "read", largest=1000).text
    assert text[latency_index(100)] == "█"
    assert text[latency_index(9_000_000)] == "░"
    assert set(text) == {"█", "░", "·", " "}


def test_the_time_axis_shows_the_time_that_passed() -> None:
    """One interval is as long as ioh was stopped; the axis begins where the intervals do."""
    counts_now = (0,) * 9 + (5,) + (0,) * (LATENCY_BUCKETS - 10)
    intervals = [counts_now] * 10
    lengths = [1.0] * 8 + [37.0, 1.0]
    axis = render_heat_map(intervals, 26, 5, lengths)[-1].text
    assert axis.split() == ["-46", "s", "now"], "nothing was watched before"
    assert axis.index("-46") == 6 + 10
    half = render_heat_map(intervals * 2, 26, 5, [1.0] * 10 + lengths)[-1].text
    assert half.split() == ["-56", "s", "-46", "s", "now"]
    assert render_heat_map(intervals, 26, 5)[-1].text.split() == ["now"], "no length is known"
    fast = render_heat_map(intervals, 26, 5, [0.5] * 10)[-1].text
    assert fast.split() == ["-5", "s", "now"]
