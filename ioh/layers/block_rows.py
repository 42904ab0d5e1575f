"""The rows of block devices: diskstats' own, with what the probe measured more finely."""

from __future__ import annotations

from collections.abc import Mapping

from ioh.model.metric import TableSpec
from ioh.model.sample import OpTotals, Row, Table, Value

Parts = Mapping[str, Mapping[str, OpTotals]]

_OPS = {
    "read": ("reads_total", "read_bytes_total", "read_ns_total"),
    "write": ("writes_total", "write_bytes_total", "write_ns_total"),
}


class DeviceRows:
    """Rows by device and what it lies on; each begins with 0 where it appears.

    A disk that comes back, or a loop device that gets another file, has a new row and, by its
    name, the totals of before.  A new disk can have totals a tick before diskstats lists it.
    """

    def __init__(self, table: TableSpec) -> None:
        self._columns = [column.name for column in table.raw_columns]
        self._bases: dict[tuple[str, ...], dict[str, int]] = {}
        self._before: Parts = {}
        self._rows: Table = {}
        self._merged: dict[tuple[str, ...], Row] = {}
        self._names: set[str] = set()

    def merge(self, rows: Table, parts: Parts) -> Table:
        """As of this tick.

        Args:
            rows: Those of diskstats.
            parts: The probe's totals by device.
        """
        bases = {key: self._base(key) for key in rows}
        merged: dict[tuple[str, ...], Row] = {}
        for key, row in rows.items():
            is_idle = row is self._rows.get(key) and parts.get(key[0]) == self._before.get(key[0])
            if is_idle and key in self._merged:
                merged[key] = self._merged[key]
                continue
            values: dict[str, Value] = dict(zip(self._columns, row, strict=True))
            for column, total in _values(parts, key[0]).items():
                values[column] = total - bases[key].get(column, 0)
            merged[key] = tuple(values[column] for column in self._columns)
        self._bases, self._before, self._rows, self._merged = bases, parts, rows, merged
        self._names |= {key[0] for key in rows}
        return merged

    def _base(self, key: tuple[str, ...]) -> dict[str, int]:
        """What its device had done before the row was there."""
        if key in self._bases:
            return self._bases[key]
        return _values(self._before, key[0]) if key[0] in self._names else {}


def _values(parts: Parts, name: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for op, totals in parts.get(name, {}).items():
        if op in _OPS:
            count, size, time = _OPS[op]
            values[count] = totals.count_total or 0
            values[size] = totals.bytes_total or 0
            values[time] = totals.latency_ns_total or 0
    return values
