"""Reads /proc/diskstats: what the block layer counted of each disk and partition."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ioh.procfs.files import ROOT, ints_or_none, path_under, read_text

SECTOR_BYTES = 512  # of diskstats, whatever the device's own block size
MINOR_BITS = 20  # the kernel's dev_t: major << 20 | minor

_FIRST = 3  # major, minor and name come before the numbers
_OLD_COLUMNS = 11
_DISCARD_COLUMNS = 15  # since 4.18
_FLUSH_COLUMNS = 17  # since 5.5


class DiskStats(NamedTuple):
    """What one disk or partition completed since it appeared.

    Shape:
        A named tuple, not a dataclass: one is made for each device on each tick.  ``name``
        is the kernel's own, not yet printable.  ``dev`` is major << 20 | minor.  Discards
        are None before Linux 4.18, flushes before 5.5.

    Units:
        Requests (bios on devices without a request queue: dm, md, zram), bytes, and ms as
        32-bit numbers that wrap after 49.7 days of summed time.  ``*_ms_total`` runs from
        acceptance to completion, queue and service; ``busy_ms_total`` while at least one
        request was in flight; ``weighted_ms_total`` is the sum of all requests' times.
        ``inflight`` is a gauge: accepted, not completed.

    Source:
        /proc/diskstats (Documentation/admin-guide/iostats.rst).  Write zeroes and zone
        appends are counted as writes.  Flushes are counted for whole disks only, after the
        block layer has joined them.
    """

    dev: int
    name: str
    reads_total: int
    read_merges_total: int
    read_bytes_total: int
    read_ms_total: int
    writes_total: int
    write_merges_total: int
    write_bytes_total: int
    write_ms_total: int
    inflight: int
    busy_ms_total: int
    weighted_ms_total: int
    discards_total: int | None = None
    discard_merges_total: int | None = None
    discard_bytes_total: int | None = None
    discard_ms_total: int | None = None
    flushes_total: int | None = None
    flush_ms_total: int | None = None


def make_dev(major: int, minor: int) -> int:
    """The kernel's dev_t, as the probes and /proc know it; not os.makedev()'s."""
    return major << MINOR_BITS | minor


def split_dev(dev: int) -> tuple[int, int]:
    """Major and minor of a kernel dev_t."""
    return dev >> MINOR_BITS, dev & ((1 << MINOR_BITS) - 1)


def parse_dev(text: str) -> int | None:
    """The dev_t of ``major:minor``; None for anything else."""
    numbers = ints_or_none(text.split(":"))
    if numbers is None or len(numbers) != 2 or min(numbers) < 0 or numbers[1] >> MINOR_BITS:
        return None
    return make_dev(numbers[0], numbers[1])


@lru_cache(maxsize=256)
def parse_line(line: str) -> DiskStats | None:
    """Parse one device; None when a column is missing or is no number.

    Most devices are idle: one that did nothing is the very same DiskStats as before.
    """
    words = line.split()
    if len(words) < _FIRST + _OLD_COLUMNS:
        return None
    device = ints_or_none(words[:2])
    n = ints_or_none(words[_FIRST : _FIRST + _FLUSH_COLUMNS])
    if device is None or n is None or min(*device, *n) < 0:
        return None
    discards = (
        (n[11], n[12], n[13] * SECTOR_BYTES, n[14])
        if len(n) >= _DISCARD_COLUMNS
        else (None, None, None, None)
    )
    flushes = (n[15], n[16]) if len(n) >= _FLUSH_COLUMNS else (None, None)
    return DiskStats(
        make_dev(device[0], device[1]),
        words[2],
        n[0],
        n[1],
        n[2] * SECTOR_BYTES,
        n[3],
        n[4],
        n[5],
        n[6] * SECTOR_BYTES,
        n[7],
        n[8],
        n[9],
        n[10],
        *discards,
        *flushes,
    )


def parse_diskstats(text: str) -> list[DiskStats]:
    """Parse /proc/diskstats; lines that are malformed are left out."""
    return [stats for line in text.split("\n") if (stats := parse_line(line)) is not None]


def read_diskstats(root: Path = ROOT) -> list[DiskStats] | None:
    """Every disk and partition of the host; None when /proc/diskstats cannot be read."""
    text = read_text(path_under(root, "proc/diskstats"))
    return None if text is None else parse_diskstats(text)
