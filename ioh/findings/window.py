"""The last Snapshots, and sums over several of them: what a rule looks at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

# A cycle shorter than a tenth of a second has a shorter memory instead of a larger one.
MAX_SNAPSHOTS = 400
DETAIL_S = 12.0  # what looks back further needs rates, means and the busiest rows
MAX_OLD_ROWS = 50


class Window:
    """The newest Snapshots without a gap between them, oldest first; never empty for a rule.

    Those older than DETAIL_S have lost their parts, histograms and all but the busiest rows,
    which are most of a Snapshot; their rates, means and percentiles stay.
    """

    def __init__(self, span_s: float = 10.0) -> None:
        self._span_s = span_s
        self._detail_s = min(DETAIL_S, span_s)
        self._older: deque[Snapshot] = deque()
        self._kept: deque[Snapshot] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Take in one interval and forget what is older than the span."""
        self._kept.append(snapshot)
        now_s = snapshot.time_unix_s
        while self._kept[0].time_unix_s < now_s - self._detail_s or len(self._kept) > MAX_SNAPSHOTS:
            self._older.append(_without_details(self._kept.popleft()))
        oldest_s = now_s - self._span_s
        while self._older and (
            self._older[0].time_unix_s < oldest_s or len(self) > 2 * MAX_SNAPSHOTS
        ):
            self._older.popleft()

    def clear(self) -> None:
        """Forget everything: what comes next does not follow from it."""
        self._older.clear()
        self._kept.clear()

    @property
    def newest(self) -> Snapshot:
        """The interval to be judged."""
        return self._kept[-1]

    def __len__(self) -> int:
        return len(self._older) + len(self._kept)

    def __iter__(self) -> Iterator[Snapshot]:
        return chain(self._older, self._kept)

    def recent(self, seconds: float) -> tuple[Snapshot, ...]:
        """The newest intervals that together last at least ``seconds``, or all there are."""
        chosen: list[Snapshot] = []
        covered_s = 0.0
        for snapshot in chain(reversed(self._kept), reversed(self._older)):
            if covered_s >= seconds * 0.95:
                break
            chosen.append(snapshot)
            covered_s += snapshot.interval_s
        return tuple(reversed(chosen))

    def covers(self, seconds: float) -> bool:
        """Whether the window reaches back at least so far, a late tick forgiven."""
        return duration_s(self) >= seconds * 0.95


def _without_details(snapshot: Snapshot) -> Snapshot:
    layers = {
        name: replace(
            layer,
            ops={op: replace(x, latency=None, size_lat=None) for op, x in layer.ops.items()},
            tables={n: rows[:MAX_OLD_ROWS] for n, rows in layer.tables.items()},
            parts={},
        )
        if isinstance(layer, LayerSnapshot)
        else layer
        for name, layer in snapshot.layers.items()
    }
    return replace(snapshot, layers=layers)


def duration_s(snapshots: Iterable[Snapshot]) -> float:
    """Measured time of these intervals together."""
    return sum(snapshot.interval_s for snapshot in snapshots)


def layer_of(snapshot: Snapshot, name: str) -> LayerSnapshot | None:
    """A layer that was measured; None where it was not."""
    layer = snapshot.layers.get(name)
    return layer if isinstance(layer, LayerSnapshot) else None


def layer_title(snapshot: Snapshot, name: str) -> str:
    """What tables and screens call a layer: ``app`` for ``syscall``."""
    spec = snapshot.specs.get(name)
    return spec.title if spec is not None else name


def op_of(snapshot: Snapshot, layer: str, op: str, part: str = "") -> OpStats | None:
    """One op of a layer or of one of its parts; None where it was not measured."""
    found = layer_of(snapshot, layer)
    if found is None:
        return None
    return (found.parts.get(part, {}) if part else found.ops).get(op)


def metric_of(snapshot: Snapshot, layer: str, name: str) -> float | None:
    """A layer's own number by its derived name; None where it is not known."""
    found = layer_of(snapshot, layer)
    return None if found is None else found.metrics.get(name)


def rows_of(snapshot: Snapshot, layer: str, table: str) -> tuple[TableRow, ...]:
    """A layer's breakdown, largest first."""
    found = layer_of(snapshot, layer)
    return () if found is None else found.tables.get(table, ())


def row_of(snapshot: Snapshot, layer: str, table: str, key: str) -> TableRow | None:
    """The row whose first key part is ``key``."""
    return next((row for row in rows_of(snapshot, layer, table) if row.key[0] == key), None)


@dataclass(frozen=True, slots=True)
class OpSum:
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


def sum_op(snapshots: Iterable[Snapshot], layer: str, op: str, part: str = "") -> OpSum:
    """Add one op up: counts added, means weighted by the operations, never a mean of means."""
    listed = tuple(snapshots)
    seconds = duration_s(listed)
    found = [
        (snapshot, stats)
        for snapshot in listed
        if (stats := op_of(snapshot, layer, op, part)) is not None
    ]
    busy_s = [s.interval_s * x.avg_inflight for s, x in found if x.avg_inflight is not None]
    return OpSum(
        seconds,
        count=sum(stats.count or 0 for _, stats in found),
        bytes=sum(stats.bytes or 0 for _, stats in found),
        latency_us=_mean((stats.count, stats.latency_us) for _, stats in found),
        queue_us=_mean((stats.count, stats.queue_us) for _, stats in found),
        max_us=max((x.max_us for _, x in found if x.max_us is not None), default=None),
        avg_inflight=sum(busy_s) / seconds if busy_s and seconds else None,
    )


def _mean(pairs: Iterable[tuple[int | None, Value]]) -> float | None:
    known = [(count, value) for count, value in pairs if count and value is not None]
    total = sum(count for count, _ in known)
    return sum(count * value for count, value in known) / total if total else None


def sum_metric(snapshots: Iterable[Snapshot], layer: str, name: str) -> float | None:
    """Increase of a counter over these intervals, from its rates; None where none knew it."""
    parts = [
        snapshot.interval_s * value
        for snapshot in snapshots
        if (value := metric_of(snapshot, layer, name)) is not None
    ]
    return sum(parts) if parts else None
