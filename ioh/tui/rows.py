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
        ``op`` is "" for a line without numbers: an inactive layer (``note`` says why), or a share
        that the label has.  ``note`` of a flow's op has its other numbers, such as the round-trip
        time.  ``is_part`` lines belong to the line above.
    """

    layer: str
    op: str
    direction: Direction
    label: str
    stats: OpStats
    note: str = ""
    is_part: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the line from tick to tick."""
        return (self.layer, self.op)


def layer_rows(snapshot: Snapshot, *, only: str = "") -> list[LayerRow]:
    """The lines in path order, a layer's reads before its writes.

    ``only``: show every op of this layer; "" for the reads and writes of all layers.
    """
    found: list[LayerRow] = []
    for name, layer in snapshot.layers.items():
        if only and name != only:
            continue
        if isinstance(layer, Unavailable):
            note = ". ".join(safe_name(text) for text in (layer.reason, layer.hint) if text)
            found.append(LayerRow(name, "", "R", safe_name(snapshot.title(name)), OpStats(), note))
            continue
        rows = list(_rows(name, layer, every_op=bool(only)))
        rows.sort(key=lambda row: ("R", "W", "").index(row.direction))
        main = [row for row in rows if row.op and row.direction and not row.is_part]
        busy = [row for row in rows if row.stats.count][:_MOST_BUSY]
        found += rows if only else main or busy or rows[:2]
    return found


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
    flow = is_flow(layer.spec)
    shown = op_rows(layer.spec, layer.ops, title, every_op=every_op)
    share = cached_share(layer)
    has_cached_op = any("cached" in row.op for row in shown)
    for row in shown:
        note = "  ".join(flow_facts(layer, row.direction)) if flow and row.is_main else ""
        label = f"{title} {row.op}" if flow and row.is_main else row.label
        is_part = not row.is_main and bool(row.direction) and not flow
        if is_part:
            label = label.removeprefix(title).strip() or label
        if share and "cached" in row.op:
            label = f"{label} {share}"
        yield LayerRow(name, row.op, row.direction, label, row.stats, note, is_part)
        if share and row.is_main and row.direction == "R" and not has_cached_op:
            yield LayerRow(name, "", "R", f"cached {share}", OpStats(), "", is_part=True)


def cached_share(layer: LayerSnapshot, *, in_full: bool = False) -> str:
    """Share of the bytes read that came from memory; "" if unknown.

    In an old recording of calls it is a share of them.  ``in_full``: says so, or that share, too.
    """
    share, calls = (layer.metrics.get(f"cached_{name}pct") for name in ("", "calls_"))
    if share is None:
        return ""
    beside = f", calls {percent(calls)}" if calls is not None else ""
    if "read_calls_per_s" in layer.metrics and "cached_calls_pct" not in layer.metrics:
        beside = " of calls"
    return percent(share) + beside * in_full


def flow_facts(layer: LayerSnapshot, direction: Direction) -> Iterator[str]:
    """``rtt 64 µs``, ``min rtt 60 µs`` of what comes in; of the rest, share and rate sent again."""
    by_name = {spec.derived_name: spec for spec in layer.spec.metrics}
    for name in _FLOW_FACTS.get(direction, ()):
        value = layer.metrics.get(name)
        if name in by_name and value is not None:
            text = metric_text(by_name[name], value) if value else "0"
            yield f"{metric_title(by_name[name])} {text}"


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
