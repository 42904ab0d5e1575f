"""Render a span of a recording as a page to share: the stack, latency over time, findings.

Every list has a limit, so that even the page of a forged recording stays below 1.5 MB.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import ioh
from ioh.findings.spans import FindingSpan
from ioh.model.hist import LATENCY_EDGES_US
from ioh.model.metric import LayerSpec, MetricSpec
from ioh.model.path import paths
from ioh.model.printable import printable
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.pages import render
from ioh.sinks.cells import clock, format_fixed, format_scaled, format_unit, safe_name
from ioh.sinks.metrics import path_notes
from ioh.sinks.rows import OpRow, is_flow, op_rows

COLUMNS = 180  # of heat maps, each for one or more intervals
_HEATS, _LINES, _STACK, _PARTS = 12, 24, 60, 60
_TABLES, _TABLE_ROWS, _ROWS, _WIDE = 40, 50, 200, 14
_FINDINGS, _MARKS, _FACTS = 30, 100, 40
_NAME_BYTES, _SENTENCE_BYTES = 160, 450
_VERBS = {"R": "reads", "W": "writes", "": ""}
_TEMPLATE = Path(__file__).parent / "recording.html.j2"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A span of a recording.

    ``whole`` is one interval, ``columns`` about COLUMNS shorter ones; ``findings`` None if they
    were not searched; ``marks`` their unix times and texts; ``top`` rows of each table, None for as
    many as fit.
    """

    name: str
    begin_unix_s: float
    ticks: int
    whole: Snapshot
    columns: Iterable[Snapshot]
    findings: Sequence[FindingSpan] | None
    marks: Sequence[tuple[float, str]] = ()
    remarks: Sequence[str] = ()
    top: int | None = 5
    utc: bool = False


class _Point(NamedTuple):
    """One op in one joined interval; ``hist`` counts by LATENCY_EDGES_US, () for none."""

    mb_per_s: float | None = None
    ops_per_s: float | None = None
    mean_ms: float | None = None
    p99_ms: float | None = None
    hist: tuple[int, ...] = ()

    @classmethod
    def of(cls, stats: OpStats | None) -> _Point:
        """Convert stats to numbers of few characters."""
        if stats is None:
            return cls()
        return cls(
            _short(stats.bytes_per_s, 1e-6),
            _short(stats.ops_per_s),
            _short(stats.latency_us, 1e-3),
            _short(stats.p99_us, 1e-3),
            stats.size_lat.by_latency() if stats.size_lat and stats.count else (),
        )


@dataclass(frozen=True, slots=True)
class _Row:
    """An op of a layer, over the whole span and in each joined interval."""

    layer: str
    spec: LayerSpec
    op: OpRow
    points: list[_Point] = field(default_factory=list)

    @property
    def label(self) -> str:
        verb = self.op.op if is_flow(self.spec) else _VERBS[self.op.direction]
        return f"{self.op.label} {safe_name(verb, _NAME_BYTES)}".strip()

    @property
    def busy_us(self) -> float:
        return (self.op.stats.count or 0) * (self.op.stats.latency_us or 0.0)

    def line(self) -> dict[str, Any]:
        """Its data for charts of rates."""
        names = ("mb_per_s", "ops_per_s")
        return {"label": self.label} | {n: [getattr(x, n) for x in self.points] for n in names}

    def heat(self) -> dict[str, Any]:
        """Its data for a heat map: for each column, the first bucket in use, then the counts."""
        hists = []
        for point in self.points:
            buckets = [bucket for bucket, count in enumerate(point.hist) if count > 0]
            between = point.hist[buckets[0] : buckets[-1] + 1] if buckets else ()
            hists.append([buckets[0], *map(_few_digits, between)] if buckets else [])
        names = ("mean_ms", "p99_ms")
        lines = {name: [getattr(point, name) for point in self.points] for name in names}
        return {"label": self.label, "hists": hists, **lines}


def render_recording(recorded: Recorded) -> str:
    """Render the page as HTML."""
    whole = recorded.whole
    layers = {n: x for n, x in whole.layers.items() if isinstance(x, LayerSnapshot)}
    rows = [
        _Row(name, layer.spec, op)
        for name, layer in layers.items()
        for op in op_rows(layer.spec, layer.ops, safe_name(layer.spec.title, _NAME_BYTES))
    ]
    rows.sort(key=lambda row: "RW".find(row.op.direction or "-") % 3)  # as in text: R, W, others
    columns = _take(recorded, rows)
    timed = [row for row in rows if row.busy_us and any(point.mean_ms for point in row.points)]
    busiest = sorted(timed, key=lambda row: -row.busy_us)[:_HEATS]
    heats = [row for row in timed if any(row is each for each in busiest)]
    marks, way = recorded.marks[:_MARKS], paths(whole)
    findings = None if recorded.findings is None else recorded.findings[:_FINDINGS]
    data = {
        "edges_ms": [edge_us / 1e3 for edge_us in LATENCY_EDGES_US],
        "columns": columns,
        "marks": [_at(recorded, unix_s) for unix_s, _ in marks],
        "findings": [
            [_at(recorded, one.begin_unix_s), _at(recorded, one.end_unix_s), one.finding.severity]
            for one in findings or ()
        ],
        "paths": [
            {"label": direction, "steps": [[x.title, _short(x.us, 1e-3)] for x in path.segments]}
            for direction, path in way.items()
        ],
        "lines": [row.line() for row in rows if row.op.is_main][:_LINES],
        "heats": [row.heat() for row in heats],
    }
    return render(
        _TEMPLATE,
        "recording.js",
        data,
        {
            "clean": lambda text: _fitting(printable(text), _SENTENCE_BYTES),
            "name": lambda text: _fitting(safe_name(text, _NAME_BYTES), _NAME_BYTES),
            "clock": lambda unix_s: clock(unix_s, utc=recorded.utc, with_date=True),
            "number": format_scaled,
            "path_notes": lambda path: "; ".join(path_notes(path)),
            "ms": lambda us: format_fixed(us / 1e3 if us else us, 8, 3),
            "mega": lambda value: format_fixed(value / 1e6 if value else value, 9, 3),
        },
        recorded=recorded,
        whole=whole,
        version=ioh.__version__,
        marks=marks,
        findings=findings,
        is_timed=bool(columns),
        rows=[row.op for row in rows[:_STACK]],
        heats=heats,
        paths=way,
        facts=list(islice(_facts(whole), _FACTS)),
        parts=list(islice(_parts(layers), _PARTS + 1)),
        most_parts=_PARTS,
        tables=list(_within(_ROWS, islice(_tables(layers, recorded.top), _TABLES))),
    )


