"""Samples as Prometheus series: labels, running totals, names with base units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from ioh.model.derive_op import add_ops
from ioh.model.hist import LATENCY_EDGES_US
from ioh.model.io_path import META
from ioh.model.metric import MetricSpec, TableSpec
from ioh.model.printable import printable
from ioh.model.sample import OTHERS, LayerSample, OpTotals, Row, Sample, Table, Value

Labels = tuple[tuple[str, str], ...]

# Suffix in ioh, Prometheus' unit and suffix, scale; the first match counts.
_UNITS = (
    ("_per_s", "", "_per_second", 1.0),
    ("_ns", "seconds", "_seconds", 1e-9),
    ("_us", "seconds", "_seconds", 1e-6),
    ("_s", "seconds", "_seconds", 1.0),
    ("_pct", "ratio", "_ratio", 1e-2),
    ("_bytes", "bytes", "_bytes", 1.0),
)
# Labels that Prometheus or ioh already uses; a key of the same name would conflict.
_TAKEN = {"host", "op", "part", "job", "instance", "le", "quantile"}
# printable() would show these the same as the bytes of these values.
_LATIN = {code: f"\\u{code:04x}" for code in (*range(0x80, 0xA0), 0xAD)}
_MAX_LABEL = 1 << 16  # a name has at most 4096 bytes, each shown as four characters


class Family(NamedTuple):
    """What series of one name have in common; ``kind`` is the OpenMetrics type."""

    name: str
    kind: str
    unit: str
    help: str


class Series(NamedTuple):
    """One number of one series; ``le`` is the edge of a histogram's bucket, else ""."""

    family: Family
    suffix: str
    labels: Labels
    value: int | float
    le: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """How detailed the series are.

    ``edges_us``: edges of histograms, a subset of LATENCY_EDGES_US.  ``lean_parts``: devices and
    mounts only with operations, bytes and time, if they were active, and errors, if there were any;
    all metadata as one op.
    """

    edges_us: tuple[int, ...] = LATENCY_EDGES_US
    lean_parts: bool = False


# Field of OpTotals, name, unit, scale, and help text; all are counters since ioh attached.
_COUNTERS = (
    ("count_total", "operations", "", 1.0, "Operations completed"),
    ("bytes_total", "bytes", "bytes", 1.0, "Bytes of completed operations"),
    ("latency_ns_total", "operation_seconds", "seconds", 1e-9, "Time of completed operations"),
    ("errors_total", "errors", "", 1.0, "Operations that failed"),
    ("queue_ns_total", "queue_seconds", "seconds", 1e-9, "Queue time before the service"),
)
_LEAN, _LEAN_FAILED = _COUNTERS[:3], _COUNTERS[:4]


def label_text(value: str) -> str:
    """A label's value, made printable; different values stay different."""
    return printable(value.replace("\\", "\\\\").translate(_LATIN), _MAX_LABEL)


