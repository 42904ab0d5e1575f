"""Databases: what their servers do for a statement, and what a commit waits for."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ioh.bpf.server_ledger import SITES
from ioh.bpf.totals import advance_epoch, decode_lost
from ioh.layers.base import Layer, offset_defines
from ioh.layers.db_tables import SESSION_OPS, TABLES, WAITS, Sessions, Waits
from ioh.layers.event_rate import PAUSE_S, EventRate
from ioh.layers.part_totals import Parts, PartTotals, part_defines, sum_parts
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.metric import LayerSpec, numbers
from ioh.model.sample import LayerSample, OpTotals, Unavailable
from ioh.procfs.processes import ServerProcesses, are_pids_the_kernels, server_name

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map, Maps
    from ioh.bpf.server_files import Server

OPS = (
    *SESSION_OPS,
    "lwlock_wait",
    "sort",
    "temp_read",
    "temp_write",
    "checkpoint",
    "log_full",
)

SPEC = LayerSpec(
    name="db",
    title="db",
    rank=5,
    ops=OPS,
    groups={},
    part="server",
    metrics=numbers(
        """
        servers            | servers | Servers that are watched, each with all of its sessions.
        running_statements | running | Statements under way at the sample instant.
        """
    ),
    tables=TABLES,
    lost=("map_full", "no_start"),
)

_MEMBERS = "task_struct tgid comm real_parent se.prev_sum_exec_runtime sched_info.last_arrival"
_OPEN_KEY = struct.Struct("=II")  # struct open_key of probes/db.c
_SHARED = 1 << 31  # of a key that is no thread's
_SERVER = struct.Struct("=24xI")  # of struct open_op
_KEPT_S = 60.0
_RETIRE_TICKS = 60
_COOKIE = ("bpf_trace_run_ctx", "bpf_cookie")  # by which a program knows where it is attached
_TOO_OLD = "needs Linux 5.15"


class Db(Layer):
    """What this machine's database servers do, as their own probe points show it."""

    spec = SPEC
    probe = "db"
    server_program = "on_site"
    is_rare = True
    idle = "no database server that ioh knows runs here"

    _servers: ClassVar[tuple[Server, ...] | None] = None
    _processes: ClassVar[ServerProcesses | None] = None
    _seen_s: ClassVar[float] = float("-inf")

    @classmethod
    def configure(cls, servers: tuple[Server, ...]) -> None:
        """Watch these instead of those that ioh knows; call it before the loader is forked."""
        known = dict.fromkeys((*OPS, *(probe.op for s in servers for probe in s.probes)))
        cls.spec = replace(SPEC, ops=tuple(known))
        cls._servers, cls._processes = servers, None

    @classmethod
    def servers(cls) -> tuple[Server, ...]:
        """Those that ioh knows, or was told of; none where the library that reads them lacks."""
        if cls._servers is None:
            try:
                from ioh.bpf.server_files import read_servers
            except ImportError:  # /proc, which knows no statement, is read with psutil alone
                return ()
            cls._servers = read_servers()
        return cls._servers

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether a server runs, ran a minute ago (it is being started again), or was named."""
        if cls._running(root):
            cls._seen_s = time.monotonic()
        return time.monotonic() - cls._seen_s < _KEPT_S

    @classmethod
    def _running(cls, root: Path) -> frozenset[int]:
        if cls._processes is None:
            programs = [name.rpartition("/")[2] for s in cls.servers() for name in s.binaries]
            cls._processes = ServerProcesses(programs, root)
        paths = (name for s in cls.servers() for name in (*s.libraries, *s.binaries))
        is_named = any("/" in path or ".so" in path for path in paths)
        return cls._processes.pids() | (frozenset({0}) if is_named else frozenset())

    @classmethod
    def defines(cls, host: HostFacts, filters: Filters) -> Mapping[str, int | str] | Unavailable:
        """Offsets of what says which server a thread works for, and the tables' sizes."""
        del filters
        offsets = offset_defines(host.btf, _MEMBERS)
        if isinstance(offsets, Unavailable):
            return offsets
        if host.btf.offset(*_COOKIE) is None:
            return Unavailable(f"this kernel's struct {_COOKIE[0]} has no {_COOKIE[1]}", _TOO_OLD)
        return {
            **part_defines(host),
            **offsets,
            "SITES": SITES,
            "SESSION_OPS": len(SESSION_OPS),
            "WAITS": len(WAITS),
            "LOST_REASONS": len(SPEC.lost),
        }

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._totals = PartTotals(self.spec.ops, queue=False)
        self._names: dict[int, str] = {}
        self._knows_pids = are_pids_the_kernels(root)
        self._tick = 0
        self._parts = Parts(self._name_of)
        self._sessions, self._waits = Sessions(root), Waits()
        self._seen_ops: set[str] = set()
        self._watched: set[int] = set()
        self._forgotten: set[str] = set()
        self._counts: dict[str, int] = {}
        self._rate = EventRate()

    def server_pids(self) -> frozenset[int]:
        """Those that run now."""
        return self._running(self.root)

    def learn_server(self, answer: Mapping[str, Any]) -> None:
        """A server has its probes; which of the ops have one."""
        if answer["files"]:  # none: it had ended already
            self._watched.add(int(answer["pid"]))
        self._seen_ops |= set(map(str, answer["link_ops"]))

    def too_dear(self) -> tuple[str, str]:
        """What happens most, while all that is counted costs more than a fifth of a CPU."""
        op, per_s = self._rate.busiest(self._counts, time.monotonic())
        if op:
            self._seen_ops.discard(op)
            self._forgotten.add(op)
        pause = f"{PAUSE_S / 60:.0f} minutes"
        return op, f"{op} is not counted for {pause}: {per_s:,.0f} events a second slow the servers"

    def read(self, maps: Maps) -> LayerSample:
        """Totals, sessions and waits by server; what none has a probe for is unknown."""
        self._watched &= self.server_pids()
        ended = advance_epoch(maps["epoch"])
        by_server = self._totals.read(maps["totals"], ended)
        self._retire(maps, by_server)
        ops = {
            name: replace(op, inflight=None) if name in self._seen_ops else OpTotals()
            for name, op in sum_parts({**by_server, 0: self._totals.retired}, self.spec.ops).items()
        }
        self._counts = {name: ops[name].count_total or 0 for name in self._seen_ops & ops.keys()}
        running = self._running_statements(maps["open_ops"])
        # What runs is named now: it may have ended when its first operations are read.
        names = {pid: self._name_of(pid) for pid in (*by_server, *(self.server_pids() - {0}))}
        return LayerSample(
            source="bpf",
            ops=ops,
            metrics={
                "servers": len(self._watched - {0}),
                "running_statements": running if "statement" in self._seen_ops else None,
            },
            tables={
                "session": self._sessions.read(maps["sessions"], names, self._seen_ops),
                "wait": self._waits.read(maps["waits"], by_server, names, self._seen_ops),
            },
            parts=self._parts.name(by_server),
            lost=decode_lost(maps["lost"], SPEC.lost),
            notes=notes_of_unfiltered(self.filters, "all servers and sessions"),
        )

    def _running_statements(self, open_ops: Map) -> int:
        """How many; a thread that was killed in the middle of one has none under way.

        What is let go of is under way no more: its end would be that of a later one's.
        """
        running, forgotten = 0, self._forgotten
        self._forgotten = set()
        for key, value in open_ops.items_bytes():
            tid, op = _OPEN_KEY.unpack(key)
            of = tid if tid < _SHARED else _SERVER.unpack_from(value)[0]
            is_gone = self._knows_pids and not (self.root / "proc" / str(of)).exists()
            if is_gone or self.spec.ops[op] in forgotten:
                open_ops.delete(key)
            elif self.spec.ops[op] == "statement":
                running += 1
        return running

    def _retire(self, maps: Maps, by_server: dict[int, dict[str, OpTotals]]) -> None:
        """Once a minute: a server that is started again is another process each time."""
        self._tick += 1
        if self._tick % _RETIRE_TICKS or not self._knows_pids:
            return
        for pid in [n for n in {*self._names, *by_server} if server_name(n, self.root) is None]:
            self._totals.retire(maps["totals"], pid)
            self._waits.retire(maps["waits"], pid)
            self._names.pop(pid, None)
            by_server.pop(pid, None)

    def _name_of(self, pid: int) -> str:
        """What a server was called when it was seen first, told apart from its like."""
        if pid not in self._names:
            name = server_name(pid, self.root) or f"server {pid}"
            is_taken = any(
                name == other and pid_of_other in self.server_pids()
                for pid_of_other, other in self._names.items()
            )
            self._names[pid] = f"{name} ({pid})" if is_taken else name
        return self._names[pid]

    def read_proc(self) -> LayerSample | Unavailable:
        """Nothing in /proc knows a statement."""
        return Unavailable("statements are seen by BPF only", "start ioh with sudo")
