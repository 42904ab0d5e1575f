"""Database servers: statements, commits, and what both wait for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ioh.bpf.defines import numbered, offset_defines
from ioh.bpf.probe import Probe, ServerProgram
from ioh.bpf.server_ledger import SITES
from ioh.bpf.site_record import OWNERS, ROLES, SITE, SIZES
from ioh.bpf.totals import advance_epoch, decode_lost
from ioh.layers.base import Layer
from ioh.layers.db_known import KnownOps
from ioh.layers.db_open import IDLE, UNKNOWN, OpenOp, Progress, read_open_ops
from ioh.layers.db_ops import (
    OPEN_KEY,
    OPEN_OP,
    OPS,
    SESSION,
    SESSION_KEY,
    SESSION_OPS,
    WAIT_KEY,
    WAITS,
)
from ioh.layers.db_tables import TABLES, Sessions, Waits
from ioh.layers.part_totals import PART_OP, PartNames, PartTotals, part_defines, sum_parts
from ioh.layers.per_owner_totals import Ops
from ioh.layers.trap_budget import MOST_CPU, MOST_CPU_NAMED, PAUSE_S, TrapBudget
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import LayerSpec, numbers
from ioh.model.sample import LayerSample, OpTotals, Unavailable
from ioh.procfs.processes import ServerProcesses, are_pids_the_kernels, server_name

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map, Maps
    from ioh.bpf.server_files import NamedFile, Server

SPEC = LayerSpec(
    name="db",
    title="db",
    rank=5,
    ops=OPS,
    groups={},
    part="server",
    metrics=numbers(
        """
        servers            | servers | Servers measured, each with all its sessions.
        running_statements | running | Statements running at the sample instant.
        """
    ),
    tables=TABLES,
    lost=("map_full", "no_start"),
)

_MEMBERS = (
    "task_struct tgid comm real_parent se.prev_sum_exec_runtime se.sum_exec_runtime"
    " sched_info.last_arrival sched_info.run_delay"
)
_KEPT_S = 60.0
_RETIRE_TICKS = 60
_COOKIE = ("bpf_trace_run_ctx", "bpf_cookie")  # tells a program where it is attached
_TOO_OLD = "needs Linux 5.15"


def _defines(host: HostFacts, _: Filters) -> Mapping[str, int] | Unavailable:
    """Offsets that tell which server a thread works for, and the tables' sizes."""
    offsets = offset_defines(host.btf, _MEMBERS)
    if isinstance(offsets, Unavailable):
        return offsets
    if host.btf.offset(*_COOKIE) is None:
        return Unavailable(f"this kernel's struct {_COOKIE[0]} has no {_COOKIE[1]}", _TOO_OLD)
    return {
        **part_defines(host, len(SPEC.ops)),
        **offsets,
        "SITES": SITES,
        "SESSION_OPS": len(SESSION_OPS),
        "WAITS": len(WAITS),
        **numbered("ROLE_", ROLES),
        **numbered("OWNER_", OWNERS),
        **numbered("SIZE_", SIZES),
    }


_PROBE = Probe(
    SPEC,
    defines=_defines,
    structs=(SITE, PART_OP, OPEN_KEY, OPEN_OP, WAIT_KEY, SESSION_KEY, SESSION),
    server_program=ServerProgram("on_site", lambda: (Db.servers(), Db.files)),
)


