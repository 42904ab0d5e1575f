"""Describes block devices from sysfs: the devices below each one, and its queue limits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ioh.model.file_systems import is_off_disk
from ioh.model.printable import printable
from ioh.procfs.diskstats import SECTOR_BYTES, dev_text, parse_dev
from ioh.procfs.files import ROOT, path_under, read_int, read_line
from ioh.procfs.mountinfo import Mount, MountTable, mount_of_path, read_mounts
from ioh.procfs.remote_end import remote_end

# Virtual disks.  Their drivers report them as rotating by default.
_VIRTUAL_NAME = re.compile(r"(vd|xvd|nbd|rbd|loop|drbd|ublkb)[a-z]*\d*")
# NVMe multipath: nvme0c1n1 is a path to nvme0n1.
_PATH_NAME = re.compile(r"(nvme\d+)c\d+(n\d+)")
_VIRTUAL_MODEL = re.compile(r"QEMU|VBOX|VMware|Virtual|PersistentDisk|BlockVolume|LIO-|TCMU")
# brd: its driver counts nothing, so what lies on it counts itself.
_UNCOUNTED_NAME = re.compile(r"ram\d+(p\d+)?")
_ZVOL_NAME = re.compile(r"zd\d+")  # sysfs does not name the pool's disks below it
_LOOP_MAJOR = 7
_NEW_TICKS = 5
_NEW_AT_ONCE = 4  # spread the reads if a thousand disks appear together
_MAX_DEPTH = 8  # cut deeper stacks; sysfs has no cycles, but a test's root can


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One block device.

    Shape:
        Every string is printable.  ``stack`` shows the devices below: ``vda``, ``file /x on vda``,
        ``vg-lv on sda,sdb``, ``raid1 on sda1,sdb1``; of a disk on the network its other end:
        ``sdc on iscsi 10.0.0.9:3260``.  ``disk_name`` and ``disk_dev``: the whole
        disk of a partition, otherwise the device itself.  ``is_stacked``: its I/O appears again on
        another block device of this host that is counted (dm, md, loop over a file on a disk), so
        sums leave it out.  ``has_requests``: it has a request queue; without one (dm, md, zram) no
        request has its number.  ``counts_io``: the kernel keeps its statistics (queue/iostats).
        ``rotational`` is None if a virtual disk reports 1: that is its driver's default.

    Units:
        Bytes.  ``max_request_bytes`` is the current limit (max_sectors_kb),
        ``max_hw_request_bytes`` the hardware's.  ``chunk_bytes``: the stripe that no request may
        cross (chunk_sectors), None if there is none.  ``queue_depth_limit`` is nr_requests.
    """

    dev: int
    name: str
    stack: str
    disk_dev: int
    disk_name: str
    is_partition: bool = False
    is_stacked: bool = False
    has_requests: bool = True
    counts_io: bool = True
    max_request_bytes: int | None = None
    max_hw_request_bytes: int | None = None
    max_segments: int | None = None
    read_ahead_bytes: int | None = None
    chunk_bytes: int | None = None
    queue_depth_limit: int | None = None
    scheduler: str | None = None
    rotational: bool | None = None
    model: str | None = None

    @property
    def is_counted(self) -> bool:
        """Whether sums over all devices include it, so that they count each request once."""
        return not self.is_stacked


def parse_scheduler(text: str | None) -> str | None:
    """The current scheduler: ``mq-deadline`` from ``none [mq-deadline] kyber``."""
    if text is None:
        return None
    chosen = re.search(r"\[(\S*)\]", text)
    return printable(chosen[1] if chosen else text.strip()) or None


def device_folder(dev: int, root: Path = ROOT) -> str | None:
    """The real sysfs folder of a device number; None if there is no such device."""
    return _real_folder(path_under(root, f"sys/dev/block/{dev_text(dev)}"))


def _real_folder(path: str) -> str | None:
    folder = os.path.realpath(path)
    return folder if os.path.isdir(folder) else None


def disk_of_path(name: str) -> str:
    """The disk that ``nvme0c1n1`` is a path to; ``""`` for any other name."""
    found = _PATH_NAME.fullmatch(name)
    return "".join(found.groups()) if found else ""


def ways_to(name: str, root: Path = ROOT) -> list[str]:
    """The hidden paths to a multipath NVMe disk, which has no requests of its own."""
    if not name.startswith("nvme") or os.path.isdir(path_under(root, f"sys/block/{name}/mq")):
        return []
    return [way for way in list_folder(path_under(root, "sys/block")) if disk_of_path(way) == name]


def folder_name(folder: str) -> str:
    """The kernel's name of the device in a sysfs folder, where ``!`` stands for ``/``."""
    return folder.rpartition("/")[2].replace("!", "/")


