"""Two Samples in, one Snapshot out: the only place where a rate or a mean is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache, reduce
from operator import add
from typing import Any, NamedTuple

from ioh.model.hist import FINE_EDGES_US, LatencyHist, SizeLatencyHist, fine_index
from ioh.model.metric import LayerSpec, MetricSpec, TableSpec
from ioh.model.sample import (
    HostSample,
    LayerSample,
    OpTotals,
    Row,
    Sample,
    Table,
    Unavailable,
    Value,
)
from ioh.model.snapshot import HostStats, LayerSnapshot, OpStats, Snapshot, TableRow

QUANTILES = (0.5, 0.95, 0.99, 0.999)


def derive(older: Sample, newer: Sample) -> Snapshot:
    """Turn two readings into the interval between them.

    A layer that is new in ``newer`` is shown from the next interval on: its totals since
    attach say nothing about this interval.

    Raises:
        ValueError: ``newer`` is not later than ``older``, which is a bug in the source.
    """
    interval_s = (newer.mono_ns - older.mono_ns) / 1e9
    if interval_s <= 0:
        msg = f"interval of {interval_s} s: samples out of order"
        raise ValueError(msg)
    return Snapshot(
        time_unix_s=newer.time_unix_s,
        interval_s=interval_s,
        hostname=newer.hostname,
        kernel=newer.kernel,
        host=derive_host(older.host, newer.host, interval_s),
        layers={
            name: _derive_layer(newer.specs[name], older.layers.get(name), layer, interval_s)
            for name, layer in newer.layers.items()
        },
        specs=newer.specs,
        self_cpu_pct=_scaled(
            rate_per_s(older.self_cpu_ns_total, newer.self_cpu_ns_total, interval_s), 1e-7
        ),
        bpf_cpu_pct=_scaled(rate_per_s(older.bpf_ns_total, newer.bpf_ns_total, interval_s), 1e-7),
    )


def delta(older: Value, newer: Value) -> int | float | None:
    """Increase of one running total.

    Returns:
        None when a reading is missing or the total went backwards (module reload, evicted
        map key).  Never negative, and never 0 for "unknown".
    """
    if older is None or newer is None or newer < older:
        return None
    return newer - older


def rate_per_s(older: Value, newer: Value, interval_s: float) -> float | None:
    """Events per second between two readings of one running total.

    Args:
        older: The total at the earlier reading; None where the source was not available.
        newer: The total at the later reading.
        interval_s: Measured time between the readings, not the interval asked for.

    Returns:
        None when a reading is missing or the total went backwards.

    Raises:
        ValueError: interval_s is not positive, which is a bug in the sampler.
    """
    if interval_s <= 0:
        msg = f"interval_s must be positive, not {interval_s}"
        raise ValueError(msg)
    difference = delta(older, newer)
    return None if difference is None else difference / interval_s


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _quotient(numerator: Value, denominator: Value, scale: float = 1.0) -> float | None:
    if numerator is None or not denominator:
        return None
    return numerator / denominator * scale


def _int_delta(older: int | None, newer: int | None) -> int | None:
    if older is None or newer is None or newer < older:
        return None
    return newer - older


def derive_op(older: OpTotals, newer: OpTotals, interval_s: float) -> OpStats:
    """One op between two readings of its totals."""
    count = _int_delta(older.count_total, newer.count_total)
    bytes_ = _int_delta(older.bytes_total, newer.bytes_total)
    latency_ns = _int_delta(older.latency_ns_total, newer.latency_ns_total)
    queued = _int_delta(older.queued_total, newer.queued_total)
    queue_us = _quotient(_int_delta(older.queue_ns_total, newer.queue_ns_total), queued, 1e-3)
    latency_us = _quotient(latency_ns, count, 1e-3)
    known = queue_us is not None and latency_us is not None and queued == count
    latency, size_lat = _hist_deltas(older, newer, count)
    max_us = _scaled(newer.max_ns, 1e-3) if count else None
    p50, p95, p99, p999 = _percentiles(latency, max_us)
    weighted_ns = _int_delta(older.weighted_ns_total, newer.weighted_ns_total)
    busy_ns = weighted_ns if weighted_ns is not None else latency_ns
    return OpStats(
        count=count,
        bytes=bytes_,
        ops_per_s=_scaled(count, 1 / interval_s),
        bytes_per_s=_scaled(bytes_, 1 / interval_s),
        avg_bytes=_quotient(bytes_, count),
        latency_us=latency_us,
        queue_us=queue_us,
        service_us=latency_us - queue_us if known and latency_us and queue_us is not None else None,
        p50_us=p50,
        p95_us=p95,
        p99_us=p99,
        p999_us=p999,
        max_us=max_us,
        max_bytes=newer.max_bytes if count else None,
        inflight=newer.inflight,
        avg_inflight=_scaled(busy_ns, 1e-9 / interval_s),
        errors_per_s=rate_per_s(older.errors_total, newer.errors_total, interval_s),
        latency=latency,
        size_lat=size_lat,
    )


def _percentiles(latency: LatencyHist | None, max_us: float | None) -> tuple[float | None, ...]:
    """Upper edges of the ranks' buckets; the maximum itself where it lies in that bucket."""
    if latency is None:
        return (None,) * len(QUANTILES)
    found = latency.percentiles_us(QUANTILES)
    if not max_us:
        return found
    top_edge_us = FINE_EDGES_US[min(fine_index(int(max_us * 1e3)), len(FINE_EDGES_US) - 1)]
    return tuple(max_us if p is not None and p == top_edge_us else p for p in found)


