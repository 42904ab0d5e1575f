"""Two Samples in, one Snapshot out: the only place that computes rates and means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial

from ioh.model.calls import split_calls
from ioh.model.derive_op import derive_group, derive_op, subtract_ops
from ioh.model.derive_table import derive_metrics, derive_table
from ioh.model.lazy import LazyMapping
from ioh.model.metric import LayerSpec
from ioh.model.rates import delta, quotient, rate_per_s, scaled
from ioh.model.sample import (
    READ_STEP_US,
    SOON,
    HostSample,
    LayerSample,
    OpTotals,
    Sample,
    Unavailable,
)
from ioh.model.snapshot import HOST_NUMBERS, HostStats, LayerSnapshot, OpStats, Snapshot

# Two samples of one reading; their times are rounded.
_SAME_READING_S = 4 * READ_STEP_US / 1e6


def derive(older: Sample, newer: Sample) -> Snapshot:
    """Turn two readings into the interval between them.

    A layer that is new in ``newer`` appears from the next interval on: its totals are not those of
    this interval.

    Raises:
        ValueError: ``newer`` is not later than ``older``: a bug in the source.
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
        fresh_numbers=newer.fresh_numbers,
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
        return Unavailable("starting", SOON)
    between_s = interval_s + (newer.read_after_us - older.read_after_us) / 1e6
    is_new = between_s > _SAME_READING_S
    if between_s < -_SAME_READING_S:  # only in a forged recording
        return Unavailable("its readings are out of order", "run ioh verify")
    interval_s = between_s if is_new else interval_s
    ops = _derive_ops(spec, older.ops, newer.ops, interval_s)
    metrics = derive_metrics(spec.metrics, older.metrics, newer.metrics, interval_s)
    if not is_new:  # no answer in time: equal totals do not mean an idle interval
        ops, metrics = dict.fromkeys(ops, OpStats()), dict.fromkeys(metrics)
    parts = {
        part: partial(
            _derive_ops, spec, _begun(older.parts.get(part, {}), totals), totals, interval_s
        )
        for part, totals in newer.parts.items()
        if older.parts.get(part) != totals or any(op.inflight for op in totals.values())
    }
    tables = {
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
    lost = {k: delta(older.lost.get(k, 0), v) or 0 for k, v in newer.lost.items()}
    count = sum(ops[name].count or 0 for name in spec.ops if name in ops)
    calls, earlier_calls = split_calls(older.calls, newer.calls)
    return LayerSnapshot(
        spec=spec,
        source=newer.source,
        interval_s=interval_s,
        ops=ops,
        metrics=metrics,
        tables=LazyMapping(tables),
        parts=LazyMapping(parts),
        lost=lost,
        lost_pct=quotient(sum(lost.values()), count + sum(lost.values()), 100.0),
        gauge_hists=newer.gauge_hists,
        notes=newer.notes,
        calls=calls,
        earlier_calls=earlier_calls,
    )


def _begun(older: Mapping[str, OpTotals], newer: Mapping[str, OpTotals]) -> Mapping[str, OpTotals]:
    """A part's older totals, with zero for operations that are new, as for a new part."""
    fresh = {name: subtract_ops(op, op) for name, op in newer.items() if name not in older}
    return {**older, **fresh} if fresh else older


def _derive_ops(
    spec: LayerSpec,
    older: Mapping[str, OpTotals],
    newer: Mapping[str, OpTotals],
    interval_s: float,
) -> dict[str, OpStats]:
    """Derive the leaves, then the groups, each from its members' totals."""
    ops = {
        name: derive_op(older[name], newer[name], interval_s)
        for name in spec.ops
        if name in newer and name in older
    }
    for group, members in spec.groups.items():
        present = [name for name in members if name in ops]
        if present:  # a source can know of a group what it does not know of its members
            present += [
                name
                for name, own in spec.groups.items()
                if name in newer and name in older and set(own) <= set(members)
            ]
        if len(present) == 1:
            ops[group] = ops[present[0]]
        elif present:
            ops[group] = derive_group(
                [older[name] for name in present], [newer[name] for name in present], interval_s
            )
        elif group in older and group in newer:  # this source does not have the leaves
            ops[group] = derive_op(older[group], newer[group], interval_s)
    return ops


# Gauges of the machine, taken from the newer reading.
_AS_READ = frozenset(f.name for f in fields(HostSample)) & frozenset(HOST_NUMBERS)


def derive_host(older: HostSample, newer: HostSample, interval_s: float) -> HostStats:
    """The machine between two readings."""
    ticks = delta(older.cpu_total_ticks, newer.cpu_total_ticks)
    if older.cpu_count != newer.cpu_count:
        ticks = None  # the sum jumps by the idle time of a CPU that goes or comes
    idle = delta(older.cpu_idle_ticks, newer.cpu_idle_ticks)
    # The kernel's iowait is approximate and can decrease; then it is unknown.
    iowait = delta(older.cpu_iowait_ticks, newer.cpu_iowait_ticks)
    busy = None if ticks is None or idle is None else max(0, ticks - idle - (iowait or 0))
    some = rate_per_s(older.psi_io_some_us_total, newer.psi_io_some_us_total, interval_s)
    full = rate_per_s(older.psi_io_full_us_total, newer.psi_io_full_us_total, interval_s)
    return HostStats(
        cpu_pct=quotient(busy, ticks, 100.0),
        iowait_pct=quotient(iowait, ticks, 100.0),
        steal_pct=quotient(delta(older.cpu_steal_ticks, newer.cpu_steal_ticks), ticks, 100.0),
        psi_io_some_pct=scaled(some, 1e-4),
        psi_io_full_pct=scaled(full, 1e-4),
        **{name: getattr(newer, name) for name in _AS_READ},
    )
