"""The lines of a layer: reads and writes, other operations, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ioh.model.metric import MetricSpec
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import format_duration, format_scaled, format_unit, safe_name
from ioh.sinks.rows import Direction, is_flow, op_rows

_MOST_BUSY = 4
# Shown for a flow instead of latencies, by direction; also if 0.
_FLOW_FACTS = {"R": ("srtt_us", "min_rtt_us"), "W": ("retrans_pct", "retrans_segs_per_s")}


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One line of a layer.

    Shape:
        ``is_part`` lines belong to the line above.
    """

    layer: str
    op: str
    direction: Direction
    label: str
    stats: OpStats
    is_part: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the line from tick to tick."""
        return (self.layer, self.op)


def layer_rows(snapshot: Snapshot, *, only: str = "") -> list[LayerRow]:
    """The lines of measured layers in path order, a layer's reads before its writes.

    ``only``: show every op of this layer; "" for the reads and writes of all layers.
    """
    found: list[LayerRow] = []
    for name, layer in snapshot.measured.items():
        if only and name != only:
            continue
        rows = list(_rows(name, layer, every_op=bool(only)))
        rows.sort(key=lambda row: ("R", "W", "").index(row.direction))
        main = [row for row in rows if row.direction and not row.is_part]
        busy = [row for row in rows if row.stats.count][:_MOST_BUSY]
        found += rows if only else main or busy or rows[:2]
    return found


def first_op(snapshot: Snapshot, name: str, way: str = "") -> tuple[str, str]:
    """The (layer, op) to show of a layer: a busy one, in the direction ``way`` if there is one.

    Of a flow the direction with most bytes: the other one may have acknowledgements only.
    """
    rows = layer_rows(snapshot, only=name)

    def rank(row: LayerRow) -> tuple[bool, bool, float]:
        stats = row.stats
        size = (stats.bytes_per_s or 0.0) if is_flow(snapshot.specs[name]) else 0.0
        return not (stats.count or size), bool(way) and row.direction != way, -size

    return min(rows, key=rank).key if rows else (name, "")


def layer_number(snapshot: Snapshot, name: str) -> int:
    """The number of the key that zooms into a layer."""
    return list(snapshot.specs).index(name) + 1


def why_inactive(snapshot: Snapshot, name: str) -> str:
    """Why a layer has no numbers and what helps, printable; "" if it has some."""
    layer = snapshot.layers.get(name)
    if not isinstance(layer, Unavailable):
        return ""
    hint = f"; {safe_name(layer.hint)}" if layer.hint else ""
    return f"{safe_name(snapshot.title(name))} is inactive: {safe_name(layer.reason)}{hint}"


def _rows(name: str, layer: LayerSnapshot, *, every_op: bool) -> Iterator[LayerRow]:
    title = safe_name(layer.spec.title)
    flow, share = is_flow(layer.spec), cached_share(layer)
    for row in op_rows(layer.spec, layer.ops, title, every_op=every_op):
        label = f"{title} {row.op}" if flow and row.is_main else row.label
        is_part = not row.is_main and bool(row.direction) and not flow
        if is_part:
            label = label.removeprefix(title).strip() or label
        if share and "cached" in row.op:
            label = f"{label} {share}"
        yield LayerRow(name, row.op, row.direction, label, row.stats, is_part)


def cached_share(layer: LayerSnapshot) -> str:
    """Share of the bytes read that came from memory; "" if unknown.

    In an old recording of calls it is a share of them.
    """
    share = layer.metrics.get("cached_pct")
    return "" if share is None else percent(share)


def flow_facts(layer: LayerSnapshot, direction: Direction) -> Iterator[str]:
    """``rtt 64 µs``, ``min rtt 60 µs`` of what comes in; of the rest, share and rate sent again."""
    by_name = {spec.derived_name: spec for spec in layer.spec.metrics}
    for name in _FLOW_FACTS.get(direction, ()):
        value = retrans_pct(layer) if name == "retrans_pct" else layer.metrics.get(name)
        if name in by_name and value is not None:
            text = metric_text(by_name[name], value) if value else "0"
            yield f"{metric_title(by_name[name])} {text}"


def retrans_pct(layer: LayerSnapshot) -> Value:
    """Share of a flow's segments that were sent again, 0 to 100; of no segments none was."""
    share = layer.metrics.get("retrans_pct")
    return 0.0 if share is None and layer.metrics.get("retrans_segs_per_s") == 0 else share


def megabytes(bytes_per_s: Value) -> str:
    """A throughput in at most five columns, in 1,000,000 bytes per second."""
    return format_scaled(bytes_per_s / 1e6 if bytes_per_s else bytes_per_s)


def percent(value: Value) -> str:
    """A share: ``0%``, ``0.027%``, ``35.0%``."""
    return "0%" if value == 0 else format_scaled(value) + "%" * (value is not None)


def metric_title(spec: MetricSpec) -> str:
    """A number's title; a time has its unit in its text."""
    return spec.title.removesuffix("µs").rstrip()


def metric_text(spec: MetricSpec, value: Value) -> str:
    """A number with its unit, if the title does not have it; counts and limits are exact."""
    name, title = spec.derived_name, metric_title(spec)
    if name.endswith("_us"):
        return format_duration(value)
    if name.endswith("_pct") and value:
        return format_scaled(value) if "%" in title else percent(value)
    is_exact = isinstance(value, int) or name.endswith("_bytes")
    return format_unit(name, title, value) if is_exact else format_scaled(value)
