"""What lies on a disk: the block devices made of it, and the btrfs file systems."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ioh.procfs.blockdev import device_folder, list_folder
from ioh.procfs.diskstats import parse_dev
from ioh.procfs.files import ROOT, path_under, read_line, read_text
from ioh.procfs.mountinfo import parse_mountinfo

_MOST_DEVICES = 1024  # sysfs cannot hold a cycle, a made-up root can; and each one costs time


def numbers_on(dev: int, root: Path = ROOT) -> tuple[int, ...]:
    """The device numbers under which files and devices that lie on a disk are known.

    Volumes, arrays and encrypted devices are found by ``holders``, through as many layers as
    there are.  One that lies on other disks, too, belongs to each of them.

    Args:
        dev: The whole disk's dev_t, as the kernel has it.
        root: Where /proc and /sys lie.

    Returns:
        Each once and without ``dev`` itself: btrfs file systems (major 0), then what holds the
        disk or a partition of it, nearest first, then partitions, of which files do not
        have the number but are found by their disk.
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
    """Folders of a device's partitions, and of the devices that are made of it."""
    for name in list_folder(folder):
        if read_line(f"{folder}/{name}/partition") is not None:
            yield f"{folder}/{name}"
    for name in list_folder(f"{folder}/holders"):
        yield os.path.realpath(f"{folder}/holders/{name}")


def _number(folder: str) -> int | None:
    return parse_dev(read_line(f"{folder}/dev") or "")


def _btrfs_on(devs: set[int], root: Path) -> list[int]:
    """The mounted btrfs file systems that lie on one of the devices, wholly or in part.

    Returns:
        Their own dev_t, as mountinfo has them: their superblocks name no block device.
    """
    base = path_under(root, "sys/fs/btrfs")
    names: set[str] = set()
    for folder in (f"{base}/{uuid}/devices" for uuid in list_folder(base)):
        members = list_folder(folder)
        if any(_number(os.path.realpath(f"{folder}/{name}")) in devs for name in members):
            names.update(members)
    mounts = parse_mountinfo(read_text(path_under(root, "proc/self/mountinfo")) or "")
    return sorted(
        mount.dev
        for mount in mounts
        # What was mounted may be a name of device mapper's or of udev's.
        if mount.fstype == "btrfs"
        and os.path.realpath(path_under(root, mount.source.lstrip("/"))).rpartition("/")[2] in names
    )
