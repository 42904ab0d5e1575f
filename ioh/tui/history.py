"""A few numbers of each interval near the one shown, for trends, charts and heat maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ioh.model.call_means import CallMean, call_means
from ioh.model.metric import TableSpec
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.rows import is_flow
from ioh.tui.drill_down import narrowed
from ioh.tui.rows import retrans_pct
from ioh.tui.state import Narrow

MAX_POINTS = 1200
ROW_INTERVALS = 60  # of a row's trend
_MAX_ROW_POINTS, _MAX_ROWS = 64, 20  # intervals kept; rows of each breakdown
T = TypeVar("T")
Measure = Literal["bytes_per_s", "ops_per_s", "latency_us"]


@dataclass(frozen=True, slots=True)
class OpPoint:
    """One op in one interval.

    Units:
        As OpStats; ``by_latency`` counts operations by LATENCY_EDGES_US, ``()`` for none.
    """

    bytes_per_s: float | None
    ops_per_s: float | None
    by_latency: tuple[int, ...] = ()
    latency_us: float | None = None


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One interval: its length, ops by (layer, op), and flows' numbers instead of latencies.

    Shape:
        ``calls`` of each path, by name_of() it; ``layers``: those measured, None for all.
    """

    interval_s: float
    ops: dict[tuple[str, str], OpPoint]
    facts: Mapping[tuple[str, str], float | None] = field(default_factory=dict)
    calls: Mapping[str, CallMean] = field(default_factory=dict)
    layers: frozenset[str] | None = None


def point_of(snapshot: Snapshot) -> TrendPoint:
    """The numbers to keep of an interval, without idle ops."""
    found: dict[tuple[str, str], OpPoint] = {}
    facts: dict[tuple[str, str], float | None] = {}
    for name, layer in snapshot.layers.items():
        if isinstance(layer, LayerSnapshot):
            for op, stats in layer.ops.items():
                if is_busy(stats) or stats.count is None:  # an unknown number is not none
                    found[(name, op)] = _op_point(stats)
            if is_flow(layer.spec):
                facts[name, "srtt_us"] = layer.metrics.get("srtt_us")
                facts[name, "retrans_pct"] = retrans_pct(layer)
    measured = frozenset(snapshot.measured)
    return TrendPoint(snapshot.interval_s, found, facts, call_means(snapshot), measured)


def is_busy(stats: OpStats) -> bool:
    """Whether an op did anything."""
    return bool(stats.count or stats.bytes or stats.inflight)


def _op_point(stats: OpStats) -> OpPoint:
    counts = () if stats.size_lat is None else stats.size_lat.by_latency()
    by_latency = counts if any(counts) else ()
    return OpPoint(stats.bytes_per_s, stats.ops_per_s, by_latency, stats.latency_us)


RowRates = Mapping[int, float]  # by row_id()


def row_id(layer: str, table: str, key: tuple[str, ...]) -> int:
    """Identifies a row of a breakdown; its names would need ten times the memory."""
    return hash((layer, table, key))


def has_rates(table: TableSpec) -> bool:
    """Whether a breakdown's rows are ranked by rates, not by gauges such as an age."""
    return all(column.kind != "gauge" for column in table.columns if column.name in table.sort_by)


def row_rates(snapshot: Snapshot) -> RowRates:
    """Of each breakdown's busiest rows the sum that ranks them."""
    return {
        row_id(name, spec.name, row.key): sum(row.values.get(rate) or 0.0 for rate in spec.sort_by)
        for name, layer in snapshot.measured.items()
        for spec in layer.spec.tables
        if has_rates(spec)
        for row in layer.rows(spec.name)[:_MAX_ROWS]
    }


class Past:
    """The intervals near the one shown: of everything, and of the row narrowed to.

    Filled by the screen's thread and the seeker's.  If it is full, the point farthest from the one
    added is removed.
    """

    def __init__(self) -> None:
        self._whole: dict[int, TrendPoint] = {}
        self._rows: dict[int, RowRates] = {}
        self._row: tuple[Narrow, dict[int, TrendPoint]] | None = None

    def narrow(self, to: Narrow | None) -> bool:
        """Show one row from now on, None for everything; return whether to read its past."""
        if to == (self._row[0] if self._row else None):
            return False
        self._row = (to, {}) if to is not None else None
        return to is not None

    @property
    def is_narrowed(self) -> bool:
        """Whether one row is shown."""
        return self._row is not None

    def take(self, tick: int, snapshot: Snapshot, *, is_whole: bool = True) -> None:
        """Keep one more interval; without its tables (``is_whole``) it has no row."""
        _keep(self._whole, tick, point_of(snapshot), MAX_POINTS)
        if is_whole:
            _keep(self._rows, tick, row_rates(snapshot), _MAX_ROW_POINTS)
        row = self._row  # the other thread may narrow to another row now
        if row is not None and is_whole:
            _keep(row[1], tick, point_of(narrowed(snapshot, row[0])), MAX_POINTS)

    def window(self, last: int, count: int) -> list[TrendPoint | None]:
        """The ``count`` intervals up to ``last``, as narrowed; None for unknown ones."""
        points = self._row[1] if self._row else self._whole
        return [points.get(tick) for tick in range(last - count + 1, last + 1)]

    def rows(self, last: int) -> list[RowRates | None]:
        """The rates of rows in the ``ROW_INTERVALS`` up to ``last``; None for unknown ones."""
        return [self._rows.get(tick) for tick in range(last - ROW_INTERVALS + 1, last + 1)]

    def missing(self, last: int, count: int, first_kept: int) -> tuple[int, int] | None:
        """First and last unknown interval of that window, from ``first_kept`` on.

        In a window of at most ``ROW_INTERVALS`` also the rates of rows must be known.
        """
        known: list[Mapping[int, object]] = [self._whole]
        known += [self._row[1]] if self._row else []
        known += [self._rows] if count <= ROW_INTERVALS else []
        ticks = range(max(first_kept, last - count + 1), last + 1)
        gaps = [tick for tick in ticks if any(tick not in points for points in known)]
        return (gaps[0], gaps[-1]) if gaps else None


def _keep(points: dict[int, T], tick: int, point: T, most: int) -> None:
    points[tick] = point
    if len(points) > most:  # the other thread may do the same now
        points.pop(max(tuple(points), key=lambda known: abs(known - tick)), None)


def series(
    points: Iterable[TrendPoint | None], key: tuple[str, str], measure: Measure
) -> list[float | None]:
    """One number of one op over intervals; 0 if idle, None if unknown or not measured then."""

    def of(point: TrendPoint | None) -> float | None:
        if point is None or (point.layers is not None and key[0] not in point.layers):
            return None
        return getattr(op, measure) if (op := point.ops.get(key)) else 0.0

    return [of(point) for point in points]


def latencies(
    points: Iterable[TrendPoint | None], key: tuple[str, str]
) -> list[tuple[int, ...] | None]:
    """Counts by latency of one op over intervals; None if unknown."""
    return [
        None if point is None else (op.by_latency if (op := point.ops.get(key)) else ())
        for point in points
    ]


def call_series(points: Iterable[TrendPoint | None], name: str) -> list[float | None]:
    """The mean time of a path's calls over intervals; 0 if there were none, None if unknown."""
    return [
        None if point is None else point.calls.get(name, CallMean()).mean_us for point in points
    ]


def fact_series(points: Iterable[TrendPoint | None], key: tuple[str, str]) -> list[float | None]:
    """One of a flow's own numbers over intervals; None if unknown."""
    return [None if point is None else point.facts.get(key) for point in points]
