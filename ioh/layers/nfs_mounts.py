"""What the kernel itself counts of NFS mounts: tables by mount and server, cached reads."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from ioh.layers.nfs_specs import BY_BYTES, mean
from ioh.model.metric import TableSpec, counter, gauge
from ioh.model.printable import printable
from ioh.model.sample import OpTotals, Row, Table, Value
from ioh.procfs.files import path_under, read_line
from ioh.procfs.mountstats import NfsMount, ProcedureStats, slots_limit, stats_of

_VERSIONS = ("nfsv2", "nfsv3", "nfsv4")
_MS = 1_000_000  # nanoseconds
# A call that waits is sent again within that time with timeo=600; one whose program was killed, or
# that was given up, never is, and there is nothing that an idle mount waits for.
_FORGOTTEN_S = 150.0

_COUNTERS = (
    counter("reads_total", "READs, each attempt counted.", "r/s"),
    counter("read_bytes_total", "Bytes that READs moved.", "rB/s"),
    counter("read_ns_total", "Time of all READs.", ""),
    mean("read_latency_us", "read_ns_total", "reads_total", "Mean time of a READ.", "r µs"),
    counter("writes_total", "WRITEs, each attempt counted.", "w/s"),
    counter("write_bytes_total", "Bytes that WRITEs moved.", "wB/s"),
    counter("write_ns_total", "Time of all WRITEs.", ""),
    mean("write_latency_us", "write_ns_total", "writes_total", "Mean time of a WRITE.", "w µs"),
    counter("commits_total", "COMMITs.", "c/s"),
    counter("retransmits_total", "Requests sent again.", "retrans/s"),
    counter("timeouts_total", "Times that a reply was not waited for longer.", "timeo/s"),
)
_COUNTED = sum(1 for column in _COUNTERS if column.kind == "counter")

MOUNTS = TableSpec(
    "mount",
    "mounts",
    ("mount", "export", "vers", "sec", "proto"),
    (
        *_COUNTERS,
        gauge("rsize_bytes", "Largest READ.", "rsize"),
        gauge("wsize_bytes", "Largest WRITE.", "wsize"),
        gauge("connections", "Connections to the server (nconnect).", "conns"),
        gauge("slots_used", "Most requests ever in flight on these connections.", "slots"),
        gauge(
            "slots_limit",
            "Most requests that this host lets be in flight (the server may allow fewer): "
            "nfs.max_session_slots since NFSv4.1, before it sunrpc's for each connection.",
            "of",
        ),
        gauge("unanswered", "Requests sent less replies; those given up stay in it."),
        gauge(
            "silent_s", "How long a request has waited with no reply at all; 0 if none is known to."
        ),
    ),
    BY_BYTES,
)
SERVERS = TableSpec("server", "servers", ("server",), _COUNTERS, BY_BYTES)


def is_any_mounted(root: Path) -> bool:
    """Whether any mount namespace has an NFS mount, without a look at the mounts.

    A mount holds the module of its NFS version, which ioh's probes do not touch.  Where the
    versions are built into the kernel, nothing can be unloaded and nothing needs to be told.
    """
    counts = [read_line(path_under(root, f"sys/module/{name}/refcnt")) for name in _VERSIONS]
    if any(count is not None for count in counts):
        return any(count not in {None, "0"} for count in counts)
    return (
        Path(path_under(root, "sys/module/nfs")).is_dir()
        and not Path(path_under(root, "sys/module/nfs/refcnt")).exists()
    )


def _counted(mount: NfsMount) -> Row:
    read, write, commit = (mount.stats_of(name) for name in ("READ", "WRITE", "COMMIT"))
    every = mount.procedures.values()
    return (
        read.calls,
        mount.server_read_bytes,
        read.execute_ms * _MS,
        write.calls,
        mount.server_write_bytes,
        write.execute_ms * _MS,
        commit.calls,
        sum(stats.transmissions - stats.calls for stats in every),
        sum(stats.timeouts for stats in every),
    )


class MountCounters:
    """Tables by mount and server, and what the page cache spared the server.

    Args:
        root: Where /proc and sysfs are.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silences: dict[tuple[str, str], _Silence] = {}
        self._root = root
        self.app_bytes = 0
        self.cached_bytes = 0
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}
        self._ahead: dict[tuple[str, str], int] = {}  # bytes fetched and not yet read

    def update(self, mounts: list[NfsMount]) -> dict[str, Table]:
        """Take in one reading of mountstats."""
        by_mount: dict[tuple[str, ...], Row] = {}
        by_server: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * _COUNTED)
        read_setting = cache(lambda name: read_line(path_under(self._root, name)))
        for mount in mounts:
            self._note_cached(mount)
            counted = _counted(mount)
            limit = slots_limit(mount, read_setting)
            by_mount[_key(mount)] = (*counted, *_settings(mount), limit, *self._waiting(mount))
            server = by_server[printable(mount.server),]
            for at, value in enumerate(counted):
                server[at] += int(value or 0)
        return {
            "mount": by_mount,
            "server": {key: tuple(row) for key, row in by_server.items()},
        }

    def _note_cached(self, mount: NfsMount) -> None:
        """Bytes read by programs and not fetched, in this tick or ahead in an earlier one.

        Read-ahead that nobody comes to read hides as many bytes of later hits: never too much.
        """
        key = mount.export, mount.mount_point
        read = mount.normal_read_bytes + mount.direct_read_bytes
        fetched = mount.server_read_bytes
        before = self._seen.get(key)
        self._seen[key] = read, fetched
        if before is None or read < before[0] or fetched < before[1]:
            self._ahead[key] = 0
            return
        grown = read - before[0]
        self.app_bytes += grown
        ahead = self._ahead[key] + (fetched - before[1]) - grown
        self.cached_bytes += max(0, -ahead)
        self._ahead[key] = max(0, ahead)

    def _waiting(self, mount: NfsMount) -> tuple[Value, ...]:
        """How many requests have no reply, and how long there has been none at all."""
        if mount.sent is None or mount.replied is None:
            return (None, None)
        silence = self._silences.setdefault((mount.export, mount.mount_point), _Silence())
        silent_s = silence.note(mount.sent, mount.replied, self._clock())
        return (max(0, mount.sent - mount.replied), silent_s)

    def metrics(self) -> dict[str, Value]:
        """The layer's metrics that come from here."""
        return {
            "app_read_bytes_total": self.app_bytes,
            "cached_read_bytes_total": self.cached_bytes,
        }


