"""Narrows a Snapshot to one row of a breakdown: a process, a device, a mount, a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.io_path import META
from ioh.model.rates import quotient
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.sinks.rows import all_op, direction, main_stats
from ioh.tui.state import Narrow

# Breakdowns whose rows are parts with another name.
_PART_TABLES = {"file system": "export"}
# The rest of the key differs between layers: a mount's type here, its server there.
_BY_FIRST_KEY = frozenset({"process", "mount", "device", "file"})
# The ops of calls that did not wait.
# The numbers in a row of ops that have one kind.
_UNDIVIDED = {
    "copy": ("copies_per_s", "copy_bytes_per_s", "copy_latency_us"),
    "fault_read": ("faults_per_s", "fault_bytes_per_s", "fault_latency_us"),
}
_BESIDE = {"read": "cached", "write": "buffered", META: "cached"}
_DIRECTION_WORDS = {"R": ("read", "in"), "W": ("write", "out")}


def narrowed(snapshot: Snapshot, to: Narrow) -> Snapshot:
    """Narrow a snapshot to one row.

    A layer with full statistics of the row (a device, a mount) shows them.  A layer with the row
    in a breakdown shows its numbers, without percentiles and histograms.  Any other layer is
    unavailable.
    """
    layers: dict[str, LayerSnapshot | Unavailable] = {}
    for name, layer in snapshot.layers.items():
        layers[name] = layer if isinstance(layer, Unavailable) else _layer(layer, to)
    return replace(snapshot, layers=layers)


def _layer(layer: LayerSnapshot, to: Narrow) -> LayerSnapshot | Unavailable:
    tables = {
        table.name: tuple(r for r in layer.tables.get(table.name, ()) if _fits(table.name, r, to))
        for table in layer.spec.tables
    }
    part = _part(layer, to)
    if part is not None:
        return replace(layer, ops=layer.parts[part], tables=tables, metrics={}, parts={})
    spec = next((t for t in layer.spec.tables if t.name == to.kind), None)
    if spec is None and layer.spec.part != to.kind:
        return Unavailable(f"not available per {to.kind}", is_idle=True)
    rows = tables[spec.name] if spec else ()
    idle = OpStats(count=0, bytes=0, ops_per_s=0.0, bytes_per_s=0.0)
    ops: dict[str, OpStats] = {}
    for op, _ in main_stats(layer.spec, layer.ops):
        ops |= _kinds(rows[0], op) if rows else {op: idle}
    if rows and rows[0].values.get("metas_per_s") is not None:
        ops |= {**_kinds(rows[0], META), **_kinds(rows[0], f"{META}_waited")}
    for op, names in _UNDIVIDED.items():
        if rows and rows[0].values.get(names[0]) is not None:
            ops[op] = _stats(*map(rows[0].values.get, names))
    return replace(layer, ops=ops, tables=tables, metrics={}, parts={}, gauge_hists={})


def _part(layer: LayerSnapshot, to: Narrow) -> str | None:
    """The part of a row: ``sda``, or ``10.0.0.5:/export on /mnt`` for mount ``/mnt``."""
    if to.kind != layer.spec.part and to.kind != _PART_TABLES.get(layer.spec.part):
        return None
    named = to.key[0]
    return next((p for p in layer.parts if p == named or p.endswith(f" on {named}")), None)


def _fits(table: str, row: TableRow, to: Narrow) -> bool:
    if table == IN_PROGRESS:
        return row.key[:1] == to.key[:1]
    if table == to.kind:
        return row.key == to.key or (table in _BY_FIRST_KEY and row.key[:1] == to.key[:1])
    if to.kind == "mount" and table == "file":
        mount = to.key[0].rstrip("/") + "/"
        return any(part.startswith(mount) for part in row.key)
    return False


def _kinds(row: TableRow, op: str) -> dict[str, OpStats]:
    """An op's numbers in a breakdown's row; of an application's calls, both kinds."""
    verb, values = all_op(op), row.values
    rate, size = _find(values, verb, "s_per_s"), _find(values, verb, "_bytes_per_s")
    ns, waited = values.get(f"{verb}_ns_per_s"), values.get(f"{verb}s_waited_per_s")
    if verb == op or waited is None:
        return {verb: _stats(rate, size, _find(values, verb, "_latency_us", "_await_us"))}
    waited_size, waited_ns = (values.get(f"{verb}_waited_{name}_per_s") for name in ("bytes", "ns"))
    rest = _left(rate, waited)
    mean_us = quotient(_left(ns, waited_ns), rest, 1e-3)
    return {
        op: _stats(waited, waited_size, quotient(waited_ns, waited, 1e-3)),
        f"{verb}_{_BESIDE[verb]}": _stats(rest, _left(size, waited_size), mean_us),
    }


def _left(whole: Value, part: Value) -> float | None:
    return None if whole is None or part is None else max(0.0, whole - part)


def _stats(ops_per_s: float | None, bytes_per_s: float | None, latency_us: float | None) -> OpStats:
    return OpStats(
        count=None if ops_per_s is None else round(ops_per_s),
        ops_per_s=ops_per_s,
        bytes_per_s=bytes_per_s,
        avg_bytes=quotient(bytes_per_s, ops_per_s),
        latency_us=latency_us,
    )


def _find(values: Mapping[str, Value], op: str, *endings: str) -> float | None:
    for word in _DIRECTION_WORDS.get(direction(op), (op,)):
        for ending in endings:
            if values.get(word + ending) is not None:
                return values[word + ending]
    return None
