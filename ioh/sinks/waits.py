"""What has begun and not ended, in words: for operations of which none has ended."""

from __future__ import annotations

from collections.abc import Mapping

from ioh.model.in_progress import IN_PROGRESS, in_progress_of, oldest_us
from ioh.model.snapshot import LayerSnapshot, OpStats, TableRow
from ioh.sinks.cells import format_duration, format_fixed, safe_name
from ioh.sinks.rows import all_op

_SAID_FROM_US = 1e6
_MOST_SAID = 3
_NOTHING = OpStats()


def waiting_text(layer: LayerSnapshot, op: str) -> str:
    """``in-fl 4  oldest 12.0 s``; "" if one of this op has ended, or none is in flight."""
    whole = all_op(op)
    stats, age_us = layer.ops.get(whole, _NOTHING), oldest_us(layer, whole)
    rows = in_progress_of(layer, whole)  # also of devices that are not in the sums
    number = stats.inflight if op == whole else 0  # others in flight may be cached
    number = number or max((int(row.values.get("count") or 0) for row in rows), default=0)
    if layer.ops.get(op, stats).count or not number:
        return ""
    age = "" if age_us is None else f"  oldest {format_duration(age_us)}"
    return f"in-fl {format_fixed(number, 5, 0)}{age}"


def render_waits(title: str, layer: LayerSnapshot) -> list[str]:
    """A line for each of the oldest: ``! block: loop3: 4 writes in flight, the oldest for 12.0 s``.

    Only for operations of which none has ended in the interval, on their device or mount.
    """
    lines = []
    for row in layer.rows(IN_PROGRESS):
        key, age_us = _by_name(layer, row), row.values.get("age_us") or 0
        part = key.get(layer.spec.part)
        ops = layer.ops if part is None else layer.parts.get(part, {})
        if age_us >= _SAID_FROM_US and not ops.get(key["op"], _NOTHING).count:
            lines.append(f"! {title}: {_line(key, row)}")
    more = len(lines) - _MOST_SAID
    return [*lines[:_MOST_SAID], *([f"! {title}: and {more} more in progress"] if more > 0 else [])]


def _by_name(layer: LayerSnapshot, row: TableRow) -> Mapping[str, str]:
    keys = next((table.keys for table in layer.spec.tables if table.name == IN_PROGRESS), ())
    return dict(zip(keys, row.key, strict=False))


def _line(key: Mapping[str, str], row: TableRow) -> str:
    first, second, op = row.key[:3]
    number, age = row.values.get("count") or 0, format_duration(row.values.get("age_us"))
    what = op.replace("_", " ") + ("s" if number != 1 and "_" not in op else "")
    who = f"{safe_name(second)}[{first}]" if "pid" in key else safe_name(first)
    file = f" of {safe_name(key['file'])}" if "file" in key else ""
    return f"{who}: {number} {what}{file} in flight, the oldest for {age}"
