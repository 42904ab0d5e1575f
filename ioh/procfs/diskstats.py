"""Reads /proc/diskstats: the kernel's counters of each disk and partition."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ioh.procfs.files import ROOT, ints_or_none, path_under, read_text

SECTOR_BYTES = 512  # in diskstats, for any block size
MINOR_BITS = 20  # the kernel's dev_t: major << 20 | minor

_COLUMNS = slice(3, 20)  # after major, minor, name; later kernels can have more
_SECTORS, _INFLIGHT = (2, 6, 13), 8  # among them


class DiskStats(NamedTuple):
    """The counters of one disk or partition since it appeared.

    Shape:
        A named tuple, not a dataclass: each tick makes one per device.  ``name`` is the kernel's
        own, not yet printable.  ``dev`` is major << 20 | minor.

    Units:
        Requests (bios on devices without a request queue: dm, md, zram), bytes, and ms as 32-bit
        numbers, which wrap after 49.7 days of summed time.  ``*_ms_total`` is queue plus service
        time; ``busy_ms_total`` the time with at least one request in flight; ``weighted_ms_total``
        the sum of all requests' times.  ``inflight`` is a gauge.  Write zeroes and zone appends
        count as writes.  Flushes count for whole disks only, after the block layer merged them.
    """

    dev: int
    name: str
    inflight: int
    reads_total: int
    read_merges_total: int
    read_bytes_total: int
    read_ms_total: int
    writes_total: int
    write_merges_total: int
    write_bytes_total: int
    write_ms_total: int
    busy_ms_total: int
    weighted_ms_total: int
    discards_total: int
    discard_merges_total: int
    discard_bytes_total: int
    discard_ms_total: int
    flushes_total: int
    flush_ms_total: int


def make_dev(major: int, minor: int) -> int:
    """The kernel's internal dev_t, as in the probes; differs from os.makedev()."""
    return major << MINOR_BITS | minor


def dev_text(dev: int) -> str:
    """A kernel dev_t as ``major:minor``."""
    return f"{dev >> MINOR_BITS}:{dev & ((1 << MINOR_BITS) - 1)}"


def parse_dev(text: str) -> int | None:
    """The dev_t of ``major:minor``; None for anything else."""
    numbers = ints_or_none(text.split(":"))
    if numbers is None or len(numbers) != 2 or min(numbers) < 0 or numbers[1] >> MINOR_BITS:
        return None
    return make_dev(numbers[0], numbers[1])


def parse_line(line: str) -> DiskStats | None:
    """Parse one device; None if a column is missing or not a number."""
    words = line.split()
    device, numbers = ints_or_none(words[:2]), ints_or_none(words[_COLUMNS])
    if not device or not numbers or len(numbers) < 17 or min(*device, *numbers) < 0:
        return None
    for at in _SECTORS:
        numbers[at] *= SECTOR_BYTES
    return DiskStats(make_dev(device[0], device[1]), words[2], numbers.pop(_INFLIGHT), *numbers)


_known: dict[str, DiskStats | None] = {}  # by line, of the last text


def parse_diskstats(text: str) -> list[DiskStats]:
    """Parse all well-formed lines; an idle device keeps the same object."""
    found = {line: _known.get(line) or parse_line(line) for line in text.split("\n")}
    _known.clear()
    _known.update(found)
    return [stats for stats in found.values() if stats is not None]


def read_inflight(name: str, root: Path = ROOT) -> tuple[int, int] | None:
    """Reads and writes in flight on a disk, as the kernel counts them; None if it does not tell."""
    file = path_under(root, f"sys/block/{name.replace('/', '!')}/inflight")
    numbers = ints_or_none((read_text(file) or "").split())
    return (numbers[0], numbers[1]) if numbers and len(numbers) == 2 else None


def read_diskstats(root: Path = ROOT) -> list[DiskStats] | None:
    """Every disk and partition of the host; None if the file cannot be read."""
    text = read_text(path_under(root, "proc/diskstats"))
    return None if text is None else parse_diskstats(text)
