"""Reads /proc/self/mountstats: the NFS client's counters of each mount."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from operator import add, sub
from pathlib import Path
from typing import NamedTuple

from ioh.model.file_systems import NFS
from ioh.procfs.files import ROOT, path_under, read_fd, read_int, read_text
from ioh.procfs.mountinfo import decode_octal

_COLUMNS = 9  # in a procedure's line; later kernels can have more
# Columns in a transport's line; replies, awaited and unexpected ones, follow the sent requests.
_SENT_AT = {"tcp": 6, "local": 5, "udp": 3, "rdma": 6}
_SLOTS_AT = {"tcp": 11, "local": 10, "udp": 8}  # rdma has none
_SESSION_SLOTS = "sys/module/nfs/parameters/max_session_slots"
_CONNECTION_SLOTS = {
    "tcp": "proc/sys/sunrpc/tcp_max_slot_table_entries",
    "udp": "proc/sys/sunrpc/udp_slot_table_entries",
    "rdma": "proc/sys/sunrpc/rdma_slot_table_entries",
}
_BYTES = (
    "normal_read_bytes",
    "normal_write_bytes",
    "direct_read_bytes",
    "direct_write_bytes",
    "server_read_bytes",
    "server_write_bytes",
)


class ProcedureStats(NamedTuple):
    """One procedure of one mount since it was mounted.

    ``calls``: attempts that were answered or given up; ``transmissions`` minus ``calls`` were
    retransmissions.  ``wire_…`` bytes include RPC headers.  Times in ms, summed over the calls:
    waiting before sending; from sending to the reply; total.
    """

    calls: int
    transmissions: int
    timeouts: int
    wire_sent_bytes: int
    wire_received_bytes: int
    queue_ms: int
    rtt_ms: int
    execute_ms: int
    errors: int


NO_CALLS = ProcedureStats(*(0,) * _COLUMNS)
# Debian's Linux 7.2 reads NFSv4.2 files with READ_PLUS (CONFIG_NFS_V4_2_READ_PLUS), 6.1 does not.
SAME_AS = {"READ": ("READ", "READ_PLUS")}


@dataclass(slots=True)
class NfsMount:
    """One NFS mount of this mount namespace.

    ``export`` is ``server:/path``; ``options`` as mounted (``vers``, ``rsize`` …; a flag's value is
    ``""``).  The six byte totals are read(2) and write(2) through the page cache, the same with
    O_DIRECT, and the bytes of READ and WRITE.  ``transports`` counts connections (``nconnect``);
    ``slots_used`` sums the most requests that each had in flight.  ``sent`` and ``replied`` count
    their requests and replies, including replies that nobody waits for; None if unknown.  Mounts of
    one server can share connections and then have the same numbers.  Mounts of one superblock,
    ``age_s`` seconds old, share all numbers.
    """

    export: str
    mount_point: str
    options: dict[str, str] = field(default_factory=dict)
    flavor: str = ""
    normal_read_bytes: int = 0
    normal_write_bytes: int = 0
    direct_read_bytes: int = 0
    direct_write_bytes: int = 0
    server_read_bytes: int = 0
    server_write_bytes: int = 0
    transports: int = 0
    slots_used: int | None = None
    sent: int | None = None
    replied: int | None = None
    age_s: int | None = None
    procedures: dict[str, ProcedureStats] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The server's name or address, as mounted."""
        return self.export.rpartition(":/")[0] or self.export

    def stats_of(self, name: str) -> ProcedureStats:
        """READ, WRITE or COMMIT, summed over all procedures that do it."""
        return self.sum_of(SAME_AS.get(name, (name,)))

    def sum_of(self, names: Iterable[str]) -> ProcedureStats:
        """The sum of these procedures."""
        total = NO_CALLS
        for name in names:
            if name in self.procedures:
                total = _combined(add, total, self.procedures[name])
        return total

    def option_number(self, name: str) -> int | None:
        """An option's number; None if not given."""
        text = self.options.get(name, "")
        return int(text) if text.isdecimal() else None


def parse_mountstats(text: str) -> list[NfsMount]:
    """Parse the NFS mounts, in file order; skip malformed lines."""
    mounts: list[NfsMount] = []
    current: NfsMount | None = None
    for line in text.split("\n"):
        if line.startswith("device "):
            current = _parse_device(line)
            if current is not None:
                mounts.append(current)
        elif current is not None:
            _parse_line(current, line.strip())
    return mounts