def read_block_device(
    dev: int, root: Path = ROOT, mounts: Sequence[Mount] | None = None, hidden: str = ""
) -> BlockDevice | None:
    """Describe the device with the kernel's dev_t; None if sysfs does not have it.

    Reads about 15 small files: do it once per device, not every tick (see BlockDevices).
    ``mounts``: to locate a loop device's file; None: read them.  ``hidden``: the name of a disk
    without a number in sysfs.
    """
    folder = device_folder(dev, root) if dev > 0 else None
    if folder is None and hidden:
        folder = _real_folder(path_under(root, f"sys/block/{hidden.replace('/', '!')}"))
    if folder is None:
        return None
    is_partition = read_line(f"{folder}/partition") is not None
    disk_folder = folder.rpartition("/")[0] if is_partition else folder
    disk_dev = parse_dev(read_line(f"{disk_folder}/dev") or "") if is_partition else dev
    stack, is_stacked = _describe_stack(disk_folder, root, mounts, 0)
    name = printable(folder_name(folder))
    queue = f"{disk_folder}/queue"
    has_requests = os.path.isdir(f"{disk_folder}/mq")
    model = printable((read_line(f"{disk_folder}/device/model") or "").strip()) or None
    return BlockDevice(
        dev=dev,
        name=name,
        stack=f"{name} of {stack}" if is_partition else stack,
        disk_dev=dev if disk_dev is None else disk_dev,
        disk_name=printable(folder_name(disk_folder)),
        is_partition=is_partition,
        is_stacked=is_stacked,
        has_requests=has_requests,
        counts_io=read_int(f"{queue}/iostats") != 0,
        max_request_bytes=_from_kib(f"{queue}/max_sectors_kb"),
        max_hw_request_bytes=_from_kib(f"{queue}/max_hw_sectors_kb"),
        max_segments=read_int(f"{queue}/max_segments"),
        read_ahead_bytes=_from_kib(f"{queue}/read_ahead_kb"),
        chunk_bytes=(read_int(f"{queue}/chunk_sectors") or 0) * SECTOR_BYTES or None,
        queue_depth_limit=read_int(f"{queue}/nr_requests") if has_requests else None,
        scheduler=parse_scheduler(read_line(f"{queue}/scheduler")) if has_requests else None,
        rotational=_turns(folder_name(disk_folder), model, read_int(f"{queue}/rotational")),
        model=model,
    )


def _turns(disk: str, model: str | None, rotational: int | None) -> bool | None:
    """Whether it is a rotating disk; None if unknown."""
    is_virtual = _VIRTUAL_NAME.fullmatch(disk) or (model and _VIRTUAL_MODEL.search(model))
    return None if rotational is None or (rotational and is_virtual) else rotational != 0


def _from_kib(path: str) -> int | None:
    kib = read_int(path)
    return None if kib is None else kib * 1024


