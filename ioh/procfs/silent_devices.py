"""Block devices with something in flight that complete nothing, from /proc/diskstats."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from ioh.model.in_progress import Open, in_progress_table, oldest_first
from ioh.model.sample import Table
from ioh.procfs.diskstats import DiskStats, read_inflight
from ioh.procfs.files import ROOT

SILENT_DEVICES = in_progress_table(
    "device, on, op",
    age="""At least this long: how long the device has completed nothing, with something in flight
        at each sample.""",
)
Key = tuple[str, str]


class SilentDevices:
    """Finds them; call ``table()`` once a tick.

    Also devices without requests (dm, md, zram), whose I/O the kernel counts in bios.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._waiting: dict[int, tuple[int, int]] = {}  # since when, completed by then

    def table(self, disks: Iterable[tuple[DiskStats, Key]], read_ns: int) -> Table:
        """Rows by device, what it lies on, and op.

        Args:
            disks: All whole disks, each with the beginning of its row's key.
            read_ns: When diskstats was read, or earlier, on the monotonic clock.
        """
        later_ns = time.monotonic_ns()
        waiting: dict[int, tuple[int, int]] = {}
        found: list[Open[Key]] = []
        for disk, key in disks:
            if disk.inflight:
                completed = disk.reads_total + disk.writes_total + disk.discards_total
                completed += disk.flushes_total
                before = self._waiting.get(disk.dev, (later_ns, completed))
                since = before if before[1] == completed else (later_ns, completed)
                waiting[disk.dev] = since
                if since[0] < read_ns:
                    found += self._in_flight(disk, key, since[0])
        self._waiting = waiting
        return oldest_first(found, read_ns, lambda each: (*each.who, each.op))

    def _in_flight(self, disk: DiskStats, key: Key, since_ns: int) -> list[Open[Key]]:
        """Reads and writes apart, where the kernel tells; not all devices have both numbers."""
        both = read_inflight(disk.name, self._root)
        ops = zip(("read", "write"), both, strict=True) if both else (("other", disk.inflight),)
        return [Open(op, key, since_ns, number) for op, number in ops if number]
