"""The last Snapshots, and sums over several of them: what a rule looks at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple, TypeVar

from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

# A cycle shorter than a tenth of a second has a shorter memory instead of a larger one.
MAX_SNAPSHOTS = 400
DETAIL_S = 12.0  # what looks back further says so: see Rule.recalls
MAX_OLD_ROWS = 50
_FORGET_AFTER = 64  # intervals in which nobody asked for something that was made of each
_T = TypeVar("_T")
_MISSING = object()


class Recall(NamedTuple):
    """What a rule looks at further back than DETAIL_S: an op or a table of a layer."""

    layer: str
    name: str
    with_percentiles: bool = False


class _Run:
    """Consecutive intervals, oldest first, and what was made of each of them."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self._end = 0  # so many intervals were ever added
        self._made: dict[Hashable, _Made] = {}

    def add(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)
        self._end += 1
        if self._end % _FORGET_AFTER == 0:
            least = self._end - _FORGET_AFTER
            self._made = {key: made for key, made in self._made.items() if made.end > least}

    def forget_oldest(self) -> Snapshot:
        return self.snapshots.pop(0)

    def clear(self) -> None:
        self.snapshots.clear()
        self._made.clear()

    def each(self, make: Callable[..., _T], args: tuple[Hashable, ...]) -> list[_T]:
        """What ``make`` makes of each interval; it is called for those that are new since."""
        made = self._made.get((make, args))
        if made is None:
            made = self._made[make, args] = _Made()
        values, held = made.values, len(self.snapshots)
        missing = min(self._end - made.end, held)
        if missing:
            values += [make(snapshot, *args) for snapshot in self.snapshots[-missing:]]
            made.end = self._end
        if len(values) > held:
            del values[: len(values) - held]
        return values  # type: ignore[return-value]


class _Made:
    """What was made of the newest intervals, up to one of that number."""

    __slots__ = ("end", "values")

    def __init__(self) -> None:
        self.end, self.values = 0, list[object]()


class Stretch(tuple[Snapshot, ...]):  # noqa: SLOT001 (what is known of it has to go somewhere)
    """Consecutive intervals, oldest first; remembers what was computed of them.

    Several rules ask for the same sums of the same seconds.

    Units:
        ``seconds``: measured time of all of them together.
    """

    seconds: float
    _known: dict[Hashable, object]
    _runs: tuple[_Run, _Run]

    @classmethod
    def of(cls, snapshots: Iterable[Snapshot], seconds: float, older: _Run, kept: _Run) -> Stretch:
        """The newest intervals of these two runs."""
        made = cls(snapshots)
        made.seconds, made._known, made._runs = seconds, {}, (older, kept)
        return made

    def once(self, make: Callable[..., _T], *args: Hashable) -> _T:
        """What ``make``, a function of a module, makes of these intervals and ``args``."""
        key = make, args
        found = self._known.get(key, _MISSING)
        if found is _MISSING:
            found = self._known[key] = make(self, *args)
        return found  # type: ignore[return-value]

    def each(self, make: Callable[..., _T], *args: Hashable) -> list[_T]:
        """What ``make``, a function of a module, makes of each interval and ``args``.

        It is called once for each, as long as the window reaches so far.
        """
        older, kept = self._runs
        count, of_older = len(self), len(self) - len(kept.snapshots)
        if not count:
            return []
        if of_older <= 0:
            return kept.each(make, args)[-count:]
        return older.each(make, args)[-of_older:] + kept.each(make, args)


def each(snapshots: Iterable[Snapshot], make: Callable[..., _T], *args: Hashable) -> list[_T]:
    """As Stretch.each(), of any intervals."""
    if isinstance(snapshots, Stretch):
        return snapshots.each(make, *args)
    return [make(snapshot, *args) for snapshot in snapshots]


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
        self._older, self._kept = _Run(), _Run()
        self._kept_ns = 0  # not in seconds, whose sum would depend on what was there before
        self.is_full = False
        self._all: list[Snapshot] = []
        self._intervals_s: list[float] = []
        self._back_s: list[float] = []  # how long the newest one lasts, the newest two …
        self._stretches: dict[float, Stretch] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take in one interval and forget what is older than the span."""
        kept, older = self._kept, self._older
        kept.add(snapshot)
        self._kept_ns += _ns(snapshot.interval_s)
        while (
            self._kept_ns - _ns(kept.snapshots[0].interval_s) >= self._detail_ns
            or len(kept.snapshots) > MAX_SNAPSHOTS
        ):
            oldest = kept.forget_oldest()
            self._kept_ns -= _ns(oldest.interval_s)
            # A run of its own, so that it never matters whether a rule looked at it before.
            older.add(_cut_down(oldest, self._recalls))
        oldest_s = snapshot.time_unix_s - self._span_s
        while older.snapshots and (
            older.snapshots[0].time_unix_s < oldest_s or len(self) > 2 * MAX_SNAPSHOTS
        ):
            older.forget_oldest()
            self.is_full = True
        self._stretches.clear()
        self._all = older.snapshots + kept.snapshots
        self._intervals_s.append(snapshot.interval_s)
        del self._intervals_s[: -len(self._all)]
        self._back_s = list(accumulate(reversed(self._intervals_s)))

    def clear(self) -> None:
        """Forget everything: what comes next does not follow from it."""
        self.is_full = True
        self._older.clear()
        self._kept.clear()
        self._kept_ns = 0
        self._stretches.clear()
        self._all, self._intervals_s, self._back_s = [], [], []

    @property
    def newest(self) -> Snapshot:
        """The interval to be judged."""
        return self._all[-1]

    def __len__(self) -> int:
        return len(self._older.snapshots) + len(self._kept.snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self._all)

    def recent(self, seconds: float) -> Stretch:
        """The newest intervals that together last at least ``seconds``, or all there are."""
        found = self._stretches.get(seconds)
        if found is None:
            count = bisect_left(self._back_s, seconds * 0.95) + 1
            found = self._stretches[seconds] = Stretch.of(
                self._all[-count:], sum(self._intervals_s[-count:]), self._older, self._kept
            )
        return found

    def before(self, recent: Stretch) -> Snapshot | None:
        """The interval before these newest ones; None where the window begins with them."""
        at = len(self._all) - len(recent) - 1
        return None if at < 0 else self._all[at]

    def covers(self, seconds: float) -> bool:
        """Whether the window reaches back at least so far, a late tick forgiven."""
        return self.recent(seconds).seconds >= seconds * 0.95


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
        return snapshots.seconds
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
