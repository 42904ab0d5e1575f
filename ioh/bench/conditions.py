"""The conditions of a bench: the machine, and the devices below its files."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from ioh.bench.results import BenchDevice
from ioh.model.printable import printable
from ioh.procfs.blockdev import BlockDevice, device_folder, list_folder, read_block_device
from ioh.procfs.diskstats import make_dev, parse_dev
from ioh.procfs.files import read_line, read_text
from ioh.procfs.io_limits import Limits, read_limits
from ioh.procfs.mountinfo import mount_of_path, read_mounts

_LIMITS = (
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "nr_requests",
    "read_ahead_kb",
    "logical_block_size",
    "physical_block_size",
    "write_cache",
)
_MAX_DEVICES = 64
_WORDS = ("read bytes", "written bytes", "reads", "writes")


@dataclass(frozen=True, slots=True)
class DevicesBelow:
    """The devices below a directory or raw devices, from the top down.

    ``carriers``: the kernel's numbers of the uppermost devices with requests, which carry its I/O.
    """

    file_system: str
    mount_options: str
    source: str
    devices: tuple[BenchDevice, ...]
    carriers: frozenset[int]


def below_directory(path: str) -> DevicesBelow:
    """Find the devices below an existing directory."""
    mount = mount_of_path(os.path.realpath(path), read_mounts())
    if mount is None:
        return DevicesBelow("?", "", "", (), frozenset())
    dev = mount.dev
    if not dev >> 20 and mount.source.startswith("/dev/"):  # btrfs uses its own device number
        dev = _number_of(mount.source)
    devices, carriers = _stack([dev])
    options = _mount_options(mount.id)
    return DevicesBelow(
        printable(mount.fstype), options, printable(mount.source), devices, carriers
    )


def below_devices(paths: tuple[str, ...]) -> DevicesBelow:
    """Find the devices below raw devices."""
    devices, carriers = _stack([_number_of(path) for path in paths])
    return DevicesBelow("raw", "", printable(" ".join(paths)), devices, carriers)


def _number_of(path: str) -> int:
    try:
        number = Path(path).stat().st_rdev
    except (OSError, ValueError):
        return 0
    return make_dev(os.major(number), os.minor(number))


def _stack(numbers: list[int]) -> tuple[tuple[BenchDevice, ...], frozenset[int]]:
    devices: dict[int, BenchDevice] = {}
    carriers: set[int] = set()
    waiting = [(number, False) for number in numbers if number]
    while waiting and len(devices) < _MAX_DEVICES:
        number, is_carried = waiting.pop(0)
        device = read_block_device(number)
        if device is None:
            continue
        disk = device if not device.is_partition else read_block_device(device.disk_dev)
        if disk is None or disk.dev in devices:
            continue
        carries = disk.has_requests and not is_carried
        if carries:
            carriers.add(disk.dev)
        devices[disk.dev] = _device(disk, carries=carries)
        folder = device_folder(disk.dev) or ""
        for slave in list_folder(f"{folder}/slaves"):
            below = parse_dev(read_line(f"{folder}/slaves/{slave}/dev") or "")
            if below is not None:
                waiting.append((below, is_carried or carries))
    return tuple(devices.values()), frozenset(carriers)


def _device(disk: BlockDevice, *, carries: bool) -> BenchDevice:
    folder = device_folder(disk.dev) or ""
    limits = {name: read_line(f"{folder}/queue/{name}") for name in _LIMITS}
    sectors = read_line(f"{folder}/size")
    return BenchDevice(
        disk.name,
        model=disk.model or "",
        transport=_transport(disk.name, folder),
        size_bytes=int(sectors) * 512 if sectors and sectors.isdecimal() else None,
        rotational=disk.rotational,
        scheduler=disk.scheduler or "",
        limits={name: printable(value, 80) for name, value in limits.items() if value is not None},
        carries=carries,
    )


def _transport(name: str, folder: str) -> str:
    """How a disk is attached; "" if sysfs does not show it."""
    by_name = {"nvme": "nvme", "loop": "loop", "dm-": "dm", "md": "md", "vd": "virtio"}
    by_name |= {"xvd": "xen", "zram": "zram", "mmcblk": "mmc", "nbd": "nbd", "rbd": "rbd"}
    for begin, transport in by_name.items():
        if re.match(rf"{begin}[a-z0-9]", name):
            return transport
    by_path = {"/usb": "usb", "/ata": "sata", "/session": "iscsi", "/virtio": "virtio"}
    by_path |= {"/rport-": "fc", "/end_device-": "sas"}
    return next((transport for part, transport in by_path.items() if part in folder), "")


def _mount_options(mount_id: int) -> str:
    """The options of the mount and of its file system, from mountinfo."""
    for line in (read_text("/proc/self/mountinfo") or "").split("\n"):
        fields = line.split(" ")
        if fields[0] == str(mount_id) and "-" in fields:
            of_system = fields[fields.index("-") + 3 :]
            options = dict.fromkeys(",".join([fields[5], *of_system]).split(","))
            return printable(",".join(options), 400)
    return ""


def cpu_model() -> str:
    """The CPU's name in /proc/cpuinfo."""
    match = re.search(r"^model name\s*: (.*)$", read_text("/proc/cpuinfo") or "", re.MULTILINE)
    return printable(match[1], 120) if match else platform.machine()


def cache_bytes() -> int:
    """The largest CPU cache: smaller data sets would measure only that."""
    texts = (read_line(f"/sys/devices/system/cpu/cpu0/cache/index{n}/size") for n in range(8))
    sizes = [int(t[:-1]) << {"K": 10, "M": 20}[t[-1]] for t in texts if t and t[-1] in "KM"]
    return max(sizes, default=0)


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def governors() -> str:
    """The CPUs' frequency governors, separated by commas; "" if there are none."""
    names = {
        read_line(str(path))
        for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    }
    return printable(",".join(sorted(filter(None, names))), 80)


def frequency_khz() -> float | None:
    """The mean of the CPUs' frequencies; None if unknown."""
    paths = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    frequencies = [int(t) for path in paths if (t := read_line(str(path))) and t.isdecimal()]
    return sum(frequencies) / len(frequencies) if frequencies else None


def own_limits(carriers: frozenset[int]) -> dict[str, tuple[str, Limits]]:
    """The I/O limits of this process' children on some devices, by control group.

    As text, and as numbers.
    """
    groups = {"/"}
    for line in (read_text("/proc/self/cgroup") or "").split("\n"):
        path = line.rpartition(":")[2]
        while path and path != "/":
            groups.add(printable(path))
            path = path.rpartition("/")[0]
    limits_by_group = {}
    for (group, dev), limits in read_limits().items():
        if group in groups and dev in carriers:
            words = ", ".join(
                f"{limit:,} {word} a second"
                for word, limit in zip(_WORDS, limits, strict=True)
                if limit is not None
            )
            limits_by_group[f"control group {group}"] = (words, limits)
    return limits_by_group
