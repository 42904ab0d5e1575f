"""btrfs file systems by disk: their superblocks name no block device, since they may have many."""

from __future__ import annotations

import os
from pathlib import Path

from ioh.procfs.blockdev import list_folder
from ioh.procfs.diskstats import parse_dev
from ioh.procfs.files import ROOT, path_under, read_text
from ioh.procfs.mountinfo import parse_mountinfo


def btrfs_on(dev: int, root: Path = ROOT) -> tuple[int, ...]:
    """The mounted btrfs file systems that lie on a disk, wholly or in part.

    Args:
        dev: The disk's or partition's dev_t, as the kernel has it.
        root: Where /proc and /sys lie.

    Returns:
        Their own dev_t, as mountinfo has them (major 0), each once, in order.
    """
    members = _members(root)
    found = set()
    for mount in parse_mountinfo(read_text(path_under(root, "proc/self/mountinfo")) or ""):
        if mount.fstype != "btrfs":
            continue
        # What was mounted may be a name of device mapper's or of udev's.
        name = os.path.realpath(path_under(root, mount.source.lstrip("/"))).rpartition("/")[2]
        if any(name in names and dev in devs for names, devs in members):
            found.add(mount.dev)
    return tuple(sorted(found))


def _members(root: Path) -> list[tuple[set[str], set[int]]]:
    """For each file system its devices' names, and their and their disks' numbers."""
    folder = path_under(root, "sys/fs/btrfs")
    made = []
    for uuid in list_folder(folder):
        names = list_folder(f"{folder}/{uuid}/devices")
        paths = [os.path.realpath(f"{folder}/{uuid}/devices/{name}") for name in names]
        numbers = {number for path in paths for number in _numbers(path)}
        if names:
            made.append((set(names), numbers))
    return made


def _numbers(path: str) -> list[int]:
    """A device's dev_t and, of a partition, its disk's."""
    paths = [path]
    if read_text(f"{path}/partition") is not None:
        paths.append(path.rpartition("/")[0])
    texts = [read_text(f"{each}/dev") for each in paths]
    numbers = [parse_dev(text.strip()) for text in texts if text is not None]
    return [number for number in numbers if number is not None]
