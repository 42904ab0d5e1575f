"""Tables of the block layer that describe the machine rather than count: limits, jobs."""

from __future__ import annotations

from pathlib import Path

from ioh.model.metric import TableSpec, gauge
from ioh.model.sample import Row, Table
from ioh.procfs.blockdev import BlockDevices
from ioh.procfs.io_limits import IoLimits
from ioh.procfs.maintenance import read_jobs

LIMITS = TableSpec(
    "limit",
    "I/O limits of control groups",
    ("cgroup", "device"),
    (
        gauge("read_limit_bytes_per_s", "Bytes that may be read a second.", "rB/s max"),
        gauge("write_limit_bytes_per_s", "Bytes that may be written a second.", "wB/s max"),
        gauge("read_limit_ops_per_s", "Reads allowed a second.", "r/s max"),
        gauge("write_limit_ops_per_s", "Writes allowed a second.", "w/s max"),
        gauge("cgroup_version", "Of control groups: where the group's files are.", ""),
    ),
    ("read_limit_bytes_per_s", "write_limit_bytes_per_s"),
)
JOBS = TableSpec(
    "job",
    "maintenance under way",
    ("device", "job"),
    (
        gauge("done_pct", "Share that is done.", "done%"),
        gauge("speed_bytes_per_s", "The kernel's word for its speed.", "B/s"),
    ),
    ("speed_bytes_per_s",),
)


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
