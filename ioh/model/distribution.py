"""An op's histograms and percentiles over one interval, computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, attrgetter
from typing import TypeVar

from ioh.model.hist import FINE_EDGES_US, LatencyHist, SizeLatencyHist, fine_index
from ioh.model.sample import OpTotals

_Hist = TypeVar("_Hist", LatencyHist, SizeLatencyHist)


class Distribution:
    """Histograms and percentiles of an op; None if its totals lack either kind of histogram.

    The sum of all ``older`` totals is the earlier reading.  ``max_us``: the interval's slowest
    operation.  ``count``: its operations; if the histogram lacks more than 1 % of them, percentiles
    are not known.
    """

    __slots__ = ("_count", "_max_us", "_newer", "_older")

    def __init__(
        self,
        older: Sequence[OpTotals] = (),
        newer: Sequence[OpTotals] = (),
        max_us: float | None = None,
        count: int = 0,
    ) -> None:
        self._older, self._newer, self._max_us, self._count = older, newer, max_us, count

    def latency(self) -> LatencyHist | None:
        """The latency histogram of the interval."""
        return self._increments(attrgetter("latency"), LatencyHist())

    def size_lat(self) -> SizeLatencyHist | None:
        """The size × latency histogram of the interval."""
        return self._increments(attrgetter("size_lat"), SizeLatencyHist())

    def _increments(self, of: Callable[[OpTotals], _Hist | None], nothing: _Hist) -> _Hist | None:
        if not any(op.latency for op in self._newer) or not any(op.size_lat for op in self._newer):
            return None
        hists = [(of(old), of(new)) for old, new in zip(self._older, self._newer, strict=True)]
        changed = [new - (old or nothing) for old, new in hists if new and new is not old]
        return reduce(add, changed, nothing)

    def percentiles_us(
        self, latency: LatencyHist | None, quantiles: tuple[float, ...]
    ) -> tuple[float | None, ...]:
        """Upper edges of the ranks' buckets, or the maximum itself if it is in that bucket."""
        # One less: an operation may end while it is read.
        if latency is None or latency.total < self._count * 0.99 - 1:
            return (None,) * len(quantiles)
        percentiles_us, max_us = latency.percentiles_us(quantiles), self._max_us
        if not max_us:
            return percentiles_us
        top_edge_us = FINE_EDGES_US[min(fine_index(int(max_us * 1e3)), len(FINE_EDGES_US) - 1)]
        return tuple(max_us if p is not None and p == top_edge_us else p for p in percentiles_us)


UNKNOWN = Distribution()
_NO_OPERATIONS = (OpTotals(latency=LatencyHist(), size_lat=SizeLatencyHist()),)
NOTHING_DONE = Distribution(_NO_OPERATIONS, _NO_OPERATIONS)
