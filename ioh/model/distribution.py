"""What an op's histograms say of one interval, found out when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

from ioh.model.hist import FINE_EDGES_US, LatencyHist, SizeLatencyHist, fine_index
from ioh.model.sample import OpTotals


class Distribution:
    """Histograms and percentiles of an op; None where its totals lack histograms of either kind.

    Those of all ``older`` totals, added up, are the earlier reading; ``max_us`` is the slowest
    operation of the interval.
    """

    __slots__ = ("_max_us", "_newer", "_older")

    def __init__(
        self,
        older: Sequence[OpTotals] = (),
        newer: Sequence[OpTotals] = (),
        max_us: float | None = None,
    ) -> None:
        self._older, self._newer, self._max_us = older, newer, max_us

    def latency(self) -> LatencyHist | None:
        """Increments of the latency histogram."""
        nothing = LatencyHist()
        changed = (
            new.latency - (old.latency or nothing)
            for old, new in self._pairs()
            if new.latency is not None and new.latency is not old.latency
        )
        return reduce(add, changed, nothing) if self._is_known() else None

    def size_lat(self) -> SizeLatencyHist | None:
        """The same of the histogram by size."""
        nothing = SizeLatencyHist()
        changed = (
            new.size_lat - (old.size_lat or nothing)
            for old, new in self._pairs()
            if new.size_lat is not None and new.size_lat is not old.size_lat
        )
        return reduce(add, changed, nothing) if self._is_known() else None

    def percentiles_us(
        self, latency: LatencyHist | None, quantiles: tuple[float, ...]
    ) -> tuple[float | None, ...]:
        """Upper edges of the ranks' buckets; the maximum itself where it lies in that bucket."""
        if latency is None:
            return (None,) * len(quantiles)
        found, max_us = latency.percentiles_us(quantiles), self._max_us
        if not max_us:
            return found
        top_edge_us = FINE_EDGES_US[min(fine_index(int(max_us * 1e3)), len(FINE_EDGES_US) - 1)]
        return tuple(max_us if p is not None and p == top_edge_us else p for p in found)

    def _pairs(self) -> zip[tuple[OpTotals, OpTotals]]:
        return zip(self._older, self._newer, strict=True)

    def _is_known(self) -> bool:
        return any(op.latency is not None for op in self._newer) and any(
            op.size_lat is not None for op in self._newer
        )


UNKNOWN = Distribution()
_NO_OPERATIONS = (OpTotals(latency=LatencyHist(), size_lat=SizeLatencyHist()),)
NOTHING_DONE = Distribution(_NO_OPERATIONS, _NO_OPERATIONS)
