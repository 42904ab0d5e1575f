"""Reads the counters of the kernel's NFS server: /proc/net/rpc/nfsd, /proc/fs/nfsd."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ioh.procfs.files import ROOT, path_under, read_int, read_text

# By number: RFC 1813; RFC 7530, 5661, 7862 and 8276.
V3 = """
NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR
RENAME LINK READDIR READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT
"""
V4 = """
- - - ACCESS CLOSE COMMIT CREATE DELEGPURGE DELEGRETURN GETATTR GETFH LINK LOCK LOCKT LOCKU
LOOKUP LOOKUPP NVERIFY OPEN OPENATTR OPEN_CONFIRM OPEN_DOWNGRADE PUTFH PUTPUBFH PUTROOTFH READ
READDIR READLINK REMOVE RENAME RENEW RESTOREFH SAVEFH SECINFO SETATTR SETCLIENTID
SETCLIENTID_CONFIRM VERIFY WRITE RELEASE_LOCKOWNER BACKCHANNEL_CTL BIND_CONN_TO_SESSION
EXCHANGE_ID CREATE_SESSION DESTROY_SESSION FREE_STATEID GET_DIR_DELEGATION GETDEVICEINFO
GETDEVICELIST LAYOUTCOMMIT LAYOUTGET LAYOUTRETURN SECINFO_NO_NAME SEQUENCE SET_SSV TEST_STATEID
WANT_DELEGATION DESTROY_CLIENTID RECLAIM_COMPLETE ALLOCATE COPY COPY_NOTIFY DEALLOCATE IO_ADVISE
LAYOUTERROR LAYOUTSTATS OFFLOAD_CANCEL OFFLOAD_STATUS READ_PLUS SEEK WRITE_SAME CLONE GETXATTR
SETXATTR LISTXATTRS REMOVEXATTR
"""


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

    def calls(self, *names: str) -> int | None:
        """Calls of these procedures, v3 and v4; None if no line has one of them."""
        found = [
            count
            for known, counts in ((V3.split(), self.v3), (V4.split(), self.v4))
            for name, count in zip(known, counts[1:], strict=False)
            if name in names
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
