"""Latency and size × latency histograms: edges, bucket lookup, subtraction, percentiles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, compress
from operator import add, sub
from typing import TypeVar

# The fine latency axis has units of 1/128 µs and splits each power of two into SUB_BUCKETS.  So a
# bucket's upper edge is at most 1/16 = 6.25 % above any value in it.
UNITS_PER_US = 128
SUB_BITS = 4
SUB_BUCKETS = 1 << SUB_BITS
LATENCY_MAX_LOG2_US = 27  # 134 s; anything longer is in the last bucket
_TOP_LOG2_UNITS = LATENCY_MAX_LOG2_US + 7
FINE_BUCKETS = (_TOP_LOG2_UNITS - SUB_BITS + 1) * SUB_BUCKETS + 1

SIZE_MIN_LOG2 = 9
SIZE_MAX_LOG2 = 24
SIZE_EDGES_BYTES = tuple(1 << n for n in range(SIZE_MIN_LOG2, SIZE_MAX_LOG2 + 1))
SIZE_BUCKETS = len(SIZE_EDGES_BYTES) + 1

TABLE_MAX_LOG2_US = 24
LATENCY_EDGES_US = tuple(1 << n for n in range(TABLE_MAX_LOG2_US + 1))
LATENCY_BUCKETS = len(LATENCY_EDGES_US) + 1


def _fine_edge_us(index: int) -> float:
    """Upper edge of fine bucket ``index``, inclusive."""
    if index < SUB_BUCKETS:
        return (index + 1) / UNITS_PER_US
    octave, part = divmod(index, SUB_BUCKETS)
    return ((SUB_BUCKETS + part + 1) << (octave - 1)) / UNITS_PER_US


FINE_EDGES_US = tuple(_fine_edge_us(i) for i in range(FINE_BUCKETS - 1))
_FINE_INDICES = range(FINE_BUCKETS)


def fine_index(latency_ns: int) -> int:
    """Fine latency bucket of an operation; same arithmetic as in ``probes/ioh.h``."""
    units = (latency_ns * 16 - 1) // 125 if latency_ns > 0 else 0
    if units < SUB_BUCKETS:
        return units
    log2 = units.bit_length() - 1
    if log2 >= _TOP_LOG2_UNITS:
        return FINE_BUCKETS - 1
    return ((log2 - SUB_BITS + 1) << SUB_BITS) + ((units >> (log2 - SUB_BITS)) & (SUB_BUCKETS - 1))


def latency_index(latency_us: float) -> int:
    """Bucket of LATENCY_EDGES_US that holds ``latency_us``; the last one for anything larger."""
    return bisect_left(LATENCY_EDGES_US, latency_us)


_Hist = TypeVar("_Hist", bound="_Counts")
_FEW_HISTS = 3  # up to this number, adding one by one is faster than by column


@dataclass(frozen=True, slots=True)
class _Counts:
    counts: tuple[int, ...] = ()

    def __sub__(self: _Hist, older: _Hist) -> _Hist:  # noqa: PYI019 (Self came with Python 3.11)
        newer, before = self.counts, older.counts
        if not before:
            return self
        if newer is before or newer == before or not newer:
            return type(self)()
        return type(self)(tuple(map(sub, newer, before)))

    def __add__(self: _Hist, other: _Hist) -> _Hist:  # noqa: PYI019
        if not self.counts or not other.counts:
            return self if self.counts else other
        return type(self)(tuple(map(add, self.counts, other.counts)))

    @property
    def total(self) -> int:
        """Operations counted."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class LatencyHist(_Counts):
    """Latencies as counts, fine enough for percentiles.

    Shape:
        ``counts[b]`` for FINE_EDGES_US plus a last bucket for longer ones.  Bucket ``b`` has values
        in ``(edge[b-1], edge[b]]``.  ``()`` means all zero.

    Units:
        Edges in µs.  Counts are completed operations since attach: histograms can be subtracted
        and added, but not averaged.

    Source:
        The ``latency`` part of map ``totals`` in ``probes/<layer>.c``.
    """

    def percentiles_us(self, quantiles: tuple[float, ...]) -> tuple[float | None, ...]:
        """Upper edge of each rank's bucket: at most 6.25 % above the true value.

        None for a quantile that needs more operations (p99 below 100), and for one in the last
        bucket, which has no upper edge.
        """
        counts = self.counts
        hit = list(compress(_FINE_INDICES, counts))
        running = list(accumulate(map(counts.__getitem__, hit)))
        total = running[-1] if running else 0
        edges_us: list[float | None] = []
        for q in quantiles:
            if not has_percentile(total, q):
                edges_us.append(None)
                continue
            rank = max(1, -int(-(q * total - 1e-9) // 1))
            bucket = hit[bisect_left(running, rank)]
            edges_us.append(FINE_EDGES_US[bucket] if bucket < len(FINE_EDGES_US) else None)
        return tuple(edges_us)


@dataclass(frozen=True, slots=True)
class SizeLatencyHist(_Counts):
    """Latencies by operation size, as counts.

    Shape:
        Row-major ``counts[size * LATENCY_BUCKETS + latency]``; ``size`` indexes
        SIZE_EDGES_BYTES, ``latency`` LATENCY_EDGES_US.  Each axis has an extra last bucket for
        larger values; bucket ``i`` has ``(edge[i-1], edge[i]]``.  ``()`` means all zero.

    Units:
        Edges in bytes and µs; counts are completed operations since attach.

    Source:
        The ``size_lat`` part of map ``totals`` in ``probes/<layer>.c``, which gets the edges as
        ``-D`` flags made from the constants above.
    """

    def row(self, size: int) -> tuple[int, ...]:
        """Counts by latency in one size bucket."""
        if not self.counts:
            return (0,) * LATENCY_BUCKETS
        return self.counts[size * LATENCY_BUCKETS : (size + 1) * LATENCY_BUCKETS]

    def by_size(self) -> dict[int, int]:
        """Counts by the largest size of a bucket in bytes, those in use; larger ones as twice."""
        edges = (*SIZE_EDGES_BYTES, 2 * SIZE_EDGES_BYTES[-1])
        counts = ((edge, sum(self.row(at))) for at, edge in enumerate(edges))
        return {edge: count for edge, count in counts if count}

    def by_latency(self) -> tuple[int, ...]:
        """Counts by latency, over all sizes."""
        counts, idle, step = self.counts, (0,) * LATENCY_BUCKETS, LATENCY_BUCKETS
        rows = [counts[at : at + step] for at in range(0, len(counts), step)]
        busy = [row for row in rows if row != idle]
        return tuple(map(sum, zip(*busy, strict=True))) if busy else idle


def add_hists(several: Sequence[_Hist]) -> _Hist:
    """Add histograms; at least one."""
    counts = [hist.counts for hist in several if hist.counts]
    if len(counts) <= _FEW_HISTS:
        return reduce(add, several)
    return type(several[0])(tuple(map(sum, zip(*counts, strict=True))))


def has_percentile(total: int, quantile: float) -> bool:
    """Whether ``total`` operations are enough for the quantile."""
    # 1e-9: 1/(1-0.99) is 99.99999999999991 in binary floating point.
    return total * (1 - quantile) >= 1 - 1e-9
