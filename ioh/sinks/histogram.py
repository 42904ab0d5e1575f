"""Latency histograms in the style of ioh.sh: counts by powers of two, zeros as dots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ioh.model.hist import LATENCY_EDGES_US, SIZE_BUCKETS, SIZE_EDGES_BYTES, SizeLatencyHist
from ioh.sinks.cells import UNKNOWN, ZERO, latency_label, pad_left

DEFAULT_COLUMN_WIDTH = 6


@dataclass(frozen=True, slots=True)
class HistStyle:
    """Width of a histogram.

    ``column_width`` None: DEFAULT_COLUMN_WIDTH, or less to fit ``width``; ``pad`` is printed after
    each column.
    """

    width: int = 80
    column_width: int | None = None
    pad: str = ""


@dataclass(frozen=True, slots=True)
class HistRow:
    """One line: the text before the columns, and the counts by latency (None: not known)."""

    head: str
    counts: Sequence[int] | None


def render_columns(head: str, rows: Sequence[HistRow], style: HistStyle) -> list[str]:
    """A heading and one line per row, from the lowest to the highest column in use.

    A row ends at its own last count, as in ioh.sh.
    """
    columns = [b for row in rows for b, count in enumerate(row.counts or ()) if count]
    first, last = (min(columns), max(columns)) if columns else (0, 0)
    labels = [_latency_label(bucket) for bucket in range(first, last + 1)]
    cells = [_cells(row.counts, first, last) for row in rows]
    width = style.column_width
    if width is None:
        longest = max(len(text) for line in [labels, *cells] for text in line)
        room = (style.width - len(head)) // len(labels) - len(style.pad)
        width = max(longest + 1, min(DEFAULT_COLUMN_WIDTH, room))
    return [
        (left + "".join(pad_left(cell, width) + style.pad for cell in line)).rstrip()
        for left, line in zip([head, *(r.head for r in rows)], [labels, *cells], strict=True)
    ]


def _cells(counts: Sequence[int] | None, first: int, last: int) -> list[str]:
    if counts is None:
        return [UNKNOWN]
    last_counts = list(counts[first : last + 1]) or [0]
    while len(last_counts) > 1 and not last_counts[-1]:
        last_counts.pop()
    return [str(count) if count else ZERO for count in last_counts]


def render_by_size(mark: str, hist: SizeLatencyHist, style: HistStyle) -> list[str]:
    """One line per size in use: median time, size, counts by latency."""
    rows = []
    for size in range(SIZE_BUCKETS):
        counts = hist.row(size)
        if any(counts):
            head = f"{mark} {_median(counts):>6} {_size_label(size):>8}"
            rows.append(HistRow(head, counts))
    return render_columns(f"{'':2}{'median':>6} {'size_kb':>8}", rows, style)


def _median(counts: Sequence[int]) -> str:
    """Upper edge of the median's column; above the last edge, that edge with +."""
    half = (sum(counts) + 1) // 2
    return _latency_label(bisect_left(list(accumulate(counts)), half))


def _latency_label(bucket: int) -> str:
    """The bucket's upper edge; for the last, unbounded bucket, the edge before with +."""
    if bucket < len(LATENCY_EDGES_US):
        return latency_label(LATENCY_EDGES_US[bucket])
    return latency_label(LATENCY_EDGES_US[-1]) + "+"


def _size_label(size: int) -> str:
    if size < len(SIZE_EDGES_BYTES):
        edge = SIZE_EDGES_BYTES[size]
        return str(edge // 1024) if edge >= 1024 else f"{edge / 1024:g}"
    return f"{SIZE_EDGES_BYTES[-1] // 1024}+"
