"""What lies on a disk: the block devices made of it, and the btrfs file systems."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ioh.procfs.blockdev import device_folder, list_folder
from ioh.procfs.btrfs import btrfs_on
from ioh.procfs.diskstats import parse_dev
from ioh.procfs.files import ROOT, read_line

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
        return btrfs_on(dev, root)
    seen, waiting = {top}, deque([top])
    disks: list[int] = []
    partitions: list[int] = []
    while waiting and len(seen) < _MOST_DEVICES:
        folder = waiting.popleft()
        number = parse_dev(read_line(f"{folder}/dev") or "")
        if number is not None:
            is_partition = read_line(f"{folder}/partition") is not None
            (partitions if is_partition else disks).append(number)
        for above in _above(folder):
            if above not in seen:
                seen.add(above)
                waiting.append(above)
    btrfs = {found for disk in disks for found in btrfs_on(disk, root)}
    return tuple(n for n in dict.fromkeys((*sorted(btrfs), *disks, *partitions)) if n != dev)


def _above(folder: str) -> Iterator[str]:
    """Folders of a device's partitions, and of the devices that are made of it."""
    for name in list_folder(folder):
        if read_line(f"{folder}/{name}/partition") is not None:
            yield f"{folder}/{name}"
    for name in list_folder(f"{folder}/holders"):
        yield os.path.realpath(f"{folder}/holders/{name}")
