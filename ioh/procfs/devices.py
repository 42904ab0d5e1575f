"""Resolves ``--device``, and finds the devices and file systems on a disk."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
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
from ioh.procfs.mountinfo import read_mounts

_MAX_LISTED = 24
_MOST_DEVICES = 1024  # each one costs time; sysfs has no cycles, but a test's root can


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """The whole disk of a device, which its requests carry; ``notes`` explain the difference."""

    dev: int
    name: str
    notes: tuple[str, ...] = ()


def resolve_device(argument: str, root: Path = ROOT) -> ChosenDevice:
    """Find the whole disk for ``--device``: requests carry no partition.

    Args:
        argument: A kernel name (``sda``), a path or symbolic link below /dev
            (``/dev/mapper/vg-lv``, ``/dev/disk/by-id/…``), a device-mapper name (``vg-lv``)
            or ``major:minor``.
        root: Where /sys and /dev are.

    Raises:
        IohError: There is no such block device; the hint lists the existing ones.
    """
    dev = _find(argument, root)
    device = None if dev is None else read_block_device(dev, root)
    if device is None:
        disks = list_folder(path_under(root, "sys/block"))
        names = [printable(folder_name(disk)) for disk in disks]
        listed = ", ".join(names[:_MAX_LISTED]) + (", …" if len(names) > _MAX_LISTED else "")
        hint = f"This host has: {listed}" if names else "This host has no block device in /sys"
        cause = f'no block device "{printable(argument, 200)}"'
        raise IohError(cause, hint, ExitCode.USAGE)
    return ChosenDevice(device.disk_dev, device.disk_name, _notes(device))


def _notes(device: BlockDevice) -> tuple[str, ...]:
    notes = []
    if device.is_partition:
        notes.append(
            f"{device.name} is a partition, but requests carry only the whole disk: "
            f"all of {device.disk_name} is shown"
        )
    if not device.has_requests:
        below = f"; its I/O becomes requests of {device.stack}" if device.is_stacked else ""
        notes.append(f"{device.disk_name} has no request queue: only /proc counts its I/O{below}")
    return tuple(notes)


def _find(argument: str, root: Path) -> int | None:
    dev = parse_dev(argument)
    if dev is not None:
        return dev if device_folder(dev, root) is not None else None
    if argument.startswith("/"):
        return _find_path(argument, root)
    return _find_name(argument, root)


def _find_path(path: str, root: Path) -> int | None:
    # Only below /dev: any other path can lie on a mount that hangs.
    normal = os.path.normpath(path)
    if not normal.startswith("/dev/"):
        return None
    place = path_under(root, normal.lstrip("/"))
    with suppress(OSError):
        status = os.stat(place)
        if stat.S_ISBLK(status.st_mode):
            return make_dev(os.major(status.st_rdev), os.minor(status.st_rdev))
    target = os.path.realpath(place).rpartition("/")[2]
    return _find_name(target, root) or _find_name(normal.removeprefix("/dev/"), root)


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


def numbers_on(dev: int, root: Path = ROOT) -> tuple[int, ...]:
    """The device numbers of the file systems and devices on a disk.

    Finds volumes, arrays and encrypted devices by ``holders``, through all layers.  A device on
    several disks belongs to each of them.

    Returns each number once, without ``dev``: btrfs file systems (major 0), then the holders of the
    disk or its partitions, nearest first, then partitions.  Files do not have a partition's number;
    their disk is used instead.
    """
    top = device_folder(dev, root)
    if top is None:
        return ()
    seen, waiting = {top}, deque([top])
    disks: list[int] = []
    partitions: list[int] = []
    while waiting and len(seen) < _MOST_DEVICES:
        folder = waiting.popleft()
        number = _number(folder)
        if number is not None:
            is_partition = read_line(f"{folder}/partition") is not None
            (partitions if is_partition else disks).append(number)
        for above in _above(folder):
            if above not in seen:
                seen.add(above)
                waiting.append(above)
    btrfs = _btrfs_on({*disks, *partitions}, root)
    return tuple(n for n in dict.fromkeys((*btrfs, *disks, *partitions)) if n != dev)


def _above(folder: str) -> Iterator[str]:
    """Folders of a device's partitions and of the devices on top of it."""
    for name in list_folder(folder):
        if read_line(f"{folder}/{name}/partition") is not None:
            yield f"{folder}/{name}"
    for name in list_folder(f"{folder}/holders"):
        yield os.path.realpath(f"{folder}/holders/{name}")


def _number(folder: str) -> int | None:
    return parse_dev(read_line(f"{folder}/dev") or "")


def _btrfs_on(devs: set[int], root: Path) -> list[int]:
    """dev_t of the mounted btrfs on one of the devices: their superblocks name no device."""
    base = path_under(root, "sys/fs/btrfs")
    names: set[str] = set()
    for folder in (f"{base}/{uuid}/devices" for uuid in list_folder(base)):
        members = list_folder(folder)
        if any(_number(os.path.realpath(f"{folder}/{name}")) in devs for name in members):
            names.update(members)
    return sorted(
        mount.dev
        for mount in read_mounts(root)
        # The mount source can be a name made by device-mapper or udev.
        if mount.fstype == "btrfs"
        and os.path.realpath(path_under(root, mount.source.lstrip("/"))).rpartition("/")[2] in names
    )
