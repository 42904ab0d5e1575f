"""Rows of the block layer: devices, I/O limits, maintenance; and which devices are stacked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.layers.per_owner_totals import Ops
from ioh.model.metric import TableSpec
from ioh.model.sample import Row, Table, Value
from ioh.procfs.blockdev import BlockDevices
from ioh.procfs.diskstats import dev_text
from ioh.procfs.io_limits import IoLimits
from ioh.procfs.maintenance import read_jobs

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

Parts = Mapping[str, Ops]

_SCARCE_SHARE = 2  # tell the probe about stacked devices once 1/2 of its room is used
_OPS = {
    "read": ("reads_total", "read_bytes_total", "read_ns_total"),
    "write": ("writes_total", "write_bytes_total", "write_ns_total"),
}


class DeviceRows:
    """Rows by device and what it lies on; each starts at 0.

    A disk that comes back, or a loop device that gets another file, has a new row, but its name
    still has the old totals.  A new disk can have totals one tick before diskstats lists it.
    """

    def __init__(self, table: TableSpec) -> None:
        self._columns = [column.name for column in table.raw_columns]
        self._bases: dict[tuple[str, ...], dict[str, int]] = {}
        self._before: Parts = {}
        self._rows: Table = {}
        self._merged: dict[tuple[str, ...], Row] = {}
        self._names: set[str] = set()

    def merge(self, rows: Table, parts: Parts) -> Table:
        """Merge the probe's totals by device into the rows of diskstats; call it once a tick."""
        bases = {key: self._base(key) for key in rows}
        merged: dict[tuple[str, ...], Row] = {}
        for key, row in rows.items():
            is_idle = row is self._rows.get(key) and parts.get(key[0]) is self._before.get(key[0])
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
        """The totals of its device before the row appeared."""
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
        if totals.errors_total is not None:
            values["errors_total"] = values.get("errors_total", 0) + totals.errors_total
    return values


class MachineTables:
    """The tables of I/O limits and maintenance jobs."""

    def __init__(self, root: Path, devices: BlockDevices) -> None:
        self._root = root
        self._devices = devices
        self._limits = IoLimits(root)

    def read(self) -> dict[str, Table]:
        """Read them; call it once a tick."""
        limits: dict[tuple[str, ...], Row] = {}
        for (group, dev), values in self._limits.read().items():
            device = self._devices.get(dev)
            name = device.name if device is not None else dev_text(dev)
            limits[group, name] = (*values, self._limits.version)
        return {"limit": limits, "job": read_jobs(self._root)}


class StackedDevices:
    """The devices that the probe leaves out of the sum over all devices."""

    def __init__(self) -> None:
        self._listed: set[int] = set()

    def report(self, stacked: Map, devices: Iterable[int], entries: int, room: int) -> None:
        """Once a tick, if ``room`` gets scarce: tell the probe which devices are stacked."""
        if entries * _SCARCE_SHARE < room:
            return
        now = set(devices)
        for dev in self._listed - now:
            stacked.delete(dev.to_bytes(4, sys.byteorder))
        fresh = sorted(now - self._listed)[: stacked.spec.max_entries - len(self._listed & now)]
        for dev in fresh:
            stacked.update(dev.to_bytes(4, sys.byteorder), (1).to_bytes(4, sys.byteorder))
        self._listed = self._listed & now | set(fresh)
