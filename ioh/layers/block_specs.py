"""Rows that describe the machine rather than count: I/O limits, maintenance under way."""

from __future__ import annotations

from pathlib import Path

from ioh.model.sample import Row, Table
from ioh.procfs.blockdev import BlockDevices
from ioh.procfs.io_limits import IoLimits
from ioh.procfs.maintenance import read_jobs


class MachineTables:
    """Reads both tables, once a tick."""

    def __init__(self, root: Path, devices: BlockDevices) -> None:
        self._root = root
        self._devices = devices
        self._limits = IoLimits(root)

    def read(self) -> dict[str, Table]:
        """The limits that there are and the jobs that run now."""
        limits: dict[tuple[str, ...], Row] = {}
        for (group, dev), values in self._limits.read().items():
            device = self._devices.get(dev)
            name = device.name if device is not None else f"{dev >> 20}:{dev & 0xFFFFF}"
            limits[group, name] = (*values, self._limits.version)
        jobs: dict[tuple[str, ...], Row] = {
            (job.device, job.kind): (job.done_pct, job.speed_bytes_per_s)
            for job in read_jobs(self._root)
        }
        return {"limit": limits, "job": jobs}
