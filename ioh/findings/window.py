"""The window of recent Snapshots that rules judge, and helpers to read them."""

from __future__ import annotations

import shlex
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from itertools import accumulate
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from ioh.model.lazy import LazyMapping
from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

# With intervals below 0.1 s the window is shorter, not larger.
MAX_SNAPSHOTS = 400
MAX_FRESH_NUMBERS = 6 << 20  # 48 MB: six seconds of a thousand busy disks
DETAIL_S = 12.0  # rules that look back further use Rule.recalls
MAX_OLD_ROWS = 50
_T = TypeVar("_T")
_P = ParamSpec("_P")
_Results = dict[Hashable, object]  # (function, arguments) -> result


class Recall(NamedTuple):
    """An op or a table of a layer that a rule uses from further back than DETAIL_S."""

    layer: str
    name: str
    with_percentiles: bool = False


class RecentIntervals(tuple[Snapshot, ...]):  # noqa: SLOT001 (it has the attributes below)
    """The newest intervals of a window, oldest first, with what once() has computed of them.

    Do not keep it longer than its window.

    Units:
        ``seconds``: measured time of all intervals together.
    """

    window: Window
    seconds: float
    results: _Results
    results_of: Sequence[_Results]  # of each interval

    @property
    def before(self) -> list[Snapshot]:
        """The window's intervals before these."""
        return list(self.window)[: -len(self)]

    @property
    def usual(self) -> Sequence[Snapshot]:
        """What to compare these with: the intervals before them.

        While the rule has a finding, the intervals before that began, however long it lasts.
        """
        basis = self.window.basis
        return self.before if basis is None else basis

    def each(self, make: Callable[..., _T], *args: Hashable) -> list[_T]:
        """``make(interval, *args)`` of each interval, computed once; do not pass a closure.

        For rules that look back minutes: computing each interval again takes a quarter longer.
        """
        for snapshot, results in zip(self, self.results_of, strict=True):
            if (make, args) not in results:
                results[make, args] = make(snapshot, *args)
        return [results[make, args] for results in self.results_of]  # type: ignore[misc]


def once(
    make: Callable[Concatenate[Sequence[Snapshot], _P], _T],
) -> Callable[Concatenate[Sequence[Snapshot], _P], _T]:
    """Decorator: compute a function only once for the same RecentIntervals and arguments."""

    @wraps(make)
    def look_up(snapshots: Sequence[Snapshot], *args: _P.args, **none: _P.kwargs) -> _T:
        if not isinstance(snapshots, RecentIntervals):
            return make(snapshots, *args, **none)
        if (make, args) not in snapshots.results:
            snapshots.results[make, args] = make(snapshots, *args, **none)
        return snapshots.results[make, args]  # type: ignore[return-value]

    return look_up  # type: ignore[return-value]  # its first argument has a name


