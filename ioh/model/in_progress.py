"""The table of operations that have begun and not ended, in the same shape for all layers."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import NamedTuple

from ioh.model.sample import Row, Table
from ioh.model.snapshot import LayerSnapshot, rows_of

IN_PROGRESS = "in_progress"
MOST_ROWS = 20
LEAST_AGE_NS = 100_000_000  # younger ones come and go: their rows would say nothing
_OP = 2  # where a key has the op
Key = tuple[str, ...]


class Open(NamedTuple):
    """Operations of one key in flight: when the oldest of them began, and their number."""

    start_ns: int
    number: int


def in_progress_table(keys: str, age: str = "Time since the oldest of them began.") -> str:
    """The table's text for metric.tables(); the third key must be the op."""
    return f"""
        {IN_PROGRESS} | in progress | {keys} | age_us
            age_us | age   | {age}
            count  | in-fl | Operations of this kind in flight.
        """


def oldest_first(found: Mapping[Key, Open], now_ns: int) -> Table:
    """The rows that began first, and those with the oldest of each op."""
    latest_ns = now_ns - LEAST_AGE_NS
    old = {key: each for key, each in found.items() if each.start_ns <= latest_ns}
    by_op: dict[str, Key] = {}
    for key, each in old.items():
        if key[_OP] not in by_op or each < old[by_op[key[_OP]]]:
            by_op[key[_OP]] = key
    kept = dict.fromkeys([*nsmallest(MOST_ROWS, old, key=old.__getitem__), *by_op.values()])
    return {key: _row(old[key], now_ns) for key in kept}


def _row(each: Open, now_ns: int) -> Row:
    return (now_ns - each.start_ns) // 1000, each.number


def oldest_us(layer: LayerSnapshot, op: str) -> float | None:
    """Age of the oldest operation in flight of this op or group.

    Returns:
        None if none has been in flight for LEAST_AGE_NS, or the layer does not know.
    """
    groups = layer.spec.groups
    leaves = {*groups.get(op, (op,))}
    ages = [
        row.values.get("age_us")
        for row in rows_of(layer, IN_PROGRESS)
        if leaves.issuperset(groups.get(row.key[_OP], (row.key[_OP],)))
    ]
    return max((age for age in ages if age is not None), default=None)