def _parse_device(line: str) -> NfsMount | None:
    """``device SOURCE mounted on PLACE with fstype nfs4 statvers=1.1``."""
    words = line.split(" ")
    if len(words) < 8 or words[2:4] != ["mounted", "on"] or words[5:7] != ["with", "fstype"]:
        return None
    if words[7] not in NFS:
        return None
    return NfsMount(decode_octal(words[1]), decode_octal(words[4]))


def _parse_line(mount: NfsMount, line: str) -> None:
    name, colon, rest = line.partition(":")
    if not colon:
        return
    words = rest.split()
    if name == "opts":
        for option in rest.strip().split(","):
            key, _, value = option.partition("=")
            mount.options[key] = value
    elif name == "sec":
        fields = dict(part.partition("=")[::2] for part in rest.strip().split(","))
        mount.flavor = fields.get("flavor", "")
    elif name == "age":
        mount.age_s = _number(words, 0)
    elif name == "bytes":
        _parse_bytes(mount, words)
    elif name == "xprt" and words:
        _parse_transport(mount, words)
    elif (  # procedures are in capitals, unlike the line `events`, which has as many numbers
        name.isupper() and len(words) >= _COLUMNS and all(word.isdecimal() for word in words)
    ):
        mount.procedures[name] = ProcedureStats(*map(int, words[:_COLUMNS]))


def slots_limit(mount: NfsMount, root: Path = ROOT) -> int | None:
    """The most requests in flight to the mount's server that this host allows.

    Since NFSv4.1 a session has these slots for all its connections; before that, each connection
    has them.  Uses the current settings, although a mount keeps those from its start.  None if
    ``read_setting`` finds none or the transport has none.
    """
    major, _, minor = mount.options.get("vers", "").partition(".")
    has_session = major == "4" and minor not in {"", "0"}
    protocol = mount.options.get("proto", "").removesuffix("6")
    name = _SESSION_SLOTS if has_session else _CONNECTION_SLOTS.get(protocol)
    slots = read_int(path_under(root, name)) if name else None
    if slots is None or has_session:
        return slots
    return slots * mount.transports


def _parse_bytes(mount: NfsMount, words: list[str]) -> None:
    if len(words) < len(_BYTES) or not all(word.isdecimal() for word in words):
        return
    for name, word in zip(_BYTES, words, strict=False):
        setattr(mount, name, int(word))


def _parse_transport(mount: NfsMount, words: list[str]) -> None:
    mount.transports += 1
    at = _SENT_AT.get(words[0], len(words))
    counts = words[at : at + 3]
    if len(counts) == 3 and all(word.isdecimal() for word in counts):
        sent, *replied = map(int, counts)
        mount.sent = (mount.sent or 0) + sent
        mount.replied = (mount.replied or 0) + sum(replied)
    slots = _number(words, _SLOTS_AT.get(words[0]))
    if slots is not None:
        mount.slots_used = (mount.slots_used or 0) + slots


def _number(words: list[str], at: int | None) -> int | None:
    """The number at a position; None if there is none."""
    if at is None or len(words) <= at or not words[at].isdecimal():
        return None
    return int(words[at])


@cache
def open_own() -> int:
    """Open this process' own file and keep it open; -1 if this fails.

    Call it early: a process that is not dumpable cannot open its own file, but it can read it.
    """
    try:
        return os.open("/proc/self/mountstats", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def read_mountstats(root: Path = ROOT) -> list[NfsMount] | None:
    """Read it; None if unreadable.  It touches no mount, so a dead server cannot hang ioh."""
    if root != ROOT:
        text = read_text(path_under(root, "proc/self/mountstats"))
        return None if text is None else parse_mountstats(text)
    try:
        os.lseek(open_own(), 0, os.SEEK_SET)
        return parse_mountstats(read_fd(open_own()).decode("utf-8", "surrogateescape"))
    except OSError:
        return None


def grown_since(newer: NfsMount, older: NfsMount) -> NfsMount:
    """``newer`` with the growth of its counters, without procedures that did not change.

    The growth is negative if a counter has decreased.
    """
    grown = {name: getattr(newer, name) - getattr(older, name) for name in _BYTES}
    procedures = {
        name: _combined(sub, stats, before)
        for name, stats in newer.procedures.items()
        if stats != (before := older.procedures.get(name, NO_CALLS))
    }
    return replace(newer, **grown, procedures=procedures)


def has_fallen(grown: NfsMount) -> bool:
    """Whether a counter has decreased between two readings."""
    return any(getattr(grown, name) < 0 for name in _BYTES) or any(
        stats.calls < 0 for stats in grown.procedures.values()
    )


def _combined(
    how: Callable[[int, int], int], a: ProcedureStats, b: ProcedureStats
) -> ProcedureStats:
    return ProcedureStats(*map(how, a, b))
