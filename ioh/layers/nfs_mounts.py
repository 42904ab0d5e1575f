"""The kernel's own counters of NFS mounts: tables by mount and server, cached reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import add
from pathlib import Path

from ioh.layers.nfs_procedures import METADATA_NAMES, PROCEDURES
from ioh.layers.nfs_superblocks import Superblock, SuperblockId, Superblocks
from ioh.layers.per_owner_totals import add_each
from ioh.model.printable import printable
from ioh.model.sample import OpTotals, Row, Table, Value
from ioh.procfs.files import path_under, read_line
from ioh.procfs.mountstats import NfsMount, slots_limit

_VERSIONS = ("nfsv2", "nfsv3", "nfsv4")
_MS = 1_000_000  # nanoseconds
# With timeo=600 a waiting call is sent again within this time.  A call that was given up, or whose
# program was killed, is never sent again; then an idle mount waits for nothing.
_FORGOTTEN_S = 150.0
_SHARED = (
    "mounts of the same server file system share their counters (one superblock): each of their "
    "rows shows the sum of all of them; totals count it once"
)


def is_any_mounted(root: Path) -> bool:
    """Whether any mount namespace has an NFS mount, without reading the mounts.

    A mount holds the module of its NFS version, which ioh's probes do not use.  If the versions are
    built into the kernel, no module can be unloaded: always True.
    """
    counts = [read_line(path_under(root, f"sys/module/{name}/refcnt")) for name in _VERSIONS]
    if any(count is not None for count in counts):
        return any(count not in {None, "0"} for count in counts)
    return (
        Path(path_under(root, "sys/module/nfs")).is_dir()
        and not Path(path_under(root, "sys/module/nfs/refcnt")).exists()
    )


def _counters(mount: NfsMount) -> tuple[int, ...]:
    read, write, commit = (mount.stats_of(name) for name in ("READ", "WRITE", "COMMIT"))
    every = mount.procedures.values()
    metadata = mount.sum_of(METADATA_NAMES)
    return (
        read.calls,
        mount.server_read_bytes,
        read.execute_ms * _MS,
        write.calls,
        mount.server_write_bytes,
        write.execute_ms * _MS,
        commit.calls,
        metadata.calls,
        metadata.execute_ms * _MS,
        sum(stats.transmissions - stats.calls for stats in every),
        sum(stats.timeouts for stats in every),
    )


def _sum(row: tuple[int, ...] | None, counters: tuple[int, ...]) -> tuple[int, ...]:
    return counters if row is None else tuple(map(add, row, counters))


class MountCounters:
    """Tables by mount and server, and bytes read from the page cache.

    Rows add up the growth of their superblocks since the first reading: when a mount comes or goes,
    its superblock's history does not count as traffic.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._root = root
        self._superblocks = Superblocks(root)
        self.superblocks: list[Superblock] = []  # as of the last reading
        self._by_mount: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._by_server: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._pending: dict[SuperblockId, _Pending] = {}
        self.app_bytes = 0
        self.cached_bytes = 0

    def update(self, mounts: list[NfsMount]) -> dict[str, Table]:
        """Add one reading of mountstats; return the tables."""
        now_s = self._clock()
        self.superblocks = self._superblocks.take_in(mounts, now_s)
        by_mount: dict[tuple[str, ...], tuple[int, ...]] = {}
        by_server: dict[tuple[str, ...], tuple[int, ...]] = {}
        ports: dict[tuple[str, ...], int | None] = {}
        gauges: dict[tuple[str, ...], Row] = {}
        before, self._pending = self._pending, {}
        for superblock in self.superblocks:
            pending = _Pending() if superblock.is_new else before[superblock.id]
            self._pending[superblock.id] = pending
            growth = superblock.growth
            counters = _counters(growth)
            limit = slots_limit(growth, self._root)
            waiting = _waiting(growth, pending, now_s)
            if not superblock.is_new:
                self._note_cached(growth, pending)
            for mount in superblock.mounts:
                key = _key(mount)
                by_mount[key] = _sum(self._by_mount.get(key), counters)
                gauges[key] = (*_settings(mount), limit, *waiting)
            server = (printable(growth.server), printable(superblock.address) or "?")
            ports[server] = growth.option_number("port")
            by_server[server] = _sum(by_server.get(server, self._by_server.get(server)), counters)
        self._by_mount, self._by_server = by_mount, by_server
        return {
            "mount": {key: (*row, *gauges[key]) for key, row in by_mount.items()},
            "server": {key: (*row, ports[key]) for key, row in by_server.items()},
        }

    def notes(self) -> tuple[str, ...]:
        """What a user must know to read the rows."""
        if all(len(superblock.mounts) == 1 for superblock in self.superblocks):
            return ()
        return (_SHARED,)

    def _note_cached(self, growth: NfsMount, pending: _Pending) -> None:
        """Count bytes that programs read and no READ fetched, in this tick or earlier.

        Unused read-ahead hides the same number of later hits: the count is never too high.
        """
        read = growth.normal_read_bytes + growth.direct_read_bytes
        self.app_bytes += read
        ahead = pending.ahead_bytes + growth.server_read_bytes - read
        self.cached_bytes += max(0, -ahead)
        pending.ahead_bytes = max(0, ahead)

    def metrics(self) -> dict[str, Value]:
        """The layer's metrics from mountstats."""
        return {
            "app_read_bytes_total": self.app_bytes,
            "cached_read_bytes_total": self.cached_bytes,
        }


