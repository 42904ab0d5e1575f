"""Whose read-ahead window counts: that of what the file system lies on, not of the disk below."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ioh.findings.devices import Device, passing
from ioh.findings.window import rows_of
from ioh.model.snapshot import Snapshot

_NAME = re.compile(r"[^\s,()]+")
_PARTITION = re.compile(r"(p?\d+)?")
_BTRFS_FILE = "/sys/class/bdi/btrfs-*/read_ahead_kb"


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The window of buffered reads.

    Shape:
        ``device`` whose it is; ``file`` where it is set, "" where that is not known; ``bytes`` None
        where it is not known.
    """

    device: str
    file: str
    bytes: float | None

    @property
    def is_btrfs(self) -> bool:
        """Whether it is that of btrfs, which has many devices and one window of its own."""
        return self.file == _BTRFS_FILE

    def set_to(self, kb: int) -> str:
        """The command that changes it; "" where nobody knows what."""
        if not self.file:
            return ""
        if self.is_btrfs:  # a redirection takes one file
            return f"echo {kb} | tee {self.file}   # of every btrfs"
        return f"echo {kb} > {shlex.quote(self.file)}"


def read_ahead(snapshots: Sequence[Snapshot], device: Device | None) -> ReadAhead:
    """The window of the reads that ``device`` serves; None where nobody knows which one does."""
    if _is_btrfs(snapshots[-1]):
        return ReadAhead("btrfs", _BTRFS_FILE, None)
    if device is None:
        return ReadAhead("", "", None)
    upper = _topmost(passing(snapshots, "read"), device)
    return ReadAhead(
        upper.name, upper.queue_file("read_ahead_kb"), upper.settings.get("read_ahead_bytes")
    )


def _is_btrfs(snapshot: Snapshot) -> bool:
    """Whether most of what is read of files now is of a btrfs."""
    by_type: dict[str, float] = {}
    for row in rows_of(snapshot, "syscall", "mount"):
        moved = row.values.get("read_bytes_per_s") or 0.0
        by_type[row.key[-1]] = by_type.get(row.key[-1], 0.0) + moved
    return by_type.get("btrfs", 0.0) > sum(by_type.values()) / 2


def _topmost(stacked: Sequence[Device], device: Device) -> Device:
    """The array or volume through which most of the device's reads pass; else the device."""
    over = [
        upper
        for upper in stacked
        # A file system on a loop device's own has that one's window; carrier() tells them apart.
        if not upper.on.startswith(("file ", "loop on "))
        and any(is_disk_of(device.name, name) for name in _below(upper))
        and _read(upper) >= _read(device) / 2
    ]
    tops = [upper for upper in over if not any(upper.name in _below(other) for other in over)]
    return max(tops, key=_read, default=device)


def _below(device: Device) -> list[str]:
    """Every device that it is made of, at any depth: ``lv on md0 (raid1 on sda1,sdb1)``."""
    return _NAME.findall(device.on.partition(" on ")[2])


def is_disk_of(disk: str, name: str) -> bool:
    """Whether ``name`` is that disk or a partition of it."""
    return name.startswith(disk) and _PARTITION.fullmatch(name[len(disk) :]) is not None


def _read(device: Device) -> float:
    return device.setting("read_bytes_per_s") or 0.0
