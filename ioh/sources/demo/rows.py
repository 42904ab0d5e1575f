"""Running totals of tables' rows, fed with batches."""

from __future__ import annotations

from collections.abc import Mapping

from ioh.model.metric import LayerSpec, TableSpec
from ioh.model.sample import Row, Table, Value
from ioh.sources.demo.names import Key

READ, WRITE, SYNC = 0, 3, 6  # where a row has count, bytes and ns of each; SYNC has no bytes
_COLUMNS = 8


def column_of(op: str) -> int:
    """Which columns of a flow's row an op counts in."""
    if op.startswith("read"):
        return READ
    return SYNC if op in ("fsync", "commit") else WRITE


class FlowRows:
    """Count, bytes and ns of reads and writes, count and ns of syncs, by key."""

    def __init__(self) -> None:
        self._totals: dict[Key, list[int]] = {}

    def add(self, key: Key, column: int, increments: tuple[int, int, int]) -> None:
        """Add count, bytes and ns."""
        row = self._totals.get(key)
        if row is None:
            row = self._totals[key] = [0] * _COLUMNS
        count, size, ns = increments
        row[column] += count
        if column == SYNC:
            row[column + 1] += ns
        else:
            row[column + 1] += size
            row[column + 2] += ns

    def table(self) -> Table:
        """All rows as they are now."""
        return {key: tuple(row) for key, row in self._totals.items()}


def table_of(spec: LayerSpec, name: str) -> TableSpec:
    """A layer's table by its name."""
    return next(table for table in spec.tables if table.name == name)


def make_row(table: TableSpec, values: Mapping[str, Value]) -> Row:
    """A row in the table's order.

    Raises:
        KeyError: A column has no value.
    """
    return tuple(values[column.name] for column in table.raw_columns)
