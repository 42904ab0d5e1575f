"""Sums over several intervals, as rules ask for them again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioh.findings.window import Stretch, duration_s, each
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot


class _LateMeans:
    """Fields of OpSum that are computed at the first look: most rules stop at the counts."""

    __slots__ = ("_found",)

    if not TYPE_CHECKING:  # else every misspelt field of OpSum would be one

        def __getattr__(self, name: str) -> object:
            """A field that is missing: only called for those."""
            if name not in _MEANS:
                msg = f"{type(self).__name__} has no {name}"
                raise AttributeError(msg)
            found = zip(_MEANS, _means(self._found, self.seconds), strict=True)
            for field, value in found:
                object.__setattr__(self, field, value)
            return getattr(self, name)


_MEANS = ("latency_us", "queue_us", "max_us", "avg_inflight")
_Found = list[tuple[float, OpStats]]  # an interval's length, and an op in it
_NO_OPS: Mapping[str, OpStats] = {}


@dataclass(frozen=True, slots=True)
class OpSum(_LateMeans):
    """One op over several intervals.

    Shape:
        What no interval knew is 0 in ``count`` and ``bytes``, and None in the means.

    Units:
        As OpStats.
    """

    seconds: float
    count: int = 0
    bytes: int = 0
    latency_us: float | None = None
    queue_us: float | None = None
    max_us: float | None = None
    avg_inflight: float | None = None

    @classmethod
    def of(cls, seconds: float, found: _Found) -> OpSum:
        """The op where it was measured within so many seconds; means are computed when asked."""
        made = object.__new__(cls)
        put = object.__setattr__
        put(made, "seconds", seconds)
        put(made, "count", sum([stats.count or 0 for _, stats in found]))
        put(made, "bytes", sum([stats.bytes or 0 for _, stats in found]))
        put(made, "_found", found)
        return made

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


def _layer_in(snapshot: Snapshot, layer: str) -> tuple[float, LayerSnapshot] | None:
    """Its interval's length, and the layer; None where it was not measured."""
    found = snapshot.layers.get(layer)
    return (found.interval_s, found) if isinstance(found, LayerSnapshot) else None


def measured(snapshots: Iterable[Snapshot], layer: str) -> list[tuple[float, LayerSnapshot]]:
    """Where a layer was measured: the interval's length, and the layer."""
    if isinstance(snapshots, Stretch):
        return snapshots.once(_measured, layer)
    return _measured(snapshots, layer)


def _measured(snapshots: Iterable[Snapshot], layer: str) -> list[tuple[float, LayerSnapshot]]:
    return [found for x in snapshots if (found := _layer_in(x, layer)) is not None]


def sum_op(snapshots: Sequence[Snapshot], layer: str, op: str, part: str = "") -> OpSum:
    """Add one op up: counts added, means weighted by the operations, never a mean of means."""
    if isinstance(snapshots, Stretch):
        return snapshots.once(_sum_op, layer, op, part)
    return _sum_op(snapshots, layer, op, part)


def _sum_op(snapshots: Sequence[Snapshot], layer: str, op: str, part: str) -> OpSum:
    found = [x for x in each(snapshots, _op_in, layer, op, part) if x is not None]
    return OpSum.of(duration_s(snapshots), found)


def _op_in(snapshot: Snapshot, layer: str, op: str, part: str) -> tuple[float, OpStats] | None:
    """The layer's interval, and an op in it; None where it was not measured."""
    found = _layer_in(snapshot, layer)
    if found is None:
        return None
    interval_s, known = found
    stats = (known.parts.get(part, _NO_OPS) if part else known.ops).get(op)
    return None if stats is None else (interval_s, stats)


def _means(found: _Found, seconds: float) -> tuple[float | None, ...]:
    """Means of latency and queue time, the maximum, and how many were under way."""
    latency, queue = _Mean(), _Mean()
    max_us: float | None = None
    busy_s: list[float] = []
    for interval_s, stats in found:
        if stats.count:
            latency.add(stats.count, stats.latency_us)
            queue.add(stats.count, stats.queue_us)
        if stats.max_us is not None and (max_us is None or stats.max_us > max_us):
            max_us = stats.max_us
        if stats.avg_inflight is not None:
            busy_s.append(interval_s * stats.avg_inflight)
    inflight = sum(busy_s) / seconds if busy_s and seconds else None
    return latency.value, queue.value, max_us, inflight


class _Mean:
    """A mean weighted by operations; None of none."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._count, self._sum = 0, 0.0

    def add(self, count: int, value: float | None) -> None:
        if value is not None:
            self._count += count
            self._sum += count * value

    @property
    def value(self) -> float | None:
        return self._sum / self._count if self._count else None


def sum_metric(snapshots: Iterable[Snapshot], layer: str, name: str) -> float | None:
    """Increase of a counter over these intervals, from its rates; None where none knew it."""
    if isinstance(snapshots, Stretch):
        return snapshots.once(_sum_metric, layer, name)
    return _sum_metric(snapshots, layer, name)


def _sum_metric(snapshots: Iterable[Snapshot], layer: str, name: str) -> float | None:
    parts = [
        interval_s * value
        for interval_s, found in measured(snapshots, layer)
        if (value := found.metrics.get(name)) is not None
    ]
    return sum(parts) if parts else None
