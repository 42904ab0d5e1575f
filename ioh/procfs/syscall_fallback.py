"""The syscall layer from /proc/PID/io, for hosts where its probe cannot run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ioh.model.filters import Filters
from ioh.model.metric import LayerSpec
from ioh.model.printable import printable
from ioh.model.sample import LayerSample, OpTotals, Row, Unavailable
from ioh.procfs.files import ROOT, path_under
from ioh.procfs.mountinfo import read_mounts
from ioh.procfs.processes import (
    Flow,
    ProcessStat,
    list_pids,
    read_cgroup,
    read_process_io,
    read_process_stat,
)

_COLUMNS = ("reads_total", "read_bytes_total", "writes_total", "write_bytes_total")
_NOTHING = (0, 0, 0, 0)

_NOTES = (
    "counted by /proc/PID/io: all read and write calls, also on pipes, terminals and sockets",
    "libaio, io_uring, mmap, recv and send are not included",
    "unknown without BPF: latency, fsync, buffered or direct, cached or not, files, mounts",
    "I/O of a process after its last sample counts for the parent that waited for it",
)

_PARENTS_MAX = 64  # do not follow longer chains of parents


@dataclass(slots=True)
class _Process:
    """One process as last seen, and its growth since ioh attached, under its current name."""

    stat: ProcessStat
    last: Flow
    grown: list[int] = field(default_factory=lambda: [0, 0, 0, 0])


class SyscallFallback:
    """The syscall layer's totals from /proc/PID/io; call ``sample()`` once a tick.

    Totals start at 0 with the first sample and only grow.  They keep the I/O of ended processes;
    the rows do not.  A reused pid is recognised by its start time.

    When a parent waits for a child, the kernel adds the child's totals to the parent's.  The part
    that was already counted is subtracted from the parent's growth, so nothing counts twice.  The
    rest, the child's last moments, stays with the parent.  If the parent does not wait (SIGCHLD
    ignored), those moments are missed.

    The sums are in the spec's groups ``read`` and ``write``: the kernel does not tell whether calls
    were buffered, direct or synchronous.  Filter ``device`` cannot be applied.
    """

    def __init__(self, spec: LayerSpec, filters: Filters, root: Path = ROOT) -> None:
        self._table = next(t for t in spec.tables if t.name == "process")
        self._filters = filters
        self._comm = None if filters.comm is None else printable(filters.comm)
        self._root = root
        self._processes: dict[int, _Process] = {}
        self._unreadable: set[int] = set()
        self._is_first = True
        self._sum = [0, 0, 0, 0]
        self._cgroup_ids: dict[str, int | None] = {}

    def sample(self) -> LayerSample | Unavailable:
        """Read every process; filters apply afterwards, because of the children.

        Returns rows only of processes with I/O since the first sample.  Unavailable if /proc cannot
        apply the filters, or nothing can be read.
        """
        if self._filters.device is not None:
            return Unavailable(
                "/proc/PID/io does not tell the device of a call",
                "omit --device, or run as root with BPF",
            )
        flows, unreadable = self._read_flows()
        problem = self._problem(flows, unreadable)
        if problem is not None:
            return problem
        growth: dict[int, list[int]] = {}
        gone = [(pid, p) for pid, p in self._processes.items() if pid not in flows]
        for pid, _ in gone:
            del self._processes[pid]
        for pid, flow in flows.items():
            replaced = self._enter(pid, flow, growth)
            if replaced is not None:
                gone.append((pid, replaced))
        self._take_back(dict(gone), growth)
        for pid, grown in growth.items():
            self._add(pid, grown)
        self._unreadable = unreadable
        self._is_first = False
        return self._as_sample(len(unreadable), len(flows) + len(unreadable))

    def _read_flows(self) -> tuple[dict[int, Flow], set[int]]:
        """The totals of the readable processes, and the unreadable processes."""
        flows: dict[int, Flow] = {}
        unreadable: set[int] = set()
        for pid in list_pids(self._root):
            io = read_process_io(pid, self._root)
            if io is not None:
                flows[pid] = io
            elif os.path.exists(path_under(self._root, f"proc/{pid}")):
                unreadable.add(pid)
        return flows, unreadable

    def _problem(self, flows: dict[int, Flow], unreadable: set[int]) -> Unavailable | None:
        pid = self._filters.pid
        if pid in unreadable or (unreadable and not flows):
            whose = "all processes" if pid is None else f"process {pid}"
            return Unavailable(f"this user cannot read {whose} in /proc", "run as root")
        if not flows:
            return Unavailable("no process can be read in /proc", "mount /proc")
        if pid is not None and pid not in flows and self._is_first:
            return Unavailable(f"there is no process {pid}", "check --pid")
        return None

    def _enter(self, pid: int, now: Flow, growth: dict[int, list[int]]) -> _Process | None:
        """Enter one reading of a process; return the process whose pid it reuses, if any."""
        process = self._processes.get(pid)
        if process is not None and process.last == now:
            return None  # idle: no need to read its name and start
        stat = read_process_stat(pid, self._root)
        if stat is None:
            return None
        replaced = None
        if process is None or process.stat.start_ticks != stat.start_ticks:
            # Earlier totals are history, except those of a process that has started since.
            is_new = process is not None or not (self._is_first or pid in self._unreadable)
            replaced, process = process, _Process(stat, _NOTHING if is_new else now)
            self._processes[pid] = process
        elif process.stat.comm != stat.comm:  # exec: another row, starting at 0
            process.grown = [0, 0, 0, 0]
        process.stat = stat
        growth[pid] = [max(0, b - a) for a, b in zip(process.last, now, strict=True)]
        process.last = now
        return replaced

    def _take_back(self, gone: dict[int, _Process], growth: dict[int, list[int]]) -> None:
        """Subtract the counted totals of ended processes from the growth of the parent that waited.

        That is the nearest living ancestor, or one further up if that one ended first: the nearest
        with enough growth.
        """
        for process in gone.values():
            if not any(process.last):
                continue
            parent_pid = process.stat.parent_pid
            for _ in range(_PARENTS_MAX):
                grown = growth.get(parent_pid) if parent_pid not in gone else None
                if grown and all(a >= b for a, b in zip(grown, process.last, strict=True)):
                    growth[parent_pid] = [a - b for a, b in zip(grown, process.last, strict=True)]
                    break
                parent = gone.get(parent_pid) or self._processes.get(parent_pid)
                if parent_pid <= 1:
                    break
                # If the chain is lost, process 1 adopted the orphan.
                parent_pid = 1 if parent is None else parent.stat.parent_pid

    def _add(self, pid: int, grown: list[int]) -> None:
        process = self._processes[pid]
        if self._is_wanted(pid, process.stat):
            for i, value in enumerate(grown):
                process.grown[i] += value
                self._sum[i] += value

    def _is_wanted(self, pid: int, stat: ProcessStat) -> bool:
        if self._filters.pid is not None and pid != self._filters.pid:
            return False
        if self._comm is not None and stat.comm != self._comm:
            return False
        return self._filters.cgroup_id is None or self._is_in_cgroup(pid)

    def _is_in_cgroup(self, pid: int) -> bool:
        """Whether a process is in the requested v2 control group or below it."""
        folders = (read_cgroup(pid, self._root) or "").rstrip("/").split("/")
        paths = ("/".join(folders[:depth]) for depth in range(len(folders), 0, -1))
        return any(self._cgroup_id(path) == self._filters.cgroup_id for path in paths)

    def _cgroup_id(self, path: str) -> int | None:
        """The id of a v2 control group: the inode number of its directory."""
        if path not in self._cgroup_ids and self._cgroup_root is not None:
            try:
                self._cgroup_ids[path] = os.stat(self._cgroup_root + path).st_ino
            except (OSError, ValueError):
                self._cgroup_ids[path] = None
        return self._cgroup_ids.get(path)

    @cached_property
    def _cgroup_root(self) -> str | None:
        """The cgroup2 mount point."""
        mounts = read_mounts(self._root)
        points = [mount.mount_point for mount in mounts if mount.fstype == "cgroup2"]
        return path_under(self._root, points[0].lstrip("/")) if points else None

    def _as_sample(self, unreadable: int, count: int) -> LayerSample:
        notes = (*self._filters.note("pid", "comm", "cgroup"), *_NOTES)
        if unreadable:
            notes += (f"{unreadable} of {count} processes belong to other users: run as root",)
        return LayerSample(
            source="proc",
            ops={
                "read": OpTotals(count_total=self._sum[0], bytes_total=self._sum[1]),
                "write": OpTotals(count_total=self._sum[2], bytes_total=self._sum[3]),
            },
            tables={"process": self._rows()},
            notes=notes,
        )

    def _rows(self) -> dict[tuple[str, ...], Row]:
        names = [column.name for column in self._table.raw_columns]
        rows: dict[tuple[str, ...], Row] = {}
        for pid, process in self._processes.items():
            if any(process.grown):
                known = dict(zip(_COLUMNS, process.grown, strict=True))
                rows[str(pid), process.stat.comm] = tuple(map(known.get, names))
        return rows
