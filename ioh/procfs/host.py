"""Reads the machine as a whole: CPU, load, memory and write-back, pressure for I/O."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

from ioh.model.sample import HostSample
from ioh.procfs.files import ROOT, int_or_none, ints_or_none, path_under, read_text

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Columns of the line "cpu": user nice system idle iowait irq softirq steal guest guest_nice.
# guest is inside user and guest_nice inside nice, so a sum ends before them.
_IDLE, _IOWAIT, _STEAL = 3, 4, 7
_SUMMED = 8
_MIN_COLUMNS = 4
# What is read of some 200 names each second.
_MEMINFO = frozenset({"MemTotal", "MemAvailable", "Cached", "Buffers"})
_VMSTAT = frozenset(
    {"nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"}
)


class CpuTicks(NamedTuple):
    """CPU time of all CPUs since boot.

    Units:
        Ticks of USER_HZ.  ``total`` counts guests once; ``idle`` leaves iowait out;
        ``online`` is the number of CPUs.  ``iowait`` is a hint that may run backwards.
    """

    total: int | None = None
    idle: int | None = None
    iowait: int | None = None
    steal: int | None = None
    online: int | None = None


def parse_stat(text: str) -> CpuTicks:
    """Parse the ``cpu`` lines of /proc/stat; fields that are not there stay None."""
    totals: list[int] | None = None
    online = 0
    for line in text.split("\n"):
        if not line.startswith("cpu"):
            break  # they come first
        name, _, rest = line.partition(" ")
        if name == "cpu":
            totals = ints_or_none(rest.split())
        elif int_or_none(name[3:]) is not None:
            online += 1
    if totals is None or len(totals) < _MIN_COLUMNS:
        return CpuTicks(online=online or None)
    return CpuTicks(
        total=sum(totals[:_SUMMED]),
        idle=totals[_IDLE],
        iowait=totals[_IOWAIT] if len(totals) > _IOWAIT else None,
        steal=totals[_STEAL] if len(totals) > _STEAL else None,
        online=online or None,
    )


def parse_loadavg(text: str) -> tuple[float | None, float | None, float | None]:
    """Run-queue averages of 1, 5 and 15 minutes; each None where it is no number."""
    words = text.split()[:3]
    loads: list[float | None] = [None, None, None]
    for i, word in enumerate(words):
        # Digits and a dot only: float() also takes "nan", "inf" and "1_0".
        if word.isascii() and word.replace(".", "", 1).isdigit():
            loads[i] = float(word)
    return loads[0], loads[1], loads[2]


def parse_meminfo(text: str, wanted: Container[str] | None = None) -> dict[str, int]:
    """Bytes by name from /proc/meminfo; lines counted in anything but kB are left out."""
    sizes: dict[str, int] = {}
    for line in text.split("\n"):
        if wanted is not None and line.partition(":")[0] not in wanted:
            continue
        match line.split():
            case [name, number, "kB"] if name.endswith(":"):
                kib = int_or_none(number)
                if kib is not None:
                    sizes[name[:-1]] = kib * 1024
    return sizes


def parse_vmstat(text: str, wanted: Container[str] | None = None) -> dict[str, int]:
    """Numbers by name from /proc/vmstat: ``nr_*`` in pages, the rest running totals."""
    numbers: dict[str, int] = {}
    for line in text.split("\n"):
        name, space, word = line.partition(" ")
        if wanted is not None and name not in wanted:
            continue
        number = int_or_none(word) if space else None
        if number is not None:
            numbers[name] = number
    return numbers


def parse_pressure(text: str) -> dict[str, int]:
    """Stall time in µs since boot by line (``some``, ``full``) of a /proc/pressure file."""
    totals: dict[str, int] = {}
    for line in text.split("\n"):
        kind, _, rest = line.partition(" ")
        for word in rest.split():
            key, equals, value = word.partition("=")
            number = int_or_none(value) if equals and key == "total" else None
            if number is not None:
                totals[kind] = number
    return totals


def _pages(vmstat: dict[str, int], name: str, page_bytes: int) -> int | None:
    pages = vmstat.get(name)
    return None if pages is None else pages * page_bytes


def _sum_known(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def read_host(root: Path = ROOT, page_bytes: int = PAGE_BYTES) -> HostSample:
    """Read the machine; what the kernel does not tell stays None.

    ``cached_bytes`` is the page cache, of files and of block devices (meminfo Cached +
    Buffers); shared memory is in it.  The dirty limits are those in force now: the kernel
    computes them from dirty_ratio or dirty_bytes and the memory that is available.
    """
    cpu = parse_stat(read_text(path_under(root, "proc/stat")) or "")
    load1, load5, load15 = parse_loadavg(read_text(path_under(root, "proc/loadavg")) or "")
    memory = parse_meminfo(read_text(path_under(root, "proc/meminfo")) or "", _MEMINFO)
    vmstat = parse_vmstat(read_text(path_under(root, "proc/vmstat")) or "", _VMSTAT)
    pressure = parse_pressure(read_text(path_under(root, "proc/pressure/io")) or "")
    return HostSample(
        cpu_total_ticks=cpu.total,
        cpu_idle_ticks=cpu.idle,
        cpu_iowait_ticks=cpu.iowait,
        cpu_steal_ticks=cpu.steal,
        cpu_count=cpu.online,
        load1=load1,
        load5=load5,
        load15=load15,
        mem_total_bytes=memory.get("MemTotal"),
        mem_available_bytes=memory.get("MemAvailable"),
        cached_bytes=_sum_known(memory.get("Cached"), memory.get("Buffers")),
        dirty_bytes=_pages(vmstat, "nr_dirty", page_bytes),
        writeback_bytes=_pages(vmstat, "nr_writeback", page_bytes),
        dirty_limit_bytes=_pages(vmstat, "nr_dirty_threshold", page_bytes),
        dirty_background_bytes=_pages(vmstat, "nr_dirty_background_threshold", page_bytes),
        psi_io_some_us_total=pressure.get("some"),
        psi_io_full_us_total=pressure.get("full"),
    )
