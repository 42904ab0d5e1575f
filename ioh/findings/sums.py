"""Sums over several intervals, as rules ask for them again and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ioh.findings.window import duration_s, once
from ioh.model.rates import weighted_mean
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot

_NO_OPS: Mapping[str, OpStats] = {}
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class OpSum:
    """One op over several intervals; what no interval knew is 0 in counts, and None in means.

    Shape:
        ``found``: where it was measured, that interval's length and the op.

    Units:
        As OpStats.
    """

    seconds: float
    found: tuple[tuple[float, OpStats], ...] = ()

    @property
    def count(self) -> int:
        """Operations."""
        return sum([stats.count or 0 for _, stats in self.found])

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return sum([stats.bytes or 0 for _, stats in self.found])

    @property
    def latency_us(self) -> float | None:
        """Mean time of an operation."""
        return weighted_mean([(x.count, x.latency_us) for _, x in self.found])

    @property
    def queue_us(self) -> float | None:
        """Mean time that an operation waited."""
        return weighted_mean([(x.count, x.queue_us) for _, x in self.found])

    @property
    def max_us(self) -> float | None:
        """The slowest operation."""
        return max([x.max_us for _, x in self.found if x.max_us is not None], default=None)

    @property
    def avg_inflight(self) -> float | None:
        """How many were under way on average."""
        known = [s * x.avg_inflight for s, x in self.found if x.avg_inflight is not None]
        return sum(known) / self.seconds if known and self.seconds else None

    @property
    def service_us(self) -> float:
        """Mean time of an operation once it waits no more; 0 where nothing is known."""
        return (self.latency_us or 0.0) - (self.queue_us or 0.0)

    @property
    def depth(self) -> float:
        """How many were under way on average, by Little's law."""
        return self.ops_per_s * (self.latency_us or 0.0) / 1e6

    @property
    def ops_per_s(self) -> float:
        """Operations a second."""
        return self.count / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def avg_bytes(self) -> float:
        """Mean size; 0 where nothing happened."""
        return self.bytes / self.count if self.count else 0.0


@once
def measured(snapshots: Sequence[Snapshot], layer: str) -> list[tuple[float, LayerSnapshot]]:
    """Where a layer was measured: its interval's length, and the layer."""
    layers = (snapshot.layers.get(layer) for snapshot in snapshots)
    return [(found.interval_s, found) for found in layers if isinstance(found, LayerSnapshot)]


@once
def sum_op(snapshots: Sequence[Snapshot], layer: str, op: str, part: str = "") -> OpSum:
    """Add one op up: counts added, means weighted by the operations, never a mean of means."""
    ops = (
        (interval_s, (found.parts.get(part, _NO_OPS) if part else found.ops).get(op))
        for interval_s, found in measured(snapshots, layer)
    )
    found = tuple([(interval_s, stats) for interval_s, stats in ops if stats is not None])
    return OpSum(duration_s(snapshots), found)


@once
def increase(snapshots: Sequence[Snapshot], layer: str, counter: str) -> float:
    """By how much a layer's own counter grew, from its rates; 0 where no interval knew it."""
    layers, name = measured(snapshots, layer), f"{counter}_per_s"
    return sum([seconds * (found.metrics.get(name) or 0.0) for seconds, found in layers])


def increases(snapshots: Sequence[Snapshot], layer: str, *counters: str) -> list[float]:
    """The same of several."""
    return [increase(snapshots, layer, counter) for counter in counters]


def sum_rows(
    snapshots: Sequence[Snapshot],
    layer: str,
    table: str,
    columns: Sequence[str],
    by: Callable[[tuple[str, ...]], _Key],
) -> dict[_Key, float]:
    """Increase of counters of a table's rows, from their rates; ``by`` makes its key of a row's."""
    sums: dict[_Key, float] = defaultdict(float)
    for seconds, found in measured(snapshots, layer):
        for row in found.tables.get(table, ()):
            values = row.values
            sums[by(row.key)] += sum([values.get(name) or 0.0 for name in columns]) * seconds
    return sums
