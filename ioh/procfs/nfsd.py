"""Reads /proc/net/rpc/nfsd: what the kernel's NFS server counts itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ioh.procfs.files import ROOT, path_under, read_int, read_text

# Procedure numbers of RFC 1813, operation numbers of RFC 7530 and (READ_PLUS, 68) RFC 7862.
_V3 = {"READ": (6,), "WRITE": (7,), "COMMIT": (21,)}
_V4 = {"COMMIT": (5,), "READ": (25, 68), "WRITE": (38,)}


@dataclass(frozen=True, slots=True)
class NfsdStats:
    """Totals since the module was loaded; None where a line is missing or malformed.

    Shape:
        ``threads`` is the number there are now.  ``replayed`` counts calls answered from the
        cache of replies: a client sent them again.  ``v3`` and ``v4`` count by number.
    """

    threads: int | None = None
    replayed: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    v3: tuple[int, ...] = field(default=())
    v4: tuple[int, ...] = field(default=())

    def calls(self, name: str) -> int | None:
        """READ, WRITE or COMMIT of all versions; None where no line counts it."""
        found = [
            counts[number]
            for counts, numbers in ((self.v3, _V3[name]), (self.v4, _V4[name]))
            for number in numbers
            if len(counts) > number
        ]
        return sum(found) if found else None


def parse_nfsd(text: str) -> NfsdStats:
    """Parse the file; a line with more columns than expected keeps those that are known."""
    lines: dict[str, tuple[int, ...]] = {}
    for line in text.split("\n"):
        name, *words = line.split() or [""]
        numbers: list[int] = []
        for word in words:  # `th` ends in fractions of seconds
            if not word.isdecimal():
                break
            numbers.append(int(word))
        lines.setdefault(name, tuple(numbers))

    def column(name: str, at: int) -> int | None:
        numbers = lines.get(name, ())
        return numbers[at] if len(numbers) > at else None

    return NfsdStats(
        threads=column("th", 0),
        replayed=column("rc", 0),
        read_bytes=column("io", 0),
        write_bytes=column("io", 1),
        v3=_counts(lines.get("proc3", ())),
        v4=_counts(lines.get("proc4ops", ())),
    )


def _counts(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """What follows a line's own number of columns."""
    return numbers[1 : 1 + numbers[0]] if numbers else ()


def read_nfsd(root: Path = ROOT) -> NfsdStats | None:
    """Read it; None where the nfsd module is not loaded."""
    text = read_text(path_under(root, "proc/net/rpc/nfsd"))
    return None if text is None else parse_nfsd(text)


def read_max_block_bytes(root: Path = ROOT) -> int | None:
    """Largest READ or WRITE that nfsd offers its clients; None where that is not told."""
    return read_int(path_under(root, "proc/fs/nfsd/max_block_size"))


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How requests found their thread, over all pools; totals since nfsd started.

    Shape:
        ``queued`` times that a connection with a request was queued for a thread, ``woken``
        times that an idle thread took it at once.
    """

    queued: int
    woken: int


def parse_pool_stats(text: str) -> PoolStats | None:
    """Parse pool_stats; None where it has no line of numbers."""
    pools = [line.split() for line in text.split("\n") if not line.startswith("#")]
    counts = [
        (int(words[2]), int(words[3]))
        for words in pools
        if len(words) >= 4 and all(word.isdecimal() for word in words[:4])
    ]
    return PoolStats(sum(c[0] for c in counts), sum(c[1] for c in counts)) if counts else None


def read_pool_stats(root: Path = ROOT) -> PoolStats | None:
    """Read it; None where nfsd does not run or its file system is not mounted."""
    text = read_text(path_under(root, "proc/fs/nfsd/pool_stats"))
    return None if text is None else parse_pool_stats(text)