def _hist_deltas(
    older: OpTotals, newer: OpTotals, count: int | None
) -> tuple[LatencyHist | None, SizeLatencyHist | None]:
    if count is None or newer.latency is None or newer.size_lat is None:
        return None, None
    old_latency = older.latency or LatencyHist()
    old_size_lat = older.size_lat or SizeLatencyHist()
    return newer.latency - old_latency, newer.size_lat - old_size_lat


def _add_values(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def add_ops(parts: list[OpTotals]) -> OpTotals:
    """The totals of a group of ops: everything added, the slower of the two maxima kept."""
    if len(parts) == 1:
        return parts[0]
    slowest = max(parts, key=lambda p: p.max_ns or 0)
    summed = {
        name: _add_values(getattr(p, name) for p in parts)
        for name in (
            "count_total",
            "bytes_total",
            "errors_total",
            "latency_ns_total",
            "queue_ns_total",
            "queued_total",
            "started_total",
            "inflight",
            "weighted_ns_total",
        )
    }
    latencies = [p.latency for p in parts if p.latency is not None]
    size_lats = [p.size_lat for p in parts if p.size_lat is not None]
    return OpTotals(
        **summed,
        max_ns=slowest.max_ns,
        max_bytes=slowest.max_bytes,
        latency=reduce(add, latencies) if latencies else None,
        size_lat=reduce(add, size_lats) if size_lats else None,
    )


def _derive_layer(
    spec: LayerSpec,
    older: LayerSample | Unavailable | None,
    newer: LayerSample | Unavailable,
    interval_s: float,
) -> LayerSnapshot | Unavailable:
    if isinstance(newer, Unavailable):
        return newer
    if not isinstance(older, LayerSample) or older.source != newer.source:
        return Unavailable("attached during this interval", "shown from the next one on")
    ops = _derive_ops(spec, older.ops, newer.ops, interval_s)
    parts = {
        part: _derive_ops(spec, older.parts.get(part) or _nothing(totals), totals, interval_s)
        for part, totals in newer.parts.items()
        if older.parts.get(part) != totals
    }
    lost = {k: int(delta(older.lost.get(k, 0), v) or 0) for k, v in newer.lost.items()}
    counted = sum(ops[name].count or 0 for name in spec.ops if name in ops)
    return LayerSnapshot(
        spec=spec,
        source=newer.source,
        ops=ops,
        metrics=_derive_metrics(spec.metrics, older.metrics, newer.metrics, interval_s),
        tables={
            table.name: derive_table(
                table, older.tables.get(table.name, {}), newer.tables[table.name], interval_s
            )
            for table in spec.tables
            if table.name in newer.tables
        },
        parts=parts,
        lost=lost,
        lost_pct=_quotient(sum(lost.values()), counted + sum(lost.values()), 100.0),
        gauge_hists=newer.gauge_hists,
        notes=newer.notes,
    )


def _nothing(totals: Mapping[str, OpTotals]) -> dict[str, OpTotals]:
    """What a part that has just appeared had before: zero wherever it now has a total."""
    return {name: _zeroed(op) for name, op in totals.items()}


def _zeroed(op: OpTotals) -> OpTotals:
    counters = (f.name for f in fields(op) if f.name.endswith("_total"))
    known: dict[str, Any] = {name: 0 for name in counters if getattr(op, name) is not None}
    return OpTotals(**known)


def _derive_ops(
    spec: LayerSpec,
    older: Mapping[str, OpTotals],
    newer: Mapping[str, OpTotals],
    interval_s: float,
) -> dict[str, OpStats]:
    """Leaves first, then groups, each from its members' totals."""
    ops = {
        name: derive_op(older[name], newer[name], interval_s)
        for name in spec.ops
        if name in newer and name in older
    }
    for group, members in spec.groups.items():
        present = [name for name in members if name in ops]
        if present:
            ops[group] = derive_op(
                add_ops([older[name] for name in present]),
                add_ops([newer[name] for name in present]),
                interval_s,
            )
        elif group in older and group in newer:  # a source that cannot tell the leaves apart
            ops[group] = derive_op(older[group], newer[group], interval_s)
    return ops


def _derive_metrics(
    specs: tuple[MetricSpec, ...],
    older: Mapping[str, Value],
    newer: Mapping[str, Value],
    interval_s: float,
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for spec in specs:
        if spec.kind == "gauge":
            values[spec.name] = newer.get(spec.name)
        elif spec.kind == "counter":
            values[spec.derived_name] = rate_per_s(
                older.get(spec.name), newer.get(spec.name), interval_s
            )
        elif not spec.denominator:
            values[spec.name] = _scaled(
                rate_per_s(older.get(spec.numerator), newer.get(spec.numerator), interval_s),
                spec.scale,
            )
        else:
            values[spec.name] = _quotient(
                delta(older.get(spec.numerator), newer.get(spec.numerator)),
                delta(older.get(spec.denominator), newer.get(spec.denominator)),
                spec.scale,
            )
    return values


def derive_table(
    spec: TableSpec, older: Table, newer: Table, interval_s: float
) -> tuple[TableRow, ...]:
    """Rank the rows of a breakdown that did something in this interval.

    A key that ``older`` lacks started from nothing: the probe drops a row only once it has
    been idle for long, so all of its total belongs to this interval.
    """
    columns = _plan(spec)
    has_counters = any(c.kind == "counter" for c in spec.columns)
    nothing: Row = tuple(0 if c.kind == "counter" else None for c in spec.raw_columns)
    ranked: list[tuple[float, TableRow]] = []
    for key, row in newer.items():
        before = older.get(key, nothing)
        if has_counters and row == before:
            continue
        values = {c.name: c.value(before, row, interval_s) for c in columns}
        weight = sum(values.get(name) or 0.0 for name in spec.sort_by)
        ranked.append((weight, TableRow(key, values)))
    ranked.sort(key=lambda pair: (-pair[0], pair[1].key))
    return tuple(row for _, row in ranked)


class _Column(NamedTuple):
    """How one column of a Snapshot's row follows from two raw rows; by position, not by name."""

    name: str
    kind: str
    at: int
    denominator_at: int | None
    scale: float

    def value(self, before: Row, row: Row, interval_s: float) -> Value:
        """The column of one row."""
        if self.kind == "gauge":
            return row[self.at]
        difference = delta(before[self.at], row[self.at])
        if self.denominator_at is not None:
            return _quotient(
                difference, delta(before[self.denominator_at], row[self.denominator_at]), self.scale
            )
        return None if difference is None else difference / interval_s * self.scale


@lru_cache(maxsize=256)
def _plan(spec: TableSpec) -> tuple[_Column, ...]:
    positions = {column.name: at for at, column in enumerate(spec.raw_columns)}
    return tuple(
        _Column(
            c.derived_name,
            c.kind,
            positions[c.numerator if c.kind == "ratio" else c.name],
            positions[c.denominator] if c.denominator else None,
            c.scale,
        )
        for c in spec.columns
    )


def derive_host(older: HostSample, newer: HostSample, interval_s: float) -> HostStats:
    """The machine between two readings."""
    ticks = delta(older.cpu_total_ticks, newer.cpu_total_ticks)
    idle = delta(older.cpu_idle_ticks, newer.cpu_idle_ticks)
    # The kernel's iowait may run backwards (it is a hint); then it is not known.
    iowait = delta(older.cpu_iowait_ticks, newer.cpu_iowait_ticks)
    busy = None if ticks is None or idle is None else max(0, ticks - idle - (iowait or 0))
    some = rate_per_s(older.psi_io_some_us_total, newer.psi_io_some_us_total, interval_s)
    full = rate_per_s(older.psi_io_full_us_total, newer.psi_io_full_us_total, interval_s)
    return HostStats(
        cpu_pct=_quotient(busy, ticks, 100.0),
        iowait_pct=_quotient(iowait, ticks, 100.0),
        steal_pct=_quotient(delta(older.cpu_steal_ticks, newer.cpu_steal_ticks), ticks, 100.0),
        cpu_count=newer.cpu_count,
        load1=newer.load1,
        load5=newer.load5,
        load15=newer.load15,
        mem_total_bytes=newer.mem_total_bytes,
        mem_available_bytes=newer.mem_available_bytes,
        cached_bytes=newer.cached_bytes,
        dirty_bytes=newer.dirty_bytes,
        writeback_bytes=newer.writeback_bytes,
        dirty_limit_bytes=newer.dirty_limit_bytes,
        dirty_background_bytes=newer.dirty_background_bytes,
        psi_io_some_pct=_scaled(some, 1e-4),
        psi_io_full_pct=_scaled(full, 1e-4),
    )