class Db(Layer):
    """The database servers of this machine, measured at their own probe points."""

    spec = SPEC
    probe = _PROBE
    is_rare = True
    idle = "no supported database server is running"

    _servers: ClassVar[tuple[Server, ...] | None] = None
    files: ClassVar[tuple[NamedFile, ...]] = ()  # opened with the caller's rights
    _processes: ClassVar[ServerProcesses | None] = None
    _seen_s: ClassVar[float] = float("-inf")

    @classmethod
    def configure(cls, servers: tuple[Server, ...], files: Iterable[NamedFile] = ()) -> None:
        """Measure these servers instead of the known ones; call it before the loader is forked.

        ``files`` are those that they name by path.
        """
        ops = dict.fromkeys((*OPS, *(probe.op for s in servers for probe in s.probes)))
        cls.spec = replace(SPEC, ops=tuple(ops))
        cls.probe = replace(_PROBE, spec=cls.spec)
        cls._servers, cls._processes, cls.files = servers, None, tuple(files)

    @classmethod
    def servers(cls) -> tuple[Server, ...]:
        """The configured servers, else the known ones; none if msgspec is not installed."""
        if cls._servers is None:
            try:
                from ioh.bpf.server_files import read_servers
            except ImportError:  # psutil alone is enough to read /proc, which has no statements
                return ()
            cls._servers = read_servers()
        return cls._servers

    @classmethod
    def is_wanted(cls, root: Path = Path("/")) -> bool:
        """Whether a server is running, ran within a minute (a restart), or was named by path."""
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

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._totals = PartTotals(self.spec.ops, queue=False, accrues=True)
        self._names: dict[int, str] = {}
        self._knows_pids = are_pids_the_kernels(root)
        self._tick = 0
        self._parts = PartNames(self._name_of)
        self._sessions, self._waits = Sessions(root), Waits()
        self._known_ops, self._progress = KnownOps(), Progress(root)
        self._watched: set[int] = set()
        self._forgotten: set[str] = set()
        self._own = 0
        self._trap_ns: dict[str, int] = {}
        self._counted_ns = 0
        users = (each for each in self.servers() if each.is_users)
        users_ops = frozenset(probe.op for each in users for probe in each.probes)
        self._budgets = (
            (frozenset(self.spec.ops) - users_ops, TrapBudget(MOST_CPU)),
            (users_ops, TrapBudget(MOST_CPU_NAMED)),
        )

    def server_pids(self) -> frozenset[int]:
        """The servers that are running."""
        return self._running(self.root)

    def observe_server(self, answer: Mapping[str, Any]) -> None:
        """Note that a server has its probes, and for which ops."""
        self._known_ops.learn(answer)
        if answer["files"]:  # empty: it had already ended
            self._watched.add(int(answer["pid"]))
        self._counted_ns = answer["counted_ns"]
        for op, cost_ns in answer["trap_ns"].items():
            self._trap_ns[op] = max(cost_ns, self._trap_ns.get(op, 0))

    def leave_out(self, session: int) -> None:
        """Tell the probe, at the next reading."""
        self._own = session

    def _traps(self, maps: Maps) -> dict[str, int]:
        """How many traps there were so far, by op."""
        traps = maps["traps"]
        ops = ((op, self.spec.ops.index(op)) for op in self._trap_ns)
        return {op: traps.sum_cpus(traps.at(at))[0] for op, at in ops}

    def trap_ns(self, maps: Maps) -> int:
        """CPU time of all traps so far."""
        return sum(count * self._trap_ns[op] for op, count in self._traps(maps).items())

    def overload(self, maps: Maps) -> dict[str, str]:
        """The costliest ops, while counting all of them costs more than a share of a CPU."""
        now_s, shares = time.monotonic(), dict[str, float]()
        spent_ns = {
            op: count * (self._trap_ns[op] + self._counted_ns)
            for op, count in self._traps(maps).items()
        }
        for ops, budget in self._budgets:
            shares |= budget.overload({op: spent_ns[op] for op in ops & spent_ns.keys()}, now_s)
        for op in shares:
            self._known_ops.drop(op)
        self._forgotten |= shares.keys()
        why = f"is not counted for {PAUSE_S / 60:.0f} minutes: that takes"
        return {op: f"{op} {why} {100 * share:.0f}% of a CPU" for op, share in shares.items()}

    def read(self, maps: Maps) -> LayerSample:
        """Totals, sessions and waits by server; operations without a probe are unknown."""
        now_ns = time.monotonic_ns()
        maps["own_session"].update(bytes(4), self._own.to_bytes(4, sys.byteorder))
        self._watched &= self.server_pids()
        ended = advance_epoch(maps["epoch"])
        totals = self._totals.read(maps["totals"], ended)
        self._retire(maps, totals)
        # Last: what ends in between is in neither, and appears in the next interval.
        waited = maps["waits"].sums(2 * len(WAITS))
        open_ops, dropped = self._open_ops(maps["open_ops"])
        self._progress.drop(dropped, now_ns)
        pids = {*totals, *(self.server_pids() - {0}), *(each.server for each in open_ops)}
        known_ops = {pid: self._known_ops.of(pid, totals.get(pid, {})) for pid in pids}
        by_server = self._progress.book(totals, open_ops, known_ops, now_ns)
        libraries = self._known_ops.of(0, {})  # nobody may have used them yet
        ops = self._sum(by_server, (*known_ops.values(), libraries))
        # Name running servers now: one may have ended before its first operations are read.
        names = {pid: self._name_of(pid) for pid in sorted(pids)}
        so_far = self._progress.waits(open_ops, now_ns)
        return LayerSample(
            source="bpf",
            ops=ops,
            metrics={
                "servers": len(self._watched - {0}),
                "running_statements": ops["statement"].inflight,
            },
            tables={
                "session": self._sessions.read(maps["sessions"], names, known_ops),
                "wait": self._waits.read(waited, by_server, names, known_ops, so_far),
                IN_PROGRESS: self._sessions.in_progress(open_ops, names, now_ns),
            },
            parts=self._parts.name(by_server),
            lost=decode_lost(maps["lost"], SPEC.lost),
            notes=(
                *self._notes_of_unseen(names),
                *notes_of_unfiltered(self.filters, "all servers and sessions"),
            ),
        )

    def _open_ops(self, open_ops: Map) -> tuple[list[OpenOp], list[OpenOp]]:
        """Operations in progress, and those that will have no end.

        Those of killed threads, and those of a kind that is no longer counted: once it is counted
        again, the end of a later one would be taken for theirs.
        """
        forgotten, self._forgotten = self._forgotten, set()

        def is_gone(process: int, op: str) -> bool:
            is_killed = self._knows_pids and not (self.root / "proc" / str(process)).exists()
            return is_killed or op in forgotten

        return read_open_ops(open_ops, self.spec.ops, is_gone, self._sessions.is_client)

    def _sum(
        self, by_server: Mapping[int, Ops], known_ops: Iterable[Mapping[str, bool]]
    ) -> dict[str, OpTotals]:
        """Each op of all servers that know it."""
        fails: dict[str, bool] = {}
        for each in known_ops:
            fails |= {op: can_fail or fails.get(op, False) for op, can_fail in each.items()}
        parts = {**by_server, 0: self._totals.retired}
        ops = dict.fromkeys(self.spec.ops, UNKNOWN)
        for name, op in sum_parts(parts, self.spec.ops).items():
            if name in fails:
                totals = IDLE if op.weighted_ns_total is None else op
                ops[name] = totals if fails[name] else replace(totals, errors_total=None)
        return ops

    def _notes_of_unseen(self, names: Mapping[int, str]) -> list[str]:
        why = {probe.op: probe.unseen for s in self.servers() for probe in s.probes if probe.unseen}
        return [
            f"{names[server]}: {op} is not counted: {why.get(op, '')}."
            for server, op in sorted(self._known_ops.unseen_ops())
            if server in names
        ]

    def _retire(self, maps: Maps, by_server: dict[int, dict[str, OpTotals]]) -> None:
        """Once a minute, drop ended servers: each restart is another process."""
        self._tick += 1
        if self._tick % _RETIRE_TICKS or not self._knows_pids:
            return
        for pid in [n for n in {*self._names, *by_server} if server_name(n, self.root) is None]:
            self._totals.retire(maps["totals"], pid)
            self._waits.retire(maps["waits"], pid)
            self._progress.forget(pid)
            self._known_ops.forget(pid)
            self._names.pop(pid, None)
            by_server.pop(pid, None)

    def _name_of(self, pid: int) -> str:
        """A server's name when first seen, with its pid if a running one has the same name."""
        if pid not in self._names:
            name = server_name(pid, self.root) or f"server {pid}"
            is_taken = any(
                name == other and pid_of_other in self.server_pids()
                for pid_of_other, other in self._names.items()
            )
            self._names[pid] = f"{name} ({pid})" if is_taken else name
        return self._names[pid]

    def read_proc(self) -> LayerSample | Unavailable:
        """Unavailable: /proc has no statements."""
        return Unavailable("statements need BPF", "start ioh with sudo")