def _waiting(mount: NfsMount, pending: _Pending, now_s: float) -> tuple[Value, ...]:
    """How many requests have no reply, and for how long no reply has come at all."""
    if mount.sent is None or mount.replied is None:
        return (None, None)
    silent_s = pending.silent_s(mount.sent, mount.replied, now_s)
    return (max(0, mount.sent - mount.replied), silent_s)


class _Pending:
    """Bytes that a superblock fetched and nobody has read yet, and its requests without reply."""

    def __init__(self) -> None:
        self.ahead_bytes = 0
        self._sent: int | None = None
        self._replied = 0
        self._since_s: float | None = None
        self._asked_s = 0.0  # when the last new request was seen

    def silent_s(self, sent: int, replied: int, now_s: float) -> float:
        """Add a reading; return the seconds since the first request after the last reply, at least.

        If both a request and a reply came between two readings, their order is unknown: 0.
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
        0 if "noac" in mount.options else mount.option_number("acregmax"),
        mount.transports or None,
        mount.slots_used,
    )


class ProcTotals:
    """Running totals of mountstats: by op, by superblock's name and op, and by procedure.

    Only those by name forget unmounted superblocks; the others never fall.
    """

    def __init__(self) -> None:
        self.ops = proc_ops(NfsMount("", ""))
        self.parts: dict[str, dict[str, OpTotals]] = {}
        # In struct procedure's order, by version and name.
        self.procedures: dict[tuple[str, ...], tuple[int, ...]] = {}

    def add(self, superblocks: list[Superblock]) -> None:
        """Add the growth of each."""
        before, self.parts = self.parts, {}
        for superblock in superblocks:
            growth = superblock.growth
            ops = proc_ops(growth)
            self.ops = add_each([self.ops, ops])
            name = f"{printable(growth.export)} on {printable(growth.mount_point)}"
            totals = self.parts.get(name) or before.get(name, {})
            self.parts[name] = add_each([totals, ops])
            self._add_procedures(growth)

    def _add_procedures(self, mount: NfsMount) -> None:
        version = f"v{mount.options.get('vers', '?').partition('.')[0]}"
        for name, stats in mount.procedures.items():
            counters = (
                stats.calls,
                stats.errors,
                stats.queue_ms * _MS,
                stats.rtt_ms * _MS,
                stats.execute_ms * _MS,
                stats.transmissions - stats.calls,
                stats.timeouts,
            )
            key = printable(version), printable(name)
            self.procedures[key] = _sum(self.procedures.get(key), counters)


def proc_ops(mount: NfsMount) -> dict[str, OpTotals]:
    """READ, WRITE, COMMIT and metadata from mountstats, which does not tell kinds of WRITE apart.

    Times include those of failed calls, which count only as errors.  Most metadata calls that fail
    are usual answers (ENOENT), and mountstats does not tell which: they count like others.
    """
    sizes = {"READ": mount.server_read_bytes, "WRITE": mount.server_write_bytes, "COMMIT": 0}
    ops: dict[str, OpTotals] = {}
    for name, size in sizes.items():
        stats = mount.stats_of(name)
        ops[name.lower()] = OpTotals(
            count_total=stats.calls - stats.errors,
            bytes_total=size,
            errors_total=stats.errors,
            latency_ns_total=stats.execute_ms * _MS,
            queue_ns_total=stats.queue_ms * _MS,
            queued_total=stats.calls,
        )
    for op, names in PROCEDURES.items():
        stats = mount.sum_of(names)
        ops[op] = OpTotals(
            count_total=stats.calls,
            bytes_total=0,
            latency_ns_total=stats.execute_ms * _MS,
            queue_ns_total=stats.queue_ms * _MS,
            queued_total=stats.calls,
        )
    return ops
