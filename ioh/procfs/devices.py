"""Finds the block device that a user means by ``--device``."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.procfs.blockdev import (
    BlockDevice,
    device_folder,
    folder_name,
    list_folder,
    read_block_device,
)
from ioh.procfs.diskstats import make_dev, parse_dev
from ioh.procfs.files import ROOT, path_under, read_line

_MAX_LISTED = 24


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """The whole disk that requests of the chosen device carry.

    Shape:
        ``dev`` is the kernel's dev_t, major << 20 | minor; ``name`` is printable; ``notes``
        say where this differs from what the user asked for.
    """

    dev: int
    name: str
    notes: tuple[str, ...] = ()


def list_disks(root: Path = ROOT) -> list[str]:
    """The kernel's names of all whole block devices, sorted, not yet printable."""
    return [folder_name(entry) for entry in list_folder(path_under(root, "sys/block"))]


def resolve_device(argument: str, root: Path = ROOT) -> ChosenDevice:
    """Find the device for ``--device``.

    Args:
        argument: A kernel name (``sda``), a path below /dev including symbolic links
            (``/dev/mapper/vg-lv``, ``/dev/disk/by-id/…``), a device-mapper name (``vg-lv``)
            or ``major:minor``.
        root: Where /sys and /dev are.

    Returns:
        The whole disk: requests carry no partition, so a partition stands for its disk.

    Raises:
        IohError: There is no such block device; the hint lists those that exist.
    """
    dev = _find(argument, root)
    device = None if dev is None else read_block_device(dev, root)
    if device is None:
        names = [printable(name) for name in list_disks(root)]
        listed = ", ".join(names[:_MAX_LISTED]) + (", …" if len(names) > _MAX_LISTED else "")
        hint = f"This host has: {listed}" if names else "This host has no block device in /sys"
        cause = f'no block device "{printable(argument, 200)}"'
        raise IohError(cause, hint, ExitCode.USAGE)
    return ChosenDevice(device.disk_dev, device.disk_name, _notes(device))


def _notes(device: BlockDevice) -> tuple[str, ...]:
    notes = []
    if device.is_partition:
        notes.append(
            f"{device.name} is a partition: requests carry the whole disk, "
            f"so all of {device.disk_name} is shown"
        )
    if not device.has_requests:
        below = f"; its I/O becomes requests of {device.stack}" if device.is_stacked else ""
        notes.append(f"{device.disk_name} has no request queue, only /proc counts its I/O{below}")
    return tuple(notes)


def _find(argument: str, root: Path) -> int | None:
    dev = parse_dev(argument)
    if dev is not None:
        return dev if device_folder(dev, root) is not None else None
    if argument.startswith("/"):
        return _find_path(argument, root)
    return _find_name(argument, root)


def _find_path(path: str, root: Path) -> int | None:
    # Below /dev only: any other path may lie on a mount that hangs whoever looks.
    normal = os.path.normpath(path)
    if not normal.startswith("/dev/"):
        return None
    place = path_under(root, normal.lstrip("/"))
    try:
        status = os.stat(place)
    except (OSError, ValueError):
        status = None
    if status is not None and stat.S_ISBLK(status.st_mode):
        return make_dev(os.major(status.st_rdev), os.minor(status.st_rdev))
    try:
        target = os.path.realpath(place)
    except (OSError, ValueError):
        return None
    return _find_name(target.rpartition("/")[2], root) or _find_name(
        normal.removeprefix("/dev/"), root
    )


def _find_name(name: str, root: Path) -> int | None:
    entry = name.replace("/", "!")
    if not entry or entry in {".", ".."}:
        return None
    for folder in ("sys/class/block", "sys/block"):
        dev = parse_dev(read_line(path_under(root, f"{folder}/{entry}/dev")) or "")
        if dev is not None:
            return dev
    for disk in list_folder(path_under(root, "sys/block")):
        folder = path_under(root, f"sys/block/{disk}")
        if read_line(f"{folder}/dm/name") == name:
            return parse_dev(read_line(f"{folder}/dev") or "")
    return None
