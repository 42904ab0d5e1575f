"""The last Snapshots, and sums over several of them: what a rule looks at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

# A cycle shorter than a tenth of a second has a shorter memory instead of a larger one.
MAX_SNAPSHOTS = 400
DETAIL_S = 12.0  # what looks back further says so: see Rule.recalls
MAX_OLD_ROWS = 50
_T = TypeVar("_T")
_MISSING = object()


class Recall(NamedTuple):
    """What a rule looks at further back than DETAIL_S: an op or a table of a layer."""

    layer: str
    name: str
    with_percentiles: bool = False


class Stretch(tuple[Snapshot, ...]):  # noqa: SLOT001 (what is known of it has to go somewhere)
    """Consecutive intervals, oldest first; remembers what was computed of them.

    Several rules ask for the same sums of the same seconds.
    """

    known: dict[Hashable, object]
    known_of_each: dict[int, dict[Hashable, object]]  # by id() of its interval

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What ``make`` makes, the first time; ``key`` must tell what it is."""
        found = self.known.get(key, _MISSING)
        if found is _MISSING:
            found = self.known[key] = make()
        return found  # type: ignore[return-value]

    def each(self, key: Hashable, make: Callable[[Snapshot], _T]) -> list[_T]:
        """What ``make`` makes of each interval, once as long as the window reaches so far."""
        values: list[_T] = []
        for snapshot in self:
            known = self.known_of_each[id(snapshot)]
            found = known.get(key, _MISSING)
            if found is _MISSING:
                found = known[key] = make(snapshot)
            values.append(found)  # type: ignore[arg-type]
        return values


class Window:
    """The newest Snapshots without a gap between them, oldest first; never empty for a rule.

    What it holds depends on its span alone: ``is_full`` says that more before would change nothing.
    Those older than DETAIL_S are cut down to what is recalled: rates, means and percentiles of
    some ops, and the busiest rows of some tables.

    Args:
        span_s: How far it reaches back.
        recalls: What is looked at further back than DETAIL_S.
    """

    def __init__(self, span_s: float = 10.0, recalls: Iterable[Recall] = ()) -> None:
        self._span_s = span_s
        self._detail_ns = _ns(min(DETAIL_S, span_s))
        self._recalls: _Recalls = {}
        for layer, name, with_percentiles in recalls:
            wanted = self._recalls.setdefault(layer, {})
            wanted[name] = with_percentiles or wanted.get(name, False)
        self._older: deque[Snapshot] = deque()
        self._kept: deque[Snapshot] = deque()
        self._kept_ns = 0  # not in seconds, whose sum would depend on what was there before
        self.is_full = False
        self._stretches: dict[float, Stretch] = {}
        self._known_of_each: dict[int, dict[Hashable, object]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take in one interval and forget what is older than the span."""
        self._stretches.clear()
        self._kept.append(snapshot)
        known = self._known_of_each
        known[id(snapshot)] = {}
        self._kept_ns += _ns(snapshot.interval_s)
        while (
            self._kept_ns - _ns(self._kept[0].interval_s) >= self._detail_ns
            or len(self._kept) > MAX_SNAPSHOTS
        ):
            oldest = self._kept.popleft()
            self._kept_ns -= _ns(oldest.interval_s)
            self._older.append(_cut_down(oldest, self._recalls))
            # Anew, so that it never matters whether a rule looked at it before it was cut down.
            del known[id(oldest)]
            known[id(self._older[-1])] = {}
        oldest_s = snapshot.time_unix_s - self._span_s
        while self._older and (
            self._older[0].time_unix_s < oldest_s or len(self) > 2 * MAX_SNAPSHOTS
        ):
            del known[id(self._older.popleft())]
            self.is_full = True

    def clear(self) -> None:
        """Forget everything: what comes next does not follow from it."""
        self.is_full = True
        self._older.clear()
        self._kept.clear()
        self._kept_ns = 0
        self._stretches.clear()
        self._known_of_each.clear()

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
            found.known, found.known_of_each = {}, self._known_of_each
        return found

    def before(self, recent: Stretch) -> Snapshot | None:
        """The interval before these newest ones; None where the window begins with them."""
        at = len(self) - len(recent) - 1
        return None if at < 0 else next(islice(self, at, None))

    def covers(self, seconds: float) -> bool:
        """Whether the window reaches back at least so far, a late tick forgiven."""
        return duration_s(self.recent(seconds)) >= seconds * 0.95


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


_Recalls = dict[str, dict[str, bool]]  # layer -> op or table -> whether with percentiles


def _cut_down(snapshot: Snapshot, recalls: _Recalls) -> Snapshot:
    """What is recalled of an interval; parts and histograms are most of a Snapshot."""
    layers: dict[str, LayerSnapshot | Unavailable] = {}
    for name, wanted in recalls.items():
        layer = snapshot.layers.get(name)
        if isinstance(layer, LayerSnapshot):
            ops = {
                op: x.without_histograms(keep_percentiles=wanted[op])
                for op, x in _named(layer.ops, wanted)
            }
            rows = {table: x[:MAX_OLD_ROWS] for table, x in _named(layer.tables, wanted)}
            layers[name] = LayerSnapshot(
                layer.spec,
                layer.source,
                layer.interval_s,
                ops=ops,
                tables=rows,
                metrics=layer.metrics,
            )
    return Snapshot(
        snapshot.time_unix_s,
        snapshot.interval_s,
        snapshot.hostname,
        snapshot.kernel,
        snapshot.host,
        layers,
        snapshot.specs,
        snapshot.self_cpu_pct,
        snapshot.bpf_cpu_pct,
    )


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


def seconds_of(snapshot: Snapshot, name: str) -> float:
    """Length of a layer's interval, by which its rates are counts; 0 where it was not measured."""
    layer = layer_of(snapshot, name)
    return 0.0 if layer is None else layer.interval_s


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