class _Silence:
    """Since when no reply has come to a mount's connections, though a request was sent."""

    def __init__(self) -> None:
        self._sent: int | None = None
        self._replied = 0
        self._since_s: float | None = None
        self._asked_s = 0.0  # when a request was last seen to be sent

    def note(self, sent: int, replied: int, now_s: float) -> float:
        """Take in their counts; seconds since the first request after the last reply, at least.

        A request and a reply between two looks may have come in any order: then nobody is known
        to wait.
        """
        is_asked = self._sent is not None and sent > self._sent
        if self._sent is None or replied != self._replied:
            self._since_s = None
        elif is_asked:
            self._asked_s = now_s
            self._since_s = now_s if self._since_s is None else self._since_s
        elif self._since_s is not None and now_s - self._asked_s > _FORGOTTEN_S:
            self._since_s = None
        self._sent, self._replied = sent, replied
        return 0.0 if self._since_s is None else now_s - self._since_s


def _key(mount: NfsMount) -> tuple[str, ...]:
    words = (
        mount.mount_point,
        mount.export,
        mount.options.get("vers", "?"),
        mount.options.get("sec", mount.flavor) or "?",
        mount.options.get("proto", "?"),
    )
    return tuple(printable(word) for word in words)


def _settings(mount: NfsMount) -> tuple[Value, ...]:
    return (
        mount.option_number("rsize"),
        mount.option_number("wsize"),
        mount.transports or None,
        mount.slots_used,
    )


def proc_ops(
    procedures: Mapping[str, ProcedureStats], mounts: Iterable[NfsMount]
) -> dict[str, OpTotals]:
    """READ, WRITE and COMMIT as mountstats has them; it cannot tell kinds of WRITE apart."""
    listed = list(mounts)
    moved = {
        "READ": sum(mount.server_read_bytes for mount in listed),
        "WRITE": sum(mount.server_write_bytes for mount in listed),
    }
    ops: dict[str, OpTotals] = {}
    for name in ("READ", "WRITE", "COMMIT"):
        stats = stats_of(procedures, name)
        ops[name.lower()] = OpTotals(
            count_total=stats.calls,
            bytes_total=moved.get(name, 0),
            errors_total=stats.errors,
            latency_ns_total=stats.execute_ms * _MS,
            queue_ns_total=stats.queue_ms * _MS,
            queued_total=stats.calls,
        )
    return ops


def procedure_rows(mounts: Iterable[NfsMount]) -> dict[tuple[str, str], list[int]]:
    """Counters of each procedure in struct procedure's order, by version and name."""
    rows: dict[tuple[str, str], list[int]] = {}
    for mount in mounts:
        version = f"v{mount.options.get('vers', '?').partition('.')[0]}"
        for name, stats in mount.procedures.items():
            row = rows.setdefault((printable(version), printable(name)), [0] * 7)
            for at, value in enumerate(
                (
                    stats.calls,
                    stats.errors or 0,
                    stats.queue_ms * _MS,
                    stats.rtt_ms * _MS,
                    stats.execute_ms * _MS,
                    stats.transmissions - stats.calls,
                    stats.timeouts,
                )
            ):
                row[at] += value
    return rows


def procedure_table(mounts: list[NfsMount]) -> Table:
    """The same as a table; errors are None where the kernel (before 5.3) counts none."""
    known = all(s.errors is not None for mount in mounts for s in mount.procedures.values())
    return {
        key: (calls, errors if known else None, *rest)
        for key, (calls, errors, *rest) in procedure_rows(mounts).items()
    }