def metric_name(text: str) -> str:
    """Replace characters that a metric's name must not have."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


def series_of(sample: Sample, detail: Detail) -> Iterator[Series]:
    """All numbers of a sample except tables.

    Shape:
        ``ioh_<layer>_operations_total{host,op}`` and so on, with ``part`` for a device or mount;
        ``ioh_<layer>_latency_seconds`` is a histogram; a layer's metrics keep their names.
        Totals since ioh attached; unknown numbers have no series.
    """
    host = ("host", label_text(sample.hostname))
    for name, layer in sample.layers.items():
        if not isinstance(layer, LayerSample):
            continue
        prefix = f"ioh_{metric_name(name)}"
        metadata = sample.specs[name].groups.get(META, ()) if detail.lean_parts else ()
        for op, totals in _as_one(layer.ops, metadata):
            yield from _of_op(prefix, (host, ("op", label_text(op))), totals, detail)
        for part, ops in layer.parts.items():
            for op, totals in _as_one(ops, metadata):
                labels = (host, ("op", label_text(op)), ("part", label_text(part)))
                if not detail.lean_parts:
                    yield from _of_op(prefix, labels, totals, detail)
                elif totals.count_total or totals.bytes_total or totals.errors_total:
                    counters = _LEAN_FAILED if totals.errors_total else _LEAN
                    yield from _counters(prefix, labels, totals, counters)
        for metric in sample.specs[name].metrics:
            yield from _of_metric(prefix, (host,), metric, layer.metrics.get(metric.name))
        lost = Family(f"{prefix}_lost_events", "counter", "", "Events lost.")
        for reason, count in layer.lost.items():
            yield Series(lost, "_total", (host, ("reason", label_text(reason))), count)


def _as_one(
    ops: Mapping[str, OpTotals], members: tuple[str, ...]
) -> Iterator[tuple[str, OpTotals]]:
    """The ops, those of the group ``meta`` as one, without bytes: it moves none."""
    yield from (each for each in ops.items() if each[0] not in members)
    if known := [ops[op] for op in members if op in ops]:
        yield META, replace(add_ops(known), bytes_total=None)


def table_series(sample: Sample, top: int | None) -> Iterator[Series]:
    """The ``top`` busiest rows of each breakdown since ioh attached; None for all rows."""
    host = ("host", label_text(sample.hostname))
    for name, layer in sample.layers.items():
        if isinstance(layer, LayerSample):
            for spec in sample.specs[name].tables:
                prefix = f"ioh_{metric_name(name)}_{metric_name(spec.name)}"
                rows = ranked(spec, layer.tables.get(spec.name, {}))[:top]
                for at, column in enumerate(spec.raw_columns):
                    for key, row in rows:
                        labels = (host, *_key_labels(spec, key))
                        yield from _of_metric(prefix, labels, column, row[at])


def ranked(spec: TableSpec, table: Table) -> list[tuple[tuple[str, ...], Row]]:
    """The rows of a table, largest totals first, without the row that sums up the others."""
    by = [at for at, column in enumerate(spec.raw_columns) if column.derived_name in spec.sort_by]
    rows = [(key, row) for key, row in table.items() if key[0] != OTHERS]
    rows.sort(key=lambda item: -sum(item[1][at] or 0 for at in by))
    return rows


def _key_labels(spec: TableSpec, key: tuple[str, ...]) -> Labels:
    names = (f"{name}_name" if name in _TAKEN else metric_name(name) for name in spec.keys)
    return tuple(zip(names, map(label_text, key), strict=True))


def _of_op(prefix: str, labels: Labels, totals: OpTotals, detail: Detail) -> Iterator[Series]:
    yield from _counters(prefix, labels, totals, _COUNTERS)
    if totals.inflight is not None:
        inflight = Family(f"{prefix}_inflight", "gauge", "", "Operations in flight.")
        yield Series(inflight, "", labels, totals.inflight)
    if totals.size_lat is None or totals.latency_ns_total is None:
        return
    text = "Time from start to end."
    family = Family(f"{prefix}_latency_seconds", "histogram", "seconds", text)
    running = list(accumulate(totals.size_lat.by_latency()))
    at_edge = dict(zip(LATENCY_EDGES_US, running, strict=False))
    for edge_us in detail.edges_us:
        yield Series(family, "_bucket", labels, at_edge[edge_us], repr(edge_us / 1e6))
    yield Series(family, "_bucket", labels, running[-1], "+Inf")
    yield Series(family, "_count", labels, running[-1])
    yield Series(family, "_sum", labels, totals.latency_ns_total / 1e9)


def _counters(
    prefix: str,
    labels: Labels,
    totals: OpTotals,
    counters: tuple[tuple[str, str, str, float, str], ...],
) -> Iterator[Series]:
    for field, title, unit, scale, what in counters:
        value = getattr(totals, field)
        if value is not None:
            family = Family(f"{prefix}_{title}", "counter", unit, f"{what} since ioh attached.")
            yield Series(family, "_total", labels, value * scale)


def _of_metric(prefix: str, labels: Labels, spec: MetricSpec, value: Value) -> Iterator[Series]:
    if value is None or not math.isfinite(value) or spec.kind == "ratio":
        return
    is_counter = spec.kind == "counter"
    name, unit, scale = metric_name(spec.name), "", 1.0
    name = name.removesuffix("_total") if is_counter else name
    for suffix, unit_there, suffix_there, factor in _UNITS:
        if name.endswith(suffix):
            name, unit, scale = name.removesuffix(suffix) + suffix_there, unit_there, factor
            break
    if is_counter and name in {title for _, title, *_ in _COUNTERS}:
        name += "_of_layer"
        unit = ""  # OpenMetrics wants it at the name's end
    kind = "counter" if is_counter else "gauge"
    family = Family(f"{prefix}_{name}", kind, unit, spec.help)
    yield Series(
        family, "_total" if is_counter else "", labels, value * scale if scale != 1 else value
    )
