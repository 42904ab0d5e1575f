"""Sums over several intervals, shared by the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ioh.findings.window import duration_s, once
from ioh.model.hist import LatencyHist
from ioh.model.rates import weighted_mean
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class OpSum:
    """One op over several intervals; if no interval knows a number, counts are 0, means None.

    Shape:
        ``intervals`` has the length and the op of each interval that measured it.

    Units:
        As OpStats.
    """

    seconds: float
    intervals: tuple[tuple[float, OpStats], ...] = ()

    @property
    def count(self) -> int:
        """Operations."""
        return sum([stats.count or 0 for _, stats in self.intervals])

    @property
    def bytes(self) -> int:
        """Bytes of all operations."""
        return sum([stats.bytes or 0 for _, stats in self.intervals])

    @property
    def latency_us(self) -> float | None:
        """Mean time per operation."""
        return weighted_mean([(x.count, x.latency_us) for _, x in self.intervals])

    @property
    def queue_us(self) -> float | None:
        """Mean queue time per operation."""
        return weighted_mean([(x.count, x.queue_us) for _, x in self.intervals])

    @property
    def p50_p99_us(self) -> tuple[float | None, ...]:
        """Upper edges of the buckets of median and p99; None if there are too few operations."""
        hists = (x.latency for _, x in self.intervals if x.latency is not None)
        return sum(hists, LatencyHist()).percentiles_us((0.5, 0.99))

    @property
    def max_us(self) -> float | None:
        """The slowest operation."""
        return max([x.max_us for _, x in self.intervals if x.max_us is not None], default=None)

    @property
    def avg_inflight(self) -> float | None:
        """Mean number in flight, as measured."""
        sums = [s * x.avg_inflight for s, x in self.intervals if x.avg_inflight is not None]
        return sum(sums) / self.seconds if sums and self.seconds else None

    @property
    def service_us(self) -> float:
        """Mean time per operation after its queue time; 0 if not known."""
        return (self.latency_us or 0.0) - (self.queue_us or 0.0)

    @property
    def depth(self) -> float:
        """Mean number in flight, by Little's law."""
        return self.ops_per_s * (self.latency_us or 0.0) / 1e6

    @property
    def ops_per_s(self) -> float:
        """Operations per second."""
        return self.count / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def avg_bytes(self) -> float:
        """Mean size; 0 if there were no operations."""
        return self.bytes / self.count if self.count else 0.0


@once
def measured(snapshots: Sequence[Snapshot], layer: str) -> list[tuple[float, LayerSnapshot]]:
    """Length and layer of each interval in which the layer was measured."""
    layers = (snapshot.layers.get(layer) for snapshot in snapshots)
    return [(each.interval_s, each) for each in layers if isinstance(each, LayerSnapshot)]


def cpu_pct(snapshots: Sequence[Snapshot]) -> float | None:
    """Mean use of all CPUs, 0 to 100; None if not known."""
    return weighted_mean([(each.interval_s, each.host.cpu_pct) for each in snapshots])


@once
def sum_op(snapshots: Sequence[Snapshot], layer: str, op: str, part: str = "") -> OpSum:
    """Sum up one op: counts are added, means are weighted by operations."""
    ops = (
        (interval_s, (snapshot.parts.get(part, {}) if part else snapshot.ops).get(op))
        for interval_s, snapshot in measured(snapshots, layer)
    )
    intervals = tuple([(interval_s, stats) for interval_s, stats in ops if stats is not None])
    return OpSum(duration_s(snapshots), intervals)


@once
def increase(snapshots: Sequence[Snapshot], layer: str, counter: str) -> float:
    """Growth of a layer's own counter, from its rates; 0 if no interval knows it."""
    layers, name = measured(snapshots, layer), f"{counter}_per_s"
    return sum([seconds * (snapshot.metrics.get(name) or 0.0) for seconds, snapshot in layers])


def increases(snapshots: Sequence[Snapshot], layer: str, *counters: str) -> list[float]:
    """The same for several counters."""
    return [increase(snapshots, layer, counter) for counter in counters]


def sum_rows(
    snapshots: Sequence[Snapshot],
    layer: str,
    table: str,
    columns: Sequence[str],
    by: Callable[[tuple[str, ...]], _Key],
) -> dict[_Key, float]:
    """Growth of counters of a table's rows, from their rates; ``by`` groups rows by their key."""
    sums: dict[_Key, float] = defaultdict(float)
    for seconds, snapshot in measured(snapshots, layer):
        for row in snapshot.tables.get(table, ()):
            for name in columns:
                sums[by(row.key)] += (row.values.get(name) or 0.0) * seconds
    return sums
