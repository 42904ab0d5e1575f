"""Histograms: size × latency on one axis that never changes; heat maps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import groupby, pairwise

from ioh.model.hist import (
    LATENCY_BUCKETS,
    LATENCY_EDGES_US,
    SIZE_BUCKETS,
    SIZE_EDGES_BYTES,
    SizeLatencyHist,
)
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import format_scaled, latency_label
from ioh.sinks.rows import is_flow
from ioh.terminal.line import Line
from ioh.tui.render.trends import newest, watched_s

_SHADES = " ░░▒▒▓▓█"  # of each heat level; all above 0 are visible
HEAT_LEVELS = len(_SHADES)
SIZE_COLUMNS = 5
_SUM = 6
_TIME = 5  # columns of a heat map's labels
_NUMBERS, _WITH_LABEL = 4, 5  # columns of a cell with its count, and of one with its label


def size_label(size: int) -> str:
    """The largest size of a row, such as ``8K``."""
    if size < len(SIZE_EDGES_BYTES):
        return format_scaled(SIZE_EDGES_BYTES[size], 1024)
    return ">" + format_scaled(SIZE_EDGES_BYTES[-1], 1024)


def size_bytes(size: int) -> int:
    """The largest size of a row, or a lower bound for the last one."""
    return SIZE_EDGES_BYTES[min(size, len(SIZE_EDGES_BYTES) - 1)]


def column_label(bucket: int) -> str:
    """The longest time of a column, such as ``64µs``."""
    if bucket < len(LATENCY_EDGES_US):
        return latency_label(LATENCY_EDGES_US[bucket], "µs", "ms")
    return ">" + latency_label(LATENCY_EDGES_US[-1])


def heat_scale(largest: float) -> list[float]:
    """The smallest count of each heat level from 1 on; ``largest``, above 0, has the last level.

    The level grows with the logarithm to the power of 1.5: a tail of one in a thousand is visible,
    but not as bright as the body.
    """
    top = HEAT_LEVELS - 1
    shares = [((level - 0.5) / top) ** (2 / 3) for level in range(2, HEAT_LEVELS)]
    # Everything above 0 is visible.
    return [5e-324, *((1 + largest) ** share - 1 for share in shares)]


@dataclass(frozen=True, slots=True)
class Axis:
    """Latencies from left to right; depends only on the width, so columns never move.

    Shape:
        ``each`` is how many buckets a column has, ``cell`` is its width.
    """

    each: int
    cell: int

    @property
    def width(self) -> int:
        """Terminal columns."""
        return len(self.buckets) * self.cell

    @property
    def buckets(self) -> range:
        """The slowest bucket of each column."""
        return range((LATENCY_BUCKETS - 1) % self.each, LATENCY_BUCKETS, self.each)

    def is_labelled(self, bucket: int) -> bool:
        """Whether a column has its time above it."""
        step = -(-_WITH_LABEL // self.cell) * self.each
        return (LATENCY_BUCKETS - 1 - bucket) % step == 0

    def heading(self, before: int) -> str:
        """The longest time of each labelled column, right-aligned above it.

        The first label may use ``before`` columns to the left of the axis.
        """
        text = " " * (before + self.width)
        for column, bucket in enumerate(self.buckets, 1):
            end, label = before + column * self.cell, column_label(bucket)
            begin = end - len(label)
            if self.is_labelled(bucket) and begin > 0 and text[begin - 1 : end].isspace():
                text = text[:begin] + label + text[end:]
        return text

    def joined(self, counts: Sequence[int]) -> list[int]:
        """Counts by LATENCY_EDGES_US, one for each column."""
        ends = [0, *(bucket + 1 for bucket in self.buckets)]
        return [sum(counts[begin:end]) for begin, end in pairwise(ends)]


def axis_for(room: int, widest: int = 2) -> Axis:
    """The axis that fits ``room`` terminal columns, each at most ``widest`` wide."""
    each = -(-LATENCY_BUCKETS // max(1, room))
    return Axis(each, max(1, min(widest, room // LATENCY_BUCKETS)))


def shaded(line: Line, counts: Sequence[int], axis: Axis, style: str, *, largest: int) -> Line:
    """Append a row of cells to ``line``; fuller cells have more operations."""
    scale = heat_scale(max(1, largest))
    cells = [
        (_SHADES[bisect_right(scale, count)], style)
        if count
        else ("·" if axis.is_labelled(bucket) else " ", "rule")
        for bucket, count in zip(axis.buckets, axis.joined(counts), strict=True)
    ]
    for (char, kind), run in groupby(cells):
        count = len(list(run))
        if kind == "rule":
            line.add((" " * (axis.cell - 1) + char) * count, kind)
        else:
            line.add(char * axis.cell * count, kind)
    return line


def used_sizes(hist: SizeLatencyHist) -> list[int]:
    """The sizes with operations."""
    return [size for size in range(SIZE_BUCKETS) if any(hist.row(size))]


def _count(value: int) -> str:
    """A count in three columns."""
    if value < 1000:
        return str(value) if value else "."
    if value < 99_500:
        return f"{value / 1e3:.0f}k"
    return f".{value / 1e5:.0f}M" if value < 950_000 else f"{value / 1e6:.0f}M"


def histogram_of(layer: LayerSnapshot, stats: OpStats) -> SizeLatencyHist | None:
    """An op's latencies by size; an empty histogram if the probes counted no operations.

    A flow's ops have instead connections by round-trip time at the interval's end, of no size.
    """
    if is_flow(layer.spec):
        every = (layer.gauge_hists.get(spec.name) or () for spec in layer.spec.gauge_hists)
        counts = next(every, ())[:LATENCY_BUCKETS]
        return SizeLatencyHist((*counts, *[0] * (SIZE_BUCKETS * LATENCY_BUCKETS - len(counts))))
    if stats.size_lat is None and stats.count == 0 and layer.source != "proc":
        return SizeLatencyHist()
    return stats.size_lat


def hidden_sizes(hist: SizeLatencyHist | None, height: int) -> int:
    """How many sizes in use do not fit a table of ``height`` lines."""
    return max(0, len(used_sizes(hist)) - max(1, height - 1)) if hist is not None else 0


def render_size_latency(
    hist: SizeLatencyHist | None, width: int, height: int, style: str, *, has_bytes: bool = True
) -> list[Line]:
    """A heading and one line for each size in use, or for the busiest ones that fit.

    Operations without bytes, such as syncs, have one line.  A column has the times up to its
    heading and above the previous one; cells are counts if there is room, else shades.
    """
    if hist is None:
        return [Line("this source has no histogram", "dim")]
    if not hist.total:
        return [Line(" nothing in this interval", "dim")]
    axis = axis_for(width - SIZE_COLUMNS - 2 - _SUM, _WITH_LABEL)
    busiest = nlargest(max(1, height - 1), used_sizes(hist), key=lambda size: sum(hist.row(size)))
    rows = {size: hist.row(size) for size in sorted(busiest)}
    largest = max(max(axis.joined(row)) for row in rows.values())
    scale = heat_scale(largest)
    head = Line().right("size", SIZE_COLUMNS, "head").cell("count", _SUM, "head")
    lines = [head.add(axis.heading(1), "head")]
    for size, row in rows.items():
        line = Line().right(size_label(size) if has_bytes else "all", SIZE_COLUMNS, "strong")
        line.cell(str(sum(row)), _SUM).add(" ")
        if axis.cell < _NUMBERS:
            shaded(line, row, axis, style, largest=largest)
        for count in axis.joined(row) if axis.cell >= _NUMBERS else ():
            heat = f"heat{bisect_right(scale, count)}" if count else "dim"
            line.cell(_count(count), axis.cell - 1, heat)
        lines.append(line)
    return lines


def render_heat_map(
    intervals: Sequence[tuple[int, ...] | None],
    width: int,
    height: int,
    lengths_s: Sequence[float | None] = (),
) -> list[Line]:
    """Latency over time: columns are intervals, lines are latencies, colours are counts.

    Shows the newest intervals that fit, newest at the right; unknown ones are blank.  If not all
    latencies fit, each line has two or more of them, labelled with the longest.

    Args:
        intervals: Counts by LATENCY_EDGES_US of each interval, oldest first; ``()`` for none.
        width: Columns, with the labels.
        height: Lines, with the time axis.
        lengths_s: Length of each interval, for the time axis; unknown ones count as typical.
    """
    columns = max(1, width - _TIME - 1)
    shown = newest(intervals, columns)
    found = [counts for counts in shown if counts]
    used = [b for b, total in enumerate(map(sum, zip(*found, strict=True))) if total]
    if not used:
        return [Line("no known latencies in this period", "dim")]
    low, high = used[0], used[-1]
    step = -(-(high - low + 1) // max(1, height - 1))
    nothing = (0,) * (high + 1)
    by_bucket = list(zip(*((counts or nothing)[low : high + 1] for counts in shown), strict=True))
    rows = {
        min(low + at + step - 1, high): list(map(sum, zip(*by_bucket[at : at + step], strict=True)))
        for at in range(0, len(by_bucket), step)
    }
    scale = heat_scale(max(map(max, rows.values())))
    lines = []
    for bucket, row in reversed(rows.items()):
        line = Line().right(column_label(bucket), _TIME, "head").add(" ")
        for level, run in groupby([bisect_right(scale, count) for count in row]):
            line.add(_SHADES[level] * len(list(run)), f"heat{level}" if level else "")
        lines.append(line)
    return [*lines, _time_axis(columns, lengths_s)]


def _time_axis(columns: int, lengths_s: Sequence[float | None]) -> Line:
    spent, line = watched_s(newest(lengths_s, columns)), Line()
    first = columns - len(spent)
    for at in (first, max(first, columns // 2)):
        text, place = f"-{sum(spent[at - first :]):.0f} s", at - (at != first) * 2
        if line.width <= _TIME + place and place + len(text) < columns - 3:
            line.to(_TIME + 1 + place).add(text, "dim")
    return line.to(_TIME + 1 + columns - 3).add("now", "dim")