def list_folder(path: str) -> list[str]:
    """Sorted names in a folder; empty if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except (OSError, ValueError):
        return []


def _describe_stack(
    folder: str, root: Path, mounts: Sequence[Mount] | None, depth: int
) -> tuple[str, bool]:
    """The devices below the one in ``folder``, and whether any of them is counted."""
    name = printable(folder_name(folder))
    backing_file = read_line(f"{folder}/loop/backing_file")
    if backing_file is not None:
        return _describe_loop(backing_file, root, mounts)
    slaves = list_folder(f"{folder}/slaves")
    if ways := [] if slaves else ways_to(folder_name(folder), root):
        return f"{name} on {','.join(map(printable, ways))}", True
    own = read_line(f"{folder}/dm/name") or read_line(f"{folder}/md/level")
    own_name = printable(own) if own else name
    if not slaves:
        end = "zfs" if _ZVOL_NAME.fullmatch(name) else remote_end(folder)
        return f"{own_name} on {end}" if end else own_name, end == "zfs"
    if depth >= _MAX_DEPTH:
        return f"{own_name} on …", True
    parts = []
    for slave in slaves:
        below = os.path.realpath(f"{folder}/slaves/{slave}")
        slave_name = printable(slave.replace("!", "/"))
        stack, is_stacked = _describe_stack(below, root, mounts, depth + 1)
        parts.append(f"{slave_name} ({stack})" if is_stacked else slave_name)
    return f"{own_name} on {','.join(parts)}", not all(map(_UNCOUNTED_NAME.fullmatch, slaves))


def _describe_loop(
    backing_file: str, root: Path, mounts: Sequence[Mount] | None
) -> tuple[str, bool]:
    path = backing_file.removesuffix(" (deleted)")
    mount = mount_of_path(path, read_mounts(root) if mounts is None else mounts)
    if mount is None:
        return f"file {printable(path)}", True
    if mount.fstype == "devtmpfs":  # a loop device over a device node
        where = folder_name(path)
        return f"loop on {printable(where)}", not _UNCOUNTED_NAME.fullmatch(where)
    folder = device_folder(mount.dev, root) if mount.dev >> 20 else None
    if folder is not None:
        where = folder_name(folder)
    elif mount.source.startswith("/dev/"):  # btrfs: no device number, but a source
        where = folder_name(mount.source)
    else:
        where = mount.fstype
    is_stacked = not (is_off_disk(mount.fstype) or _UNCOUNTED_NAME.fullmatch(where))
    return f"file {printable(path)} on {printable(where)}", is_stacked


class BlockDevices:
    """A cache of block devices, which reads one of them again each tick.

    A number can get another meaning (a loop device gets another file, dm reuses a minor).  So each
    device is read again in turn: with n known devices, every n ticks.  A device that appears after
    the first tick is also read again in its next few ticks: arrays get their limits, and disks
    their udev settings, only after the kernel lists them.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._mounts = MountTable(root)
        self._known: dict[int, BlockDevice | None] = {}
        self._new: dict[int, int] = {}  # how often to read it again soon
        self._hidden: dict[int, str] = {}  # disks that sysfs does not list by number
        self._loop_files: dict[int, str | None] = {}
        self._was_counted: dict[int, bool] = {}  # these two outlive the device
        self._names: dict[int, str] = {}
        self._ticks = 0

    def get(self, dev: int) -> BlockDevice | None:
        """The device with the kernel's number ``dev``; None if sysfs does not have it."""
        if dev not in self._known:
            self._read(dev)
            if self._ticks > 1:
                self._new[dev] = _NEW_TICKS
        return self._known[dev]

    def number_of(self, name: str) -> int:
        """A negative number for a hidden disk, which has 0:0 in diskstats.

        Hidden disks are the paths to a multipath NVMe disk (GENHD_FL_HIDDEN).
        """
        known = (dev for dev, hidden in self._hidden.items() if dev < 0 and hidden == name)
        number = next(known, -1 - len(self._hidden))
        self._hidden[number] = name
        return number

    def note_hidden(self, dev: int, name: str) -> None:
        """Note the name of a hidden disk's internal number, as a probe saw it."""
        if self._hidden.get(dev) != name:
            self._hidden[dev] = name
            self.forget(dev)

    def name_of(self, dev: int) -> str:
        """The name of a device, also a removed one; ``major:minor`` if never seen."""
        device = self.get(dev)
        if device is not None:
            self._names[dev] = device.name
        return self._names.get(dev) or dev_text(dev)

    def is_counted(self, dev: int) -> bool:
        """Whether sums over all devices include the I/O that it has just done.

        Call it in every tick with I/O.  For a removed device the last answer holds, and for a loop
        device that has no file now.  A device that sysfs never had is counted.  A loop device whose
        file was never seen is not: most likely the file lay on a disk.
        """
        is_idle_loop = False
        if dev >> 20 == _LOOP_MAJOR:
            file = self._loop_file(dev)
            is_idle_loop = file is None
            if file is not None and file != self._loop_files.get(dev):
                self._read(dev)
        elif dev in self._new and dev not in self._was_counted:
            self._read(dev)  # dm lists a device before the devices below it
        device = self.get(dev)
        if device is None or is_idle_loop:
            return self._was_counted.get(dev, device is None)
        self._was_counted[dev] = device.is_counted
        return device.is_counted

    def on_others(self) -> list[int]:
        """Numbers of the known stacked devices."""
        known = ((dev, device) for dev, device in self._known.items() if dev > 0)
        return [dev for dev, device in known if device is not None and device.is_stacked]

    def _loop_file(self, dev: int) -> str | None:
        folder = path_under(self._root, f"sys/dev/block/{dev_text(dev)}")
        return read_line(f"{folder}/loop/backing_file")

    def _read(self, dev: int) -> None:
        self._known.pop(dev, None)
        if dev >> 20 == _LOOP_MAJOR:  # first: next time shows a file set in between
            self._loop_files[dev] = self._loop_file(dev)
        hidden = self._hidden.get(dev, "")
        self._known[dev] = read_block_device(dev, self._root, self._mounts.mounts, hidden)

    def refresh(self) -> None:
        """Read the device read longest ago, and some new ones; call it once a tick."""
        self._ticks += 1
        self._mounts.refresh()
        if self._known:
            self._read(next(iter(self._known)))
        for dev, times in list(self._new.items())[:_NEW_AT_ONCE]:
            self._read(dev)
            self._new[dev] = times - 1
            if times == 1:
                del self._new[dev]

    def forget(self, dev: int) -> None:
        """Drop a device that is gone or must be read again."""
        self._known.pop(dev, None)
        self._new.pop(dev, None)
