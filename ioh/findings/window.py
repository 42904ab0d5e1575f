"""The last Snapshots, and sums over several of them: what a rule looks at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

# A cycle shorter than a tenth of a second has a shorter memory instead of a larger one.
MAX_SNAPSHOTS = 400
DETAIL_S = 12.0  # what looks back further says so: see Rule.recalls
MAX_OLD_ROWS = 50
_T = TypeVar("_T")


class Stretch(tuple[Snapshot, ...]):  # noqa: SLOT001 (what is known of it has to go somewhere)
    """Consecutive intervals, oldest first; remembers what was computed of them.

    Several rules ask for the same sums of the same seconds.
    """

    known: dict[Hashable, object]

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What ``make`` makes, the first time; ``key`` must tell what it is."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]  # type: ignore[return-value]


class Window:
    """The newest Snapshots without a gap between them, oldest first; never empty for a rule.

    Those older than DETAIL_S are cut down to what is recalled: rates, means and percentiles of
    some ops, and the busiest rows of some tables.

    Args:
        span_s: How far it reaches back.
        recalls: Layers with the names of their ops and tables that are looked at further back
            than DETAIL_S.
    """

    def __init__(self, span_s: float = 10.0, recalls: Iterable[tuple[str, str]] = ()) -> None:
        self._span_s = span_s
        self._detail_s = min(DETAIL_S, span_s)
        self._recalls: dict[str, list[str]] = {}
        for layer, name in dict.fromkeys(recalls):
            self._recalls.setdefault(layer, []).append(name)
        self._older: deque[Snapshot] = deque()
        self._kept: deque[Snapshot] = deque()
        self._kept_s = 0.0
        self._stretches: dict[float, Stretch] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take in one interval and forget what is older than the span."""
        self._stretches.clear()
        self._kept.append(snapshot)
        self._kept_s += snapshot.interval_s
        while (
            self._kept_s - self._kept[0].interval_s >= self._detail_s
            or len(self._kept) > MAX_SNAPSHOTS
        ):
            oldest = self._kept.popleft()
            self._kept_s -= oldest.interval_s
            self._older.append(_cut_down(oldest, self._recalls))
        oldest_s = snapshot.time_unix_s - self._span_s
        while self._older and (
            self._older[0].time_unix_s < oldest_s or len(self) > 2 * MAX_SNAPSHOTS
        ):
            self._older.popleft()

    def clear(self) -> None:
        """Forget everything: what comes next does not follow from it."""
        self._older.clear()
        self._kept.clear()
        self._kept_s = 0.0
        self._stretches.clear()

    @property
    def newest(self) -> Snapshot:
        """The interval to be judged."""
        return self._kept[-1]

    def __len__(self) -> int:
        return len(self._older) + len(self._kept)

    def __iter__(self) -> Iterator[Snapshot]:
        return chain(self._older, self._kept)

    def recent(self, seconds: float) -> Stretch:
        """The newest intervals that together last at least ``seconds``, or all there are."""
        found = self._stretches.get(seconds)
        if found is None:
            chosen: list[Snapshot] = []
            covered_s, enough_s = 0.0, seconds * 0.95
            for snapshot in chain(reversed(self._kept), reversed(self._older)):
                if covered_s >= enough_s:
                    break
                chosen.append(snapshot)
                covered_s += snapshot.interval_s
            found = self._stretches[seconds] = Stretch(reversed(chosen))
            found.known = {}
        return found

    def covers(self, seconds: float) -> bool:
        """Whether the window reaches back at least so far, a late tick forgiven."""
        return duration_s(self.recent(seconds)) >= seconds * 0.95


def _cut_down(snapshot: Snapshot, recalls: dict[str, list[str]]) -> Snapshot:
    """What is recalled of an interval; parts and histograms are most of a Snapshot."""
    layers: dict[str, LayerSnapshot | Unavailable] = {}
    for name, wanted in recalls.items():
        layer = snapshot.layers.get(name)
        if isinstance(layer, LayerSnapshot):
            ops = {
                op: replace(x, latency=None, size_lat=None) for op, x in _named(layer.ops, wanted)
            }
            rows = {table: x[:MAX_OLD_ROWS] for table, x in _named(layer.tables, wanted)}
            layers[name] = LayerSnapshot(
                layer.spec, layer.source, ops=ops, tables=rows, metrics=layer.metrics
            )
    return replace(snapshot, layers=layers)


def _named(found: Mapping[str, _T], names: Iterable[str]) -> Iterator[tuple[str, _T]]:
    return ((name, found[name]) for name in names if name in found)


def duration_s(snapshots: Iterable[Snapshot]) -> float:
    """Measured time of these intervals together."""
    if isinstance(snapshots, Stretch):
        return snapshots.once("duration", lambda: sum([s.interval_s for s in snapshots]))
    return sum([snapshot.interval_s for snapshot in snapshots])


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


def _measured(snapshots: Iterable[Snapshot], layer: str) -> list[tuple[float, LayerSnapshot]]:
    """Where a layer was measured: the interval's length, and the layer."""
    return [
        (snapshot.interval_s, found)
        for snapshot in snapshots
        if isinstance(found := snapshot.layers.get(layer), LayerSnapshot)
    ]


def measured(snapshots: Iterable[Snapshot], layer: str) -> list[tuple[float, LayerSnapshot]]:
    """The same, looked for once."""
    if isinstance(snapshots, Stretch):
        return snapshots.once(layer, lambda: _measured(snapshots, layer))
    return _measured(snapshots, layer)


def sum_op(snapshots: Sequence[Snapshot], layer: str, op: str, part: str = "") -> OpSum:
    """Add one op up: counts added, means weighted by the operations, never a mean of means."""
    if isinstance(snapshots, Stretch):
        return snapshots.once((layer, op, part), lambda: _sum_op(snapshots, layer, op, part))
    return _sum_op(snapshots, layer, op, part)


def _sum_op(snapshots: Sequence[Snapshot], layer: str, op: str, part: str) -> OpSum:
    seconds = duration_s(snapshots)
    known = measured(snapshots, layer)
    if part:
        parts = [(s, x.parts[part]) for s, x in known if part in x.parts]
        found = [(s, stats) for s, ops in parts if (stats := ops.get(op)) is not None]
    else:
        found = [(s, stats) for s, x in known if (stats := x.ops.get(op)) is not None]
    latency, queue = _Mean(), _Mean()
    count = size = 0
    max_us: float | None = None
    busy_s: list[float] = []
    for interval_s, stats in found:
        done = stats.count
        if done:
            count += done
            latency.add(done, stats.latency_us)
            queue.add(done, stats.queue_us)
        size += stats.bytes or 0
        if stats.max_us is not None and (max_us is None or stats.max_us > max_us):
            max_us = stats.max_us
        if stats.avg_inflight is not None:
            busy_s.append(interval_s * stats.avg_inflight)
    inflight = sum(busy_s) / seconds if busy_s and seconds else None
    return OpSum(seconds, count, size, latency.value, queue.value, max_us, inflight)


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

    def added() -> float | None:
        parts = [
            interval_s * value
            for interval_s, found in measured(snapshots, layer)
            if (value := found.metrics.get(name)) is not None
        ]
        return sum(parts) if parts else None

    return snapshots.once((layer, name), added) if isinstance(snapshots, Stretch) else added()