def _take(recorded: Recorded, rows: Sequence[_Row]) -> list[tuple[float, float]]:
    """Add the joined intervals to the rows; return each one's end and length in seconds."""
    columns = []
    for snapshot in islice(recorded.columns, 2 + COLUMNS):
        columns.append((_at(recorded, snapshot.time_unix_s), round(snapshot.interval_s, 3)))
        for row in rows:
            layer = snapshot.layers.get(row.layer)
            stats = layer.ops.get(row.op.op) if isinstance(layer, LayerSnapshot) else None
            row.points.append(_Point.of(stats))
    return columns


def _at(recorded: Recorded, unix_s: float) -> float:
    """Seconds since the midnight before the begin, for an axis of clock times."""
    begin_s = recorded.begin_unix_s
    day = time.gmtime(begin_s) if recorded.utc else time.localtime(begin_s)
    midnight = day.tm_hour * 3600 + day.tm_min * 60 + day.tm_sec + begin_s % 1
    return round(midnight + unix_s - begin_s, 3)


def _short(value: Value, scale: float = 1.0) -> float | None:
    """A number for a chart, in few characters."""
    return float(f"{value * scale:.4g}") if value is not None and isfinite(value) else None


def _few_digits(count: int) -> float:
    return count if count < 1e6 else float(f"{count:.3g}")


def _fitting(text: str, most_bytes: int) -> str:
    """Shorten a text to a number of bytes of HTML."""
    whole = text
    while (size := len(escape(text).encode())) > most_bytes:
        text = text[: len(text) * most_bytes // size]
    return text if text == whole else f"{text}…"


def _facts(whole: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the conditions of the recording, by name."""
    host = whole.host
    yield "host", whole.hostname
    yield "kernel", whole.kernel
    titles = {"cpu_count": "CPUs", "mem_total_bytes": "memory", "cpu_pct": "CPU time",
             "iowait_pct": "I/O wait", "psi_io_some_pct": "I/O pressure, some",
             "psi_io_full_pct": "I/O pressure, full"}  # fmt: skip
    for name, title in titles.items():
        yield title, format_unit(name, title, getattr(host, name))
    for name, layer in whole.layers.items():
        if isinstance(layer, Unavailable):
            yield f"layer {name}", f"not measured: {layer.reason}"
            continue
        lost = f", {layer.lost_pct or 0.0:.3f} % of its events lost" * any(layer.lost.values())
        yield f"layer {name}", f"{layer.source}{lost}"
        yield from ((f"layer {name}", note) for note in layer.notes)


class _Table(NamedTuple):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    keys: int  # cells of a row that are names
    left_out: int = 0  # rows without room


def _parts(layers: Mapping[str, LayerSnapshot]) -> Iterator[OpRow]:
    """Yield the operations of each device or mount."""
    for layer in layers.values():
        for part, ops in layer.parts.items():
            rows = op_rows(layer.spec, ops, safe_name(part, _NAME_BYTES), every_op=True)
            yield from (row for row in rows if row.stats.count)


def _tables(layers: Mapping[str, LayerSnapshot], top: int | None) -> Iterator[_Table]:
    for layer in layers.values():
        for spec in layer.spec.tables:
            columns = [column for column in spec.columns if column.title][:_WIDE]
            keys = spec.keys[:_WIDE]
            rows = [
                (*row.key[: len(keys)], *(_cell(column, row) for column in columns))
                for row in layer.tables.get(spec.name, ())[:top]
            ]
            head = (*keys, *(column.title for column in columns))
            yield _Table(f"{layer.spec.title} {spec.title}", head, rows, len(keys))


def _cell(column: MetricSpec, row: TableRow) -> str:
    name = column.derived_name
    return format_unit(name, column.title, row.values.get(name))


def _within(most: int, tables: Iterable[_Table]) -> Iterator[_Table]:
    """Limit the rows of all tables together."""
    for table in tables:
        rows = table.rows[: min(most, _TABLE_ROWS)]
        most -= len(rows)
        if table.rows:
            yield table._replace(rows=rows, left_out=len(table.rows) - len(rows))
