"""The size × latency table, as ioh.sh printed it: rows are sizes, columns times, cells counts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ioh.model.hist import LATENCY_EDGES_US, SIZE_BUCKETS, SIZE_EDGES_BYTES, SizeLatencyHist
from ioh.sinks.cells import format_scaled, latency_label
from ioh.tui.render.line import Line

HEAT_LEVELS = 8
_CELL = 5
_SUM = 6


def size_label(size: int) -> str:
    """The largest size of a row, such as ``8K``."""
    if size < len(SIZE_EDGES_BYTES):
        return format_scaled(SIZE_EDGES_BYTES[size], 1024)
    return ">" + format_scaled(SIZE_EDGES_BYTES[-1], 1024)


def column_label(bucket: int) -> str:
    """The longest time of a column, such as ``64u``."""
    if bucket < len(LATENCY_EDGES_US):
        return latency_label(LATENCY_EDGES_US[bucket])
    return ">" + latency_label(LATENCY_EDGES_US[-1])


def heat_scale(largest: float) -> list[float]:
    """The smallest count of each level from 1 on, ``largest``, above 0, being of the last one.

    By the power 1.5 of the logarithm's share: a tail of one in a thousand must be seen, and
    not as bright as the body.
    """
    top = HEAT_LEVELS - 1
    shares = [((level - 0.5) / top) ** (2 / 3) for level in range(2, HEAT_LEVELS)]
    # Anything above 0 is to be seen.
    return [5e-324, *((1 + largest) ** share - 1 for share in shares)]


def heat_level(count: float, scale: Sequence[float]) -> int:
    """How hot a count is, 0 (none) to HEAT_LEVELS - 1."""
    return bisect_right(scale, count)


def _used(hist: SizeLatencyHist) -> tuple[list[int], int, int]:
    """Sizes in use, first and last latency column in use."""
    sizes = [size for size in range(SIZE_BUCKETS) if any(hist.row(size))]
    columns = [b for size in sizes for b, count in enumerate(hist.row(size)) if count]
    return sizes, min(columns, default=0), max(columns, default=0)


def _columns(hist: SizeLatencyHist, first: int, last: int, room: int) -> tuple[int, int]:
    """As many columns as fit: those at the edges that hold least are joined with the next."""
    by_latency = hist.by_latency()
    while last - first + 1 > max(1, room):
        if sum(by_latency[: first + 1]) <= sum(by_latency[last:]):
            first += 1
        else:
            last -= 1
    return first, last


def _count(value: int) -> str:
    return "." if not value else (str(value) if value < 10_000 else format_scaled(value))


def hidden_sizes(hist: SizeLatencyHist | None, height: int) -> int:
    """How many sizes in use have no line of their own in a table of so many lines."""
    return max(0, len(_used(hist)[0]) - max(1, height - 1)) if hist is not None else 0


def render_size_latency(hist: SizeLatencyHist | None, width: int, height: int) -> list[Line]:
    """A heading and one line for each size in use, the busiest ones where not all fit.

    A column holds times up to its heading and above the one before; where columns were joined
    to fit, ``≤`` or ``≥`` stands before the outermost headings.
    """
    if hist is None:
        return [Line("not measured by this source: it knows no histogram", "dim")]
    if not hist.total:
        return [Line("none in this interval", "dim")]
    sizes, low, high = _used(hist)
    room = (width - _CELL - 1 - _SUM - 1) // (_CELL + 1)
    first, last = _columns(hist, low, high, room)
    if len(sizes) > height - 1:
        busiest = sorted(sizes, key=lambda s: -sum(hist.row(s)))[: max(1, height - 1)]
        sizes = sorted(busiest)
    rows = [_joined(hist.row(size), first, last) for size in sizes]
    scale = heat_scale(max(max(row) for row in rows))
    lines = [_heading(first, last, low, high)]
    for size, counts in zip(sizes, rows, strict=True):
        line = Line().right(size_label(size), _CELL, "strong")
        line.cell(_count(sum(counts)), _SUM)
        for count in counts:
            style = f"heat{heat_level(count, scale)}" if count else "dim"
            line.cell(_count(count), _CELL, style)
        lines.append(line)
    return lines


def _heading(first: int, last: int, low: int, high: int) -> Line:
    line = Line().right("size", _CELL, "head").cell("count", _SUM, "head")
    for bucket in range(first, last + 1):
        label = column_label(bucket)
        if bucket == first and first > low:
            label = "≤" + label
        if bucket == last and last < high:
            label = ">" + column_label(bucket - 1)
        line.cell(label, _CELL, "head")
    return line


def _joined(counts: Sequence[int], first: int, last: int) -> list[int]:
    shown = list(counts[first : last + 1])
    shown[0] += sum(counts[:first])
    shown[-1] += sum(counts[last + 1 :])
    return shown