class Window:
    """The newest Snapshots without a gap between them, oldest first; not empty when rules run.

    Its contents depend only on its span.  Snapshots older than DETAIL_S are cut down to the
    recalls: rates, means and percentiles of some ops, and the busiest rows of some tables.

    ``basis``: of the rule that judges now; RecentIntervals.usual has its meaning.

    Args:
        span_s: How far it reaches back.
        recalls: What is used from further back than DETAIL_S.
    """

    def __init__(self, span_s: float = 10.0, recalls: Iterable[Recall] = ()) -> None:
        self._span_s = span_s
        self._recalls: _Recalls = {}
        for layer, name, with_percentiles in recalls:
            of_layer = self._recalls.setdefault(layer, {})
            of_layer[name] = with_percentiles or of_layer.get(name, False)
        self._all: list[Snapshot] = []
        self._results_of: list[_Results] = []
        self._cut = 0  # number of oldest intervals that are cut down
        self._back_s: list[float] = []  # length of the newest interval, of the newest two, …
        self._recent: dict[float, RecentIntervals] = {}
        self.basis: tuple[Snapshot, ...] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Add an interval, and drop those older than the span."""
        intervals = self._all
        files = 0 if _has_calls(snapshot) else 1  # busiest_file() uses the most recent one only
        if intervals:
            intervals[-1] = _with_files(intervals[-1], files)
        intervals.append(snapshot)
        self._results_of.append({})
        back_s = list(accumulate(x.interval_s for x in reversed(intervals)))
        fresh = list(accumulate(x.fresh_numbers for x in reversed(intervals)))
        whole = min(
            bisect_left(back_s, min(DETAIL_S, self._span_s)) + 1,
            max(1, bisect_right(fresh, MAX_FRESH_NUMBERS)),
            MAX_SNAPSHOTS,
        )
        while self._cut < len(intervals) - whole:
            intervals[self._cut] = _cut_down(intervals[self._cut], self._recalls)
            # Results must not depend on whether a rule has looked at the whole interval before.
            self._results_of[self._cut] = {}
            self._cut += 1
        oldest_s = snapshot.time_unix_s - self._span_s
        while self._cut and (
            intervals[0].time_unix_s < oldest_s or len(intervals) > 2 * MAX_SNAPSHOTS
        ):
            del intervals[0], self._results_of[0]
            self._cut -= 1
        self._recent.clear()
        self._back_s = back_s[: len(intervals)]

    @property
    def newest(self) -> Snapshot:
        """The interval to be judged."""
        return self._all[-1]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self._all)

    def recent(self, seconds: float) -> RecentIntervals:
        """The newest intervals that together last at least ``seconds``, or all."""
        recent = self._recent.get(seconds)
        if recent is None:
            count = bisect_left(self._back_s, seconds * 0.95) + 1
            self._recent[seconds] = recent = RecentIntervals(self._all[-count:])
            recent.window = weakref.proxy(self)  # no cycle: freed without the garbage collector
            recent.results, recent.results_of = {}, self._results_of[-count:]
            recent.seconds = sum(snapshot.interval_s for snapshot in recent)
        return recent

    def until(self, time_unix_s: float) -> tuple[Snapshot, ...]:
        """The intervals that end by a time, cut down, to be kept longer than the window."""
        return tuple(
            each if at < self._cut else _cut_down(each, self._recalls)
            for at, each in enumerate(self._all)
            if each.time_unix_s <= time_unix_s
        )

    def covers(self, seconds: float) -> bool:
        """Whether the window reaches back that far, with a tolerance for late ticks."""
        return self.recent(seconds).seconds >= seconds * 0.95


_Recalls = dict[str, dict[str, bool]]  # layer -> op or table -> whether with percentiles


def _has_calls(snapshot: Snapshot) -> bool:
    """Whether programs read or wrote files."""
    stats = (op_of(snapshot, "syscall", op) for op in ("read", "write"))
    return any(each is not None and each.count for each in stats)


def _with_files(snapshot: Snapshot, count: int) -> Snapshot:
    """Keep only the busiest rows of tables of files; with 0, without deriving the table."""
    layers = dict(snapshot.layers)
    for name, layer in snapshot.measured.items():
        if isinstance(layer.tables, LazyMapping) and "file" in layer.tables:
            files = layer.tables["file"][:count] if count else ()
            layers[name] = replace(layer, tables=layer.tables.but("file", files))
    return replace(snapshot, layers=layers)


def _cut_down(snapshot: Snapshot, recalls: _Recalls) -> Snapshot:
    """Reduce an interval to its recalls: parts and histograms are most of a Snapshot."""
    layers: dict[str, LayerSnapshot | Unavailable] = {}
    for name, of_layer in recalls.items():
        layer = snapshot.layers.get(name)
        if isinstance(layer, LayerSnapshot):
            ops = {
                op: layer.ops[op].without_histograms(keep_percentiles=of_layer[op])
                for op in of_layer
                if op in layer.ops
            }
            rows = {x: layer.tables[x][:MAX_OLD_ROWS] for x in of_layer if x in layer.tables}
            layers[name] = LayerSnapshot(
                layer.spec, layer.source, layer.interval_s, ops, layer.metrics, rows
            )
    return replace(snapshot, layers=layers, pairs=())


def duration_s(snapshots: Iterable[Snapshot]) -> float:
    """Measured time of all intervals together."""
    return sum([snapshot.interval_s for snapshot in snapshots])


def seconds_of(snapshot: Snapshot, name: str) -> float:
    """Length of a layer's interval (rate times this is a count); 0 if it is not measured."""
    layer = snapshot.layer(name)
    return 0.0 if layer is None else layer.interval_s


def op_of(snapshot: Snapshot, layer: str, op: str, part: str = "") -> OpStats | None:
    """One op of a layer or of one of its parts; None if it is not measured."""
    layer_snapshot = snapshot.layer(layer)
    if layer_snapshot is None:
        return None
    return (layer_snapshot.parts.get(part, {}) if part else layer_snapshot.ops).get(op)


def metric_of(snapshot: Snapshot, layer: str, name: str) -> float | None:
    """A layer's own number by its derived name; None if it is not known."""
    layer_snapshot = snapshot.layer(layer)
    return None if layer_snapshot is None else layer_snapshot.metrics.get(name)


def number(row: TableRow, name: str) -> float:
    """A number of a row; 0 if it is not known."""
    return row.values.get(name) or 0.0


def busiest_file(snapshots: Sequence[Snapshot]) -> str:
    """Path of the most recent busiest file, quoted for a shell; "" if it is not known."""
    rows = (snapshot.rows("syscall", "file") for snapshot in reversed(snapshots))
    path = next((files[0].key[0] for files in rows if files), "")
    is_whole = path.startswith("/") and "\\" not in path and not path.endswith("…")
    return shlex.quote(path) if is_whole else ""
