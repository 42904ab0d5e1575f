"""Sparklines, charts, heat maps and size × latency tables: the right size, and true to the data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.model.hist import (
    LATENCY_BUCKETS,
    SIZE_BUCKETS,
    SizeLatencyHist,
    latency_index,
    size_index,
)
from ioh.sinks.cells import display_width
from ioh.tui.render.glyphs import ASCII, UNICODE, Glyphs
from ioh.tui.render.heat import render_heat_map
from ioh.tui.render.sizelat import (
    HEAT_LEVELS,
    column_label,
    heat_level,
    heat_scale,
    hidden_sizes,
    render_size_latency,
    size_label,
)
from ioh.tui.render.spark import render_chart, render_spark, resampled

GLYPHS = st.sampled_from([UNICODE, ASCII])
VALUE = st.none() | st.floats(0, 1e15) | st.integers(0, 10**18)
VALUES = st.lists(VALUE, max_size=80)
BUCKET = st.integers(0, LATENCY_BUCKETS - 1)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, ...] | None:
    used = draw(st.dictionaries(BUCKET, st.integers(1, 10**9), max_size=6) | st.none())
    if used is None:
        return None
    return tuple(used.get(b, 0) for b in range(LATENCY_BUCKETS)) if used else ()


def hist(*ops: tuple[int, float, int]) -> SizeLatencyHist:
    """Of (size in bytes, latency in µs, count)."""
    cells = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    for size_bytes, latency_us, count in ops:
        cells[size_index(size_bytes) * LATENCY_BUCKETS + latency_index(latency_us)] += count
    return SizeLatencyHist(tuple(cells))


@given(VALUES, GLYPHS)
def test_a_spark_has_one_bar_a_value(values: list[float | None], glyphs: Glyphs) -> None:
    text = render_spark(values, glyphs)
    assert display_width(text) == len(values)
    for value, bar in zip(values, text, strict=True):
        assert (bar == " ") == (not value), "something above 0 is seen, 0 and unknown are not"
    known = [value for value in values if value]
    if known:
        assert text[values.index(max(known))] == glyphs.bars[-1]


def test_sparks_by_hand() -> None:
    assert render_spark([], UNICODE) == ""
    assert render_spark([None, None], UNICODE) == "  "
    assert render_spark([5.0], UNICODE) == "█"
    assert render_spark([0, 1e-9, 4, 8], UNICODE) == " ▁▄█"
    assert render_spark([1, 2], UNICODE, top=8) == "▁▂"
    assert render_spark([16], UNICODE, top=8) == "█"
    assert render_spark([0, 1, 8], ASCII) == " .@"


@given(VALUES, st.integers(0, 90))
def test_resampling_has_the_width_and_stays_within(values: list[float | None], width: int) -> None:
    made = resampled(values, width)
    assert len(made) == width
    known = [float(value) for value in values if value is not None]
    for value in made:
        if value is not None:
            assert min(known) * 0.999999 <= value <= max(known) * 1.000001


def test_resampling_by_hand() -> None:
    assert resampled([1, 3, None, 5], 2) == [2, 5]
    assert resampled([None, None, 4], 3) == [None, None, 4]
    assert resampled([], 2) == [None, None]


@given(VALUES, st.integers(1, 90), st.integers(1, 12), GLYPHS)
def test_a_chart_has_the_size_asked_for(
    values: list[float | None], width: int, height: int, glyphs: Glyphs
) -> None:
    lines = render_chart(values, width, height, glyphs)
    assert len(lines) == height
    assert {line.width for line in lines} == {max(width, 10)}


def test_a_chart_by_hand() -> None:
    lines = render_chart([None, 0, 1, 50, 100], 14, 2, UNICODE, "read")
    assert [line.text for line in lines] == ["     100     █", "       0   ▁██"]
    assert lines[0].spans[-1] == ("    █", "read")
    assert [line.text for line in render_chart([], 11, 2, UNICODE)] == [
        "       .   ",
        "       0   ",
    ]


@given(st.lists(counts(), max_size=40), st.integers(1, 60), st.integers(1, 30), GLYPHS)
def test_a_heat_map_never_grows_beyond_its_size(
    intervals: list[tuple[int, ...] | None], width: int, height: int, glyphs: Glyphs
) -> None:
    lines = render_heat_map(intervals, width, height, glyphs)
    assert lines
    assert len(lines) <= max(2, height)
    for line in lines[:-1]:
        assert line.width == max(width, 7)


def column(bucket: int, count: int) -> tuple[int, ...]:
    return tuple(count if b == bucket else 0 for b in range(LATENCY_BUCKETS))


def test_a_heat_map_shows_the_slow_above_the_fast_and_the_newest_at_the_right() -> None:
    fast, slow = latency_index(60), latency_index(900)
    lines = [
        line.text
        for line in render_heat_map([column(slow, 5), (), column(fast, 5)], 20, 10, UNICODE)
    ]
    at = [line.strip().split()[0] for line in lines[:-1]]
    assert at[0] == column_label(slow)
    assert at[-1] == column_label(fast)
    assert lines[-2].endswith("█")
    assert lines[0].rstrip().endswith("█")
    assert len(lines[0].rstrip()) == 18
    assert lines[-1].rstrip().endswith("now")


def test_a_heat_map_that_is_too_low_loses_no_operation() -> None:
    fast, slow = latency_index(2), latency_index(9_000_000)
    lines = render_heat_map([column(fast, 5), column(slow, 5)], 12, 4, UNICODE)
    text = [line.text for line in lines[:-1]]
    assert text[-1].rstrip().endswith("█"), "the fast ones are joined with the lowest row"
    assert text[0].endswith("█")


def test_heat_levels_rise_with_counts() -> None:
    levels = [
        heat_level(count, heat_scale(10**6)) for count in (0, 1, 10, 100, 10**4, 10**5, 10**6)
    ]
    assert levels == sorted(levels)
    assert levels[0] == 0
    assert levels[1] >= 1
    assert levels[-1] == HEAT_LEVELS - 1


@given(st.integers(0, 10**18), st.integers(1, 10**18))
def test_a_heat_level_is_one_of_the_scale(count: int, largest: int) -> None:
    scale = heat_scale(largest)
    assert 0 <= heat_level(count, scale) < HEAT_LEVELS
    assert (heat_level(count, scale) == 0) == (count == 0)
    assert heat_level(largest, scale) == HEAT_LEVELS - 1


def test_without_a_histogram_the_table_says_so() -> None:
    assert "not measured" in render_size_latency(None, 60, 5)[0].text
    assert "none in this interval" in render_size_latency(hist(), 60, 5)[0].text


def test_the_table_holds_every_operation() -> None:
    made = hist((8192, 90, 7), (8192, 500, 11), (1 << 20, 3000, 5), (100, 1, 10_000))
    lines = [line.text.split() for line in render_size_latency(made, 200, 20)]
    head, *rows = lines
    assert head[:2] == ["size", "count"]
    assert [row[:2] for row in rows] == [[".5K", "10k"], ["8K", "18"], ["1M", "5"]] or [
        row[:2] for row in rows
    ] == [["512", "10k"], ["8K", "18"], ["1M", "5"]]
    by_time = dict(zip(head[2:], rows[1][2:], strict=True))
    assert by_time[column_label(latency_index(90))] == "7"
    assert by_time[column_label(latency_index(500))] == "11"
    assert set(by_time.values()) == {"7", "11", "."}


@pytest.mark.parametrize("width", [1, 14, 20, 26, 40, 80])
def test_a_narrow_table_joins_columns_and_loses_nothing(width: int) -> None:
    made = hist(*((4096, 1 << n, n + 1) for n in range(20)))
    head, row = (line.text.split() for line in render_size_latency(made, width, 5))
    assert len(head) == len(row)
    assert row[1] == "210"
    assert sum(int(cell) for cell in row[2:]) == 210
    if len(head) < 20:
        assert head[2].startswith("≤") or head[-1].startswith(">")


def test_a_low_table_keeps_the_busiest_sizes() -> None:
    made = hist((4096, 50, 100), (8192, 50, 3), (65536, 50, 70), (1 << 20, 50, 1))
    sizes = [line.text.split()[0] for line in render_size_latency(made, 60, 3)[1:]]
    assert sizes == ["4K", "64K"]
    assert len(render_size_latency(made, 60, 1)) == 2


def test_labels_name_the_upper_edge_and_more() -> None:
    assert [size_label(n) for n in (4, SIZE_BUCKETS - 1)] == ["8K", ">16M"]
    assert column_label(LATENCY_BUCKETS - 1).startswith(">")


def test_sizes_without_a_line_are_counted() -> None:
    four = hist(*((1024 << n, 50.0, n + 1) for n in range(4)))
    assert hidden_sizes(None, 5) == hidden_sizes(hist(), 1) == 0
    for height in (1, 2, 3, 4, 5, 9):
        lines = render_size_latency(four, 80, height)
        assert hidden_sizes(four, height) == 4 - (len(lines) - 1)


def test_the_time_axis_tells_the_time_that_passed() -> None:
    """One interval was as long as ioh stood still."""
    counts_now = (0,) * 9 + (5,) + (0,) * (LATENCY_BUCKETS - 10)
    intervals = [counts_now] * 10
    lengths = [1.0] * 8 + [37.0, 1.0]
    axis = render_heat_map(intervals, 26, 5, UNICODE, lengths)[-1].text
    assert axis.split() == ["-56", "s", "-46", "s", "now"]
    assert render_heat_map(intervals, 26, 5, UNICODE)[-1].text.split()[0] == "-20"
    fast = render_heat_map(intervals, 26, 5, UNICODE, [0.5] * 10)[-1].text
    assert fast.split() == ["-10", "s", "-5", "s", "now"]
