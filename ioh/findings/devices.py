"""Block devices in Snapshots: which one serves some I/O, its limits and its read-ahead."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from ioh.findings.sums import OpSum, sum_op, sum_rows
from ioh.findings.window import once
from ioh.model.sample import Value
from ioh.model.snapshot import Snapshot, TableRow

PAGE_BYTES = 4096
_NAME = re.compile(r"[^\s,()]+")
_BTRFS_FILE = "/sys/class/bdi/btrfs-*/read_ahead_kb"


@dataclass(frozen=True, slots=True)
class Device:
    """One device, and its I/O in one direction.

    Shape:
        ``name`` is the kernel's; ``on`` is what it consists of; ``settings`` are the gauges of its
        row by name; ``sum`` is its reads or writes.
    """

    name: str
    on: str
    settings: Mapping[str, Value]
    sum: OpSum

    def setting(self, name: str) -> float | None:
        """A limit; None if there is none or it is not known."""
        return self.settings.get(name) or None

    @property
    def is_stacked(self) -> bool:
        """Whether its I/O appears again on another device."""
        return bool(self.settings.get("stacked"))

    @property
    def node(self) -> str:
        """Its device file; quote it in a command, like every name."""
        return f"/dev/{self.name}"

    def queue_file(self, name: str) -> str:
        """The sysfs file of a setting of its queue."""
        return f"{sys_folder(self.name)}/queue/{name}"


def sys_folder(name: str) -> str:
    """A device's folder in sysfs."""
    return f"/sys/block/{name.replace('/', '!')}"


@once
def devices(snapshots: Sequence[Snapshot], op: str) -> list[Device]:
    """Devices that did ``op`` (read or write), busiest first."""
    rows = snapshots[-1].rows("block", "device")
    every = [_device(row, sum_op(snapshots, "block", op, row.key[0])) for row in rows]
    return sorted((x for x in every if x.sum.count), key=lambda device: -device.sum.bytes)


def _device(row: TableRow, total: OpSum) -> Device:
    return Device(row.key[0], row.key[1] if len(row.key) > 1 else "", row.values, total)


def passing(snapshots: Sequence[Snapshot], op: str) -> list[Device]:
    """Devices without own requests (md, dm) through which ``op`` passes now; ``sum`` is empty."""
    nothing = OpSum(snapshots[-1].interval_s)
    return [
        _device(row, nothing)
        for row in snapshots[-1].rows("block", "device")
        if row.values.get("stacked") and row.values.get(f"{op}s_per_s")
    ]


def bottom(snapshots: Sequence[Snapshot], op: str) -> list[Device]:
    """Devices with no other device below them, busiest first; with --device, that device."""
    every = devices(snapshots, op)
    return [device for device in every if not device.is_stacked] or every


def carrier(
    snapshots: Sequence[Snapshot], op: str, bytes_: float, avg_bytes: float
) -> Device | None:
    """The device that most likely got such requests: the most similar in bytes and size.

    It need not be the busiest one: a loop device's I/O appears again below it, split or merged.
    """
    candidates = [d for d in devices(snapshots, op) if d.sum.bytes and d.sum.avg_bytes]
    if not candidates or not bytes_ or not avg_bytes:
        return None

    def unlikeness(device: Device) -> float:
        by_bytes = abs(math.log(device.sum.bytes / bytes_))
        return by_bytes + abs(math.log(device.sum.avg_bytes / avg_bytes))

    return min(candidates, key=unlikeness)


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The read-ahead window of buffered reads.

    Shape:
        ``device`` that has it; ``file`` that sets it, "" if not known; ``bytes`` None if not known.
    """

    device: str
    file: str
    bytes: float | None

    @property
    def is_btrfs(self) -> bool:
        """Whether it is that of btrfs, which has its own window for all its devices."""
        return self.file == _BTRFS_FILE

    def set_to(self, kb: int) -> str:
        """The command that changes it; "" if the file is not known."""
        if not self.file:
            return ""
        if self.is_btrfs:  # a redirection takes one file
            return f"echo {kb} | tee {self.file}   # of every btrfs"
        return f"echo {kb} > {shlex.quote(self.file)}"


def read_ahead(snapshots: Sequence[Snapshot], device: Device | None) -> ReadAhead:
    """The window for the reads that ``device`` serves; None: the device is not known."""
    if _is_btrfs(snapshots[-1]):
        return ReadAhead("btrfs", _BTRFS_FILE, None)
    if device is None:
        return ReadAhead("", "", None)
    upper = _topmost(passing(snapshots, "read"), device)
    return ReadAhead(
        upper.name, upper.queue_file("read_ahead_kb"), upper.settings.get("read_ahead_bytes")
    )


def _is_btrfs(snapshot: Snapshot) -> bool:
    """Whether most of the bytes that programs read now are from btrfs."""
    by_type = sum_rows([snapshot], "syscall", "mount", ("read_bytes_per_s",), itemgetter(-1))
    return by_type.get("btrfs", 0.0) > sum(by_type.values()) / 2


def _topmost(stacked: Sequence[Device], device: Device) -> Device:
    """The array or volume through which most of the device's reads pass, else the device."""
    over = [
        upper
        for upper in stacked
        # A loop device has its own window; carrier() decides between it and the disk.
        if not upper.on.startswith(("file ", "loop on "))
        and any(is_disk_of(device.name, name) for name in below(upper.on))
        and _read(upper) >= _read(device) / 2
    ]
    tops = [upper for upper in over if not any(upper.name in below(other.on) for other in over)]
    return max(tops, key=_read, default=device)


def below(stack: str) -> list[str]:
    """All devices below another one, at any depth, from ``lv on md0 (raid1 on sda1,sdb1)``."""
    return _NAME.findall(stack.partition(" on ")[2])


def is_disk_of(disk: str, name: str) -> bool:
    """Whether ``name`` is ``disk`` or one of its partitions: ``loop1p1``, but not ``loop10``."""
    begin = f"{disk}p" if disk[-1:].isdecimal() else disk
    return name == disk or (name.startswith(begin) and name.removeprefix(begin).isdecimal())


def _read(device: Device) -> float:
    return device.setting("read_bytes_per_s") or 0.0
