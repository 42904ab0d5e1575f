"""Operations by the thousand: latencies apportioned to buckets, and totals that add them up."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import NamedTuple

from ioh.model.hist import (
    FINE_BUCKETS,
    FINE_EDGES_US,
    LATENCY_BUCKETS,
    SIZE_BUCKETS,
    SUB_BUCKETS,
    LatencyHist,
    SizeLatencyHist,
    fine_index,
    latency_index,
    size_index,
)
from ioh.model.sample import OpTotals

# A fine bucket holds (_EDGES_NS[i], _EDGES_NS[i + 1]] and lies in one bucket of the table.
_EDGES_NS = (0, *(math.floor(edge * 1000) for edge in FINE_EDGES_US))
_COARSE = tuple(latency_index(edge) for edge in FINE_EDGES_US)
_LOWEST = fine_index(500)
_STEPS = 8  # of a shape to a power of two; finer would cost more than anyone sees
_STRIDE = SUB_BUCKETS // _STEPS
_FEW = 24  # operations, of which one looks up each


class Shape(NamedTuple):
    """How latencies spread around their median.

    Shape:
        ``upto[i]`` is the share of operations up to ``first + i`` steps of 1/_STEPS octave from
        the median; ``mean_factor`` is the mean over the median.
    """

    first: int
    upto: tuple[float, ...]
    mean_factor: float


def make_shape(sigma: float, slow_share: float, slow_factor: float) -> Shape:
    """Two log-normal humps: nearly all operations, and a few slow ones.

    Args:
        sigma: Width of both, in powers of two.
        slow_share: Share of the second hump.
        slow_factor: Its median over that of the first.
    """
    slow = math.log2(slow_factor)
    first, last = round(-3.5 * sigma * _STEPS), round((slow + 3.0 * sigma) * _STEPS)
    octaves = [at / _STEPS for at in range(first, last + 1)]
    weights = [
        (1 - slow_share) * math.exp(-((x / sigma) ** 2) / 2)
        + slow_share * math.exp(-(((x - slow) / sigma) ** 2) / 2)
        for x in octaves
    ]
    whole = sum(weights)
    upto = tuple(upto / whole for upto in accumulate(weights))
    mean = sum(w * 2**x for w, x in zip(weights, octaves, strict=True)) / whole
    return Shape(first, (*upto[:-1], 1.0), mean)


STEADY = make_shape(0.25, 0.01, 3.0)
UNEVEN = make_shape(0.45, 0.02, 6.0)


class Batch(NamedTuple):
    """Operations of one size that ended in one tick.

    Shape:
        ``cells`` are (fine latency bucket, operations in it); they add up to ``operations``.
    """

    size_bytes: int
    operations: int
    ns_total: int
    max_ns: int
    cells: tuple[tuple[int, int], ...]

    @property
    def bytes_total(self) -> int:
        """Payload of all of them."""
        return self.operations * self.size_bytes


class Dice:
    """All chance of one tick: the same for the same seed and tick, whatever came before."""

    def __init__(self, seed: int, tick: int) -> None:
        self._random = Random(f"ioh demo {seed} {tick}")  # noqa: S311 (no secret)

    def around(self, value: float, spread: float = 0.05) -> float:
        """``value``, up to ``spread`` of it more or less."""
        return value * (1 + spread * (2 * self._random.random() - 1))

    def count(self, expected: float) -> int:
        """A whole number that is ``expected`` on average."""
        return int(expected + self._random.random())

    def batch(self, count: int, size_bytes: int, median_us: float, shape: Shape = UNEVEN) -> Batch:
        """``count`` operations with latencies of that shape."""
        return self.batches(count, size_bytes, (median_us,), shape)[0]

    def batches(
        self, count: int, size_bytes: int, medians_us: Sequence[float], shape: Shape = UNEVEN
    ) -> list[Batch]:
        """The same operations in several layers: what is slow in one is slow in the others."""
        offset, within = self._random.random(), self._random.random()
        spread = _spread(count, shape, offset)
        return [_placed(spread, count, size_bytes, us, within) for us in medians_us]


def _spread(count: int, shape: Shape, offset: float) -> list[tuple[int, int]]:
    """(Steps above the median, operations) of ``count`` operations at even ranks."""
    if count < _FEW:
        ranks = ((rank + 1 - offset) / count for rank in range(count))
        return [(shape.first + bisect_left(shape.upto, rank), 1) for rank in ranks]
    ranked = [int(count * share + offset) for share in shape.upto]
    return [
        (at, upto - before)
        for at, (before, upto) in enumerate(pairwise((0, *ranked)), shape.first)
        if upto != before
    ]


def _placed(
    spread: list[tuple[int, int]], count: int, size_bytes: int, median_us: float, within: float
) -> Batch:
    """Those operations around a median; each ``within`` its bucket, from lower edge to upper."""
    median = fine_index(int(median_us * 1000))
    ns_total = max_ns = 0
    cells = []
    for at, operations in spread:
        bucket = min(max(median + at * _STRIDE, _LOWEST), FINE_BUCKETS - 2)
        low = _EDGES_NS[bucket]
        max_ns = low + 1 + int((_EDGES_NS[bucket + 1] - low - 1) * within)
        ns_total += operations * max_ns
        cells.append((bucket, operations))
    return Batch(size_bytes, count, ns_total, max_ns, tuple(cells))


class OpCounter:
    """Running totals of one op, as a probe's map holds them.

    Args:
        queue: Whether the layer knows queue times.
        started: Whether it knows what was begun and has not ended.
    """

    def __init__(self, *, queue: bool, started: bool) -> None:
        self._queue, self._started = queue, started
        self.count = self.bytes = self.ns = self.queue_ns = 0
        self._tick_ns = 0
        self._slowest = (0, 0)
        self._fine = [0] * FINE_BUCKETS
        self._cells = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
        self._latency, self._size_lat = LatencyHist(), SizeLatencyHist()
        self._is_changed = False

    def add(self, batch: Batch, queue_us: float = 0.0) -> None:
        """Count a batch whose operations waited ``queue_us`` of their time, each."""
        if not batch.operations:
            return
        self.count += batch.operations
        self.bytes += batch.bytes_total
        self.ns += batch.ns_total
        self.queue_ns += min(batch.ns_total, int(batch.operations * queue_us * 1000))
        self._tick_ns += batch.ns_total
        self._slowest = max(self._slowest, (batch.max_ns, batch.size_bytes))
        row = size_index(batch.size_bytes) * LATENCY_BUCKETS
        for bucket, count in batch.cells:
            self._fine[bucket] += count
            self._cells[row + _COARSE[bucket]] += count
        self._is_changed = True

    def inflight(self, interval_ns: int, dice: Dice) -> int:
        """How many are under way, by Little's law from this tick's; ask before totals()."""
        return dice.count(self._tick_ns / interval_ns) if self._tick_ns else 0

    def totals(self, inflight: int | None) -> OpTotals:
        """The totals now, with the slowest operation since the reading before."""
        if self._is_changed:
            self._latency = LatencyHist(tuple(self._fine))
            self._size_lat = SizeLatencyHist(tuple(self._cells))
            self._is_changed = False
        (max_ns, max_bytes), self._slowest, self._tick_ns = self._slowest, (0, 0), 0
        return OpTotals(
            count_total=self.count,
            bytes_total=self.bytes,
            errors_total=0,
            latency_ns_total=self.ns,
            queue_ns_total=self.queue_ns if self._queue else None,
            queued_total=self.count if self._queue else None,
            started_total=self.count + (inflight or 0) if self._started else None,
            max_ns=max_ns,
            max_bytes=max_bytes,
            inflight=inflight,
            latency=self._latency,
            size_lat=self._size_lat,
        )


class Share(NamedTuple):
    """Who did it: keys, and the share of operations up to each of them."""

    keys: tuple[tuple[tuple[str, ...], ...], ...]
    upto: tuple[float, ...]

    def of(self, batch: Batch) -> Iterator[tuple[tuple[tuple[str, ...], ...], int, int, int]]:
        """Each key with its operations, bytes and ns; they add up to the batch's."""
        before = ns_before = 0
        for keys, share in zip(self.keys, self.upto, strict=True):
            upto = int(batch.operations * share + 0.5)
            if upto > before:
                ns_upto = batch.ns_total * upto // batch.operations
                count = upto - before
                yield keys, count, count * batch.size_bytes, ns_upto - ns_before
                before, ns_before = upto, ns_upto


def shared(*weighted: tuple[float, tuple[tuple[str, ...], ...]]) -> Share:
    """A Share from weights and keys."""
    upto = list(accumulate(weight for weight, _ in weighted))
    return Share(tuple(keys for _, keys in weighted), (*(u / upto[-1] for u in upto[:-1]), 1.0))
