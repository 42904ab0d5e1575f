"""Two Samples in, one Snapshot out: the only place where a rate or a mean is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, reduce
from operator import add
from typing import Any

from ioh.model.derive_table import derive_table
from ioh.model.hist import FINE_EDGES_US, LatencyHist, SizeLatencyHist, fine_index
from ioh.model.late import NO_DISTRIBUTION, Distribution, LateMapping
from ioh.model.metric import LayerSpec, MetricSpec
from ioh.model.rates import delta, int_delta, quotient, rate_per_s, scaled
from ioh.model.sample import (
    HostSample,
    LayerSample,
    OpTotals,
    Sample,
    Unavailable,
    Value,
)
from ioh.model.snapshot import HostStats, LayerSnapshot, OpStats, Snapshot, TableRow

__all__ = ["add_ops", "delta", "derive", "derive_op", "derive_table", "rate_per_s"]

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
        self_cpu_pct=scaled(
            rate_per_s(older.self_cpu_ns_total, newer.self_cpu_ns_total, interval_s), 1e-7
        ),
        bpf_cpu_pct=scaled(rate_per_s(older.bpf_ns_total, newer.bpf_ns_total, interval_s), 1e-7),
    )


def derive_op(older: OpTotals, newer: OpTotals, interval_s: float) -> OpStats:
    """One op between two readings of its totals."""
    return _derive_op(older, newer, interval_s, (older,), (newer,))


def _derive_op(
    older: OpTotals,
    newer: OpTotals,
    interval_s: float,
    older_hists: Sequence[OpTotals],
    newer_hists: Sequence[OpTotals],
) -> OpStats:
    """One op; its histograms, added up, are looked at only when somebody asks for them."""
    count = int_delta(older.count_total, newer.count_total)
    bytes_ = int_delta(older.bytes_total, newer.bytes_total)
    latency_ns = int_delta(older.latency_ns_total, newer.latency_ns_total)
    queued = int_delta(older.queued_total, newer.queued_total)
    queue_us = quotient(int_delta(older.queue_ns_total, newer.queue_ns_total), queued, 1e-3)
    latency_us = quotient(latency_ns, count, 1e-3)
    known = queue_us is not None and latency_us is not None and queued == count
    max_us = scaled(newer.max_ns, 1e-3) if count else None
    weighted_ns = int_delta(older.weighted_ns_total, newer.weighted_ns_total)
    busy_ns = weighted_ns if weighted_ns is not None else latency_ns
    return OpStats.with_late(
        _Distribution(older_hists, newer_hists, max_us) if count is not None else NO_DISTRIBUTION,
        count=count,
        bytes=bytes_,
        ops_per_s=scaled(count, 1 / interval_s),
        bytes_per_s=scaled(bytes_, 1 / interval_s),
        avg_bytes=quotient(bytes_, count),
        latency_us=latency_us,
        queue_us=queue_us,
        service_us=latency_us - queue_us if known and latency_us and queue_us is not None else None,
        max_us=max_us,
        max_bytes=newer.max_bytes if count else None,
        inflight=newer.inflight,
        avg_inflight=scaled(busy_ns, 1e-9 / interval_s),
        errors_per_s=rate_per_s(older.errors_total, newer.errors_total, interval_s),
    )


class _Distribution(Distribution):
    """Histograms and percentiles of an op, computed when asked for.

    Args:
        older: Totals whose histograms, added up, are those of the earlier reading.
        newer: The same of the later reading.
        max_us: The slowest operation of the interval.
    """

    __slots__ = ("_max_us", "_newer", "_older")

    def __init__(
        self, older: Sequence[OpTotals], newer: Sequence[OpTotals], max_us: float | None
    ) -> None:
        self._older, self._newer, self._max_us = older, newer, max_us

    def latency(self) -> LatencyHist | None:
        """Increments of the latency histogram; None where there is none of either kind."""
        if not self._is_known():
            return None
        newer = [op.latency for op in self._newer if op.latency is not None]
        older = [op.latency for op in self._older if op.latency is not None]
        return reduce(add, newer) - (reduce(add, older) if older else LatencyHist())

    def size_lat(self) -> SizeLatencyHist | None:
        """The same of the histogram by size."""
        if not self._is_known():
            return None
        newer = [op.size_lat for op in self._newer if op.size_lat is not None]
        older = [op.size_lat for op in self._older if op.size_lat is not None]
        return reduce(add, newer) - (reduce(add, older) if older else SizeLatencyHist())

    def percentiles_us(self, latency: LatencyHist | None) -> tuple[float | None, ...]:
        """p50, p95, p99 and p99.9."""
        return _percentiles(latency, self._max_us)

    def _is_known(self) -> bool:
        return any(op.latency is not None for op in self._newer) and any(
            op.size_lat is not None for op in self._newer
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


def _add_values(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def add_ops(parts: list[OpTotals]) -> OpTotals:
    """The totals of a group of ops: everything added, the slower of the two maxima kept."""
    if len(parts) == 1:
        return parts[0]
    latencies = [p.latency for p in parts if p.latency is not None]
    size_lats = [p.size_lat for p in parts if p.size_lat is not None]
    return replace(
        _add_numbers(parts),
        latency=reduce(add, latencies) if latencies else None,
        size_lat=reduce(add, size_lats) if size_lats else None,
    )


def _add_numbers(parts: Sequence[OpTotals]) -> OpTotals:
    """The same without histograms."""
    slowest = max(parts, key=lambda p: p.max_ns or 0)
    return OpTotals(
        count_total=_add_values([p.count_total for p in parts]),
        bytes_total=_add_values([p.bytes_total for p in parts]),
        errors_total=_add_values([p.errors_total for p in parts]),
        latency_ns_total=_add_values([p.latency_ns_total for p in parts]),
        queue_ns_total=_add_values([p.queue_ns_total for p in parts]),
        queued_total=_add_values([p.queued_total for p in parts]),
        started_total=_add_values([p.started_total for p in parts]),
        max_ns=slowest.max_ns,
        max_bytes=slowest.max_bytes,
        inflight=_add_values([p.inflight for p in parts]),
        weighted_ns_total=_add_values([p.weighted_ns_total for p in parts]),
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

    def parts() -> dict[str, Callable[[], Mapping[str, OpStats]]]:
        return {
            part: partial(
                _derive_ops, spec, older.parts.get(part) or _nothing(totals), totals, interval_s
            )
            for part, totals in newer.parts.items()
            if older.parts.get(part) != totals
        }

    def tables() -> dict[str, Callable[[], tuple[TableRow, ...]]]:
        return {
            table.name: partial(
                derive_table,
                table,
                older.tables.get(table.name, {}),
                newer.tables[table.name],
                interval_s,
            )
            for table in spec.tables
            if table.name in newer.tables
        }

    lost = {k: int(delta(older.lost.get(k, 0), v) or 0) for k, v in newer.lost.items()}
    counted = sum(ops[name].count or 0 for name in spec.ops if name in ops)
    return LayerSnapshot(
        spec=spec,
        source=newer.source,
        ops=ops,
        metrics=_derive_metrics(spec.metrics, older.metrics, newer.metrics, interval_s),
        tables=LateMapping(tables),
        parts=LateMapping(parts),
        lost=lost,
        lost_pct=quotient(sum(lost.values()), counted + sum(lost.values()), 100.0),
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
        if len(present) == 1:
            ops[group] = ops[present[0]]
        elif present:
            olds, news = [older[name] for name in present], [newer[name] for name in present]
            ops[group] = _derive_op(_add_numbers(olds), _add_numbers(news), interval_s, olds, news)
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
            values[spec.name] = scaled(
                rate_per_s(older.get(spec.numerator), newer.get(spec.numerator), interval_s),
                spec.scale,
            )
        else:
            values[spec.name] = quotient(
                delta(older.get(spec.numerator), newer.get(spec.numerator)),
                delta(older.get(spec.denominator), newer.get(spec.denominator)),
                spec.scale,
            )
    return values


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
        cpu_pct=quotient(busy, ticks, 100.0),
        iowait_pct=quotient(iowait, ticks, 100.0),
        steal_pct=quotient(delta(older.cpu_steal_ticks, newer.cpu_steal_ticks), ticks, 100.0),
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
        psi_io_some_pct=scaled(some, 1e-4),
        psi_io_full_pct=scaled(full, 1e-4),
    )
