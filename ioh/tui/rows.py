"""Which lines a layer has: its reads and writes, its other operations, and why it has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import format_unit, safe_name
from ioh.sinks.rows import Direction, is_flow, op_rows

CACHED_SHARE = "cached_pct"
_MOST_BUSY = 4
# What a flow has instead of latencies, by direction: shown when 0 too.
_FLOW_FACTS = {"R": ("srtt_us", "min_rtt_us"), "W": ("retrans_pct", "retrans_segs_per_s")}


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One line of a layer.

    Shape:
        ``op`` is "" for a line without numbers: a layer that is not there (``note`` says why),
        or a share that the label says.  ``note`` of an op says
        what its numbers leave out (a flow's round-trip time, the share that was cached).
        ``is_part`` lines belong to the one above.
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
        """What stays the same from tick to tick."""
        return (self.layer, self.op)


def layer_rows(snapshot: Snapshot, *, only: str = "") -> list[LayerRow]:
    """The lines in the path's order, a layer's reads before its writes.

    ``only``: a layer whose every op is wanted; "" for all layers' reads and writes.
    """
    found: list[LayerRow] = []
    for name, layer in snapshot.layers.items():
        if only and name != only:
            continue
        spec = snapshot.specs.get(name)
        if isinstance(layer, Unavailable):
            found.append(_missing(name, spec, layer))
            continue
        rows = sorted(_rows(name, layer, every_op=bool(only)), key=_order)
        main = [row for row in rows if row.op and row.direction and not row.is_part]
        found += rows if only else main or _busy(rows)
    return found


def _busy(rows: Sequence[LayerRow]) -> Sequence[LayerRow]:
    """Of a layer without reads and writes the first lines that have something to show."""
    return [row for row in rows if row.stats.count][:_MOST_BUSY] or rows[:2]


def _order(row: LayerRow) -> int:
    return ("R", "W", "").index(row.direction)


def _missing(name: str, spec: LayerSpec | None, layer: Unavailable) -> LayerRow:
    title = safe_name(spec.title if spec else name)
    note = safe_name(layer.reason)
    if layer.hint:
        note += f". {safe_name(layer.hint)}"
    return LayerRow(name, "", "R", title, OpStats(), note)


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


def cached_share(layer: LayerSnapshot) -> str:
    """Share of the reads that touched no lower layer; "" where it is not known."""
    share = layer.metrics.get(CACHED_SHARE)
    return "" if share is None else f"{share:.1f}%"


def flow_facts(layer: LayerSnapshot, direction: Direction) -> Iterator[str]:
    """``rtt 64u``, ``min rtt 60u``; of what is sent the share and rate of what was sent again."""
    by_name = {spec.derived_name: spec for spec in layer.spec.metrics}
    for name in _FLOW_FACTS.get(direction, ()):
        value = layer.metrics.get(name)
        if name in by_name and value is not None:
            title = by_name[name].title.removesuffix("µs").rstrip()
            yield f"{title} {format_unit(name, title, value)}"
