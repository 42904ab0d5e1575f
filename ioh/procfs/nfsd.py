"""Reads the counters of the kernel's NFS server: /proc/net/rpc/nfsd, /proc/fs/nfsd."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ioh.procfs.files import ROOT, path_under, read_int, read_text

# Procedure numbers of RFC 1813, operation numbers of RFC 7530 and (READ_PLUS, 68) RFC 7862.
_V3 = {"READ": (6,), "WRITE": (7,), "COMMIT": (21,)}
_V4 = {"COMMIT": (5,), "READ": (25, 68), "WRITE": (38,)}


class NfsdStats(NamedTuple):
    """Totals since the module was loaded; None if a line is missing or malformed.

    ``threads``: the current number.  ``replayed``: calls that a client sent again, answered from
    the reply cache.  ``v3`` and ``v4``: their length, then the counts by procedure number.
    """

    threads: int | None
    replayed: int | None
    read_bytes: int | None
    write_bytes: int | None
    v3: tuple[int, ...]
    v4: tuple[int, ...]

    def calls(self, name: str) -> int | None:
        """Calls of READ, WRITE or COMMIT, all versions; None if no line has them."""
        found = [
            counts[number + 1]
            for counts, numbers in ((self.v3, _V3[name]), (self.v4, _V4[name]))
            for number in numbers
            if len(counts) > number + 1
        ]
        return sum(found) if found else None


class PoolStats(NamedTuple):
    """How requests got a thread, over all pools; totals since nfsd started.

    ``queued``: times that a connection with a request was queued for a thread.  ``woken``: times
    that an idle thread took it immediately.
    """

    queued: int | None = None
    woken: int | None = None


def read_nfsd(root: Path = ROOT) -> NfsdStats | None:
    """Read it; None if the nfsd module is not loaded."""
    text = read_text(path_under(root, "proc/net/rpc/nfsd"))
    if text is None:
        return None
    lines: dict[str, tuple[int, ...]] = {}
    for line in text.split("\n"):
        name, *words = line.split() or [""]
        # `th` ends in fractions of seconds.
        lines.setdefault(name, tuple(int(word) for word in words if word.isdecimal()))

    def column(name: str, at: int) -> int | None:
        numbers = lines.get(name, ())
        return numbers[at] if len(numbers) > at else None

    return NfsdStats(
        column("th", 0),
        column("rc", 0),
        column("io", 0),
        column("io", 1),
        lines.get("proc3", ()),
        lines.get("proc4ops", ()),
    )


def read_max_block_bytes(root: Path = ROOT) -> int | None:
    """The largest READ or WRITE that nfsd offers; None if unknown."""
    return read_int(path_under(root, "proc/fs/nfsd/max_block_size"))


def read_pool_stats(root: Path = ROOT) -> PoolStats:
    """Read it; None values if nfsd does not run or its file system is not mounted."""
    text = read_text(path_under(root, "proc/fs/nfsd/pool_stats")) or ""
    pools = [line.split() for line in text.split("\n") if line[:1].isdecimal()]
    counts = [(int(w[2]), int(w[3])) for w in pools if len(w) > 3 and (w[2] + w[3]).isdecimal()]
    return PoolStats(*map(sum, zip(*counts, strict=True)))
