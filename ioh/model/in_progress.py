"""The table of operations that have begun and not ended, in the same shape for all layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ioh.model.sample import Row, Table, Value
from ioh.model.snapshot import LayerSnapshot, TableRow

IN_PROGRESS = "in_progress"
MOST_ROWS = 20
LEAST_AGE_NS = 100_000_000  # younger ones come and go: their rows would say nothing
_OP = 2  # where a key has the op
Who = TypeVar("Who", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Open(Generic[Who]):
    """Operations in flight: those of one ``op`` and ``who`` have one row.

    Shape:
        ``op`` is a name in the layer's spec; ``who`` finds the other parts of the row's key.
        ``tid``: the thread in the oldest of them, 0 if there is none or if it does not matter.

    Units:
        ``start_ns``: when the oldest of them began, on the monotonic clock; ``number`` of them.
    """

    op: str
    who: Who
    start_ns: int
    number: int = 1
    tid: int = 0


def in_progress_table(
    keys: str, more: str = "", age: str = "Time since the oldest of them began."
) -> str:
    """The table's text for metric.tables(), with ``more`` columns; the third key must be the op."""
    return f"""
        {IN_PROGRESS} | in progress | {keys} | age_us
            age_us | age   | {age}
            count  | in-fl | Operations of this kind in flight.
            {more}
        """


def oldest_first(
    operations: Iterable[Open[Who]],
    now_ns: int,
    name: Callable[[Open[Who]], tuple[str, ...]],
    more: Callable[[Open[Who]], tuple[Value, ...]] = lambda _: (),
) -> Table:
    """The rows of those that began first, and of the oldest of each op.

    ``name`` finds the key and ``more`` the columns after the count, only of operations that get a
    row.
    """
    groups: dict[tuple[str, Who], Open[Who]] = {}
    for each in operations:
        group = groups.setdefault((each.op, each.who), each)
        if group is not each:
            oldest = group if group.start_ns <= each.start_ns else each
            groups[each.op, each.who] = replace(oldest, number=group.number + each.number)
    old = [each for each in groups.values() if now_ns - each.start_ns >= LEAST_AGE_NS]
    old.sort(key=lambda each: each.start_ns)
    first_of_op = {each.op: each for each in reversed(old)}
    rows: dict[tuple[str, ...], Row] = {}
    for at, each in enumerate(old):
        if at < MOST_ROWS or first_of_op[each.op] is each:
            key = name(each)
            if key in rows:
                age_us, number, *rest = rows[key]
                rows[key] = age_us, (number or 0) + each.number, *rest
            else:
                rows[key] = (now_ns - each.start_ns) // 1000, each.number, *more(each)
    return rows


def in_progress_of(layer: LayerSnapshot, op: str) -> list[TableRow]:
    """The rows of an op, or of a group and its members, the oldest first."""
    groups = layer.spec.groups
    leaves = {*groups.get(op, (op,))}
    return [
        row
        for row in layer.rows(IN_PROGRESS)
        if leaves.issuperset(groups.get(row.key[_OP], (row.key[_OP],)))
    ]


def oldest_us(layer: LayerSnapshot, op: str) -> float | None:
    """Age of the oldest operation in flight of this op or group.

    Returns:
        None if none has been in flight for LEAST_AGE_NS, or the layer does not know.
    """
    ages = (row.values.get("age_us") for row in in_progress_of(layer, op))
    return max((age for age in ages if age is not None), default=None)
