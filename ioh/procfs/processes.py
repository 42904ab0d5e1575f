"""Reads /proc/PID, and finds servers by their program names."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ioh.model.printable import printable
from ioh.procfs.files import ROOT, path_under, read_bytes, read_numbers, read_text

# /proc/PID/stat; the name can contain blanks and brackets: it ends at the last bracket.
_STAT = re.compile(r"[0-9]+ \((.*)\) \S+ ([0-9]+) (?:\S+ ){17}([0-9]+)", re.DOTALL)
_CGROUP = re.compile(r"^0::(/.*)$", re.MULTILINE)
_IO = frozenset({"syscr:", "rchar:", "syscw:", "wchar:"})
COMM_BYTES = 15
_LOOK_S = 3.0
_LOOKS = 2  # per new process: it gets its program's name with exec, after the fork
_NAME_CHARS = 60
_KTHREADD = "2"  # the parent of all kernel threads
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of linux/proc_ns.h

# Read calls, bytes read, write calls, bytes written: by all threads since the process started, and
# by the children that it waited for.  Calls of the read and write family on files, pipes,
# terminals and sockets; not recv, send, mmap, libaio or io_uring.
Flow = tuple[int, int, int, int]


class ProcessStat(NamedTuple):
    """A process: printable name, parent, start in ticks after boot (pids are reused)."""

    comm: str
    parent_pid: int
    start_ticks: int


def are_pids_the_kernels(root: Path = ROOT) -> bool:
    """Whether process ids here are the kernel's: False in a PID namespace."""
    try:
        found = os.stat(path_under(root, "proc/self/ns/pid")).st_ino
    except OSError:
        return True
    return found == _INITIAL_PID_NAMESPACE


def are_cpu_waits_timed(root: Path = ROOT) -> bool:
    """Whether the kernel measures how long threads wait for a CPU: it counts their turns, too."""
    counts = (read_text(path_under(root, "proc/self/schedstat")) or "").split()
    return len(counts) == 3 and counts[2] != "0"


def list_pids(root: Path = ROOT) -> list[int]:
    """Processes in /proc (with hidepid only the user's); empty if /proc cannot be listed."""
    try:
        names = os.listdir(path_under(root, "proc"))
    except OSError:
        return []
    return [int(name) for name in names if name.isascii() and name.isdecimal()]


def read_comm(pid: int, root: Path = ROOT) -> str | None:
    """The process' printable name, at most 15 bytes; None if it is gone."""
    data = read_bytes(path_under(root, f"proc/{pid}/comm"))
    return None if data is None else printable(data.removesuffix(b"\n"))


def is_uninterruptible(tid: int, root: Path = ROOT) -> bool | None:
    """Whether a thread sleeps so that nothing but its I/O wakes it; None if it is gone."""
    state = thread_state(tid, root)
    return state == "D" if state else None


def thread_state(tid: int, root: Path = ROOT) -> str:
    """The kernel's letter: R runs or waits for a CPU, D as above; "" if the thread is gone."""
    text = read_text(path_under(root, f"proc/{tid}/stat")) or ""
    return text.rpartition(") ")[2][:1]


def read_process_io(pid: int, root: Path = ROOT) -> Flow | None:
    """Totals of a process; None if it is gone or unreadable (another user's, without root).

    psutil is slower for thousands of processes a tick: 11 µs instead of 9, and 52 per new one.
    """
    numbers = read_numbers(path_under(root, f"proc/{pid}/io"), _IO)
    try:
        return numbers["syscr:"], numbers["rchar:"], numbers["syscw:"], numbers["wchar:"]
    except KeyError:
        return None


def read_process_stat(pid: int, root: Path = ROOT) -> ProcessStat | None:
    """Name, parent and start of a process; None if it is gone."""
    found = _STAT.match(read_text(path_under(root, f"proc/{pid}/stat")) or "")
    return found and ProcessStat(printable(found[1]), int(found[2]), int(found[3]))


def read_cpu_ticks(root: Path = ROOT) -> dict[tuple[int, str], tuple[str, int]]:
    """Program name and CPU ticks so far, by process (pid, start); without kernel threads.

    Takes 15 µs for each process in /proc.  With hidepid only the user's processes.  The ticks are
    without those of children that have ended.
    """
    found = {}
    for pid in list_pids(root):
        head, _, rest = (read_text(path_under(root, f"proc/{pid}/stat")) or "").rpartition(") ")
        words = rest.split()
        if len(words) > 19 and _KTHREADD not in {words[1], str(pid)}:
            comm = printable(head.partition(" (")[2])
            found[pid, words[19]] = comm, int(words[11]) + int(words[12])
    return found


def read_run_times(tid: int, root: Path = ROOT) -> tuple[int, int] | None:
    """Nanoseconds that a thread has run, and waited for a CPU; None if it is gone."""
    words = (read_text(path_under(root, f"proc/{tid}/schedstat")) or "").split()
    return (int(words[0]), int(words[1])) if len(words) == 3 else None


def read_cgroup(pid: int, root: Path = ROOT) -> str | None:
    """Path of the process' v2 control group below the cgroup2 mount; None if unknown."""
    found = _CGROUP.search(read_text(path_under(root, f"proc/{pid}/cgroup")) or "")
    return found and found[1]


class ServerProcesses:
    """Processes of these programs (``ps -o comm``); for each server only the first process."""

    def __init__(self, names: Collection[str], root: Path = ROOT) -> None:
        self._names = frozenset(name[:COMM_BYTES] for name in names)
        self._root = root
        self._looks: dict[int, int] = {}
        self._found: frozenset[int] = frozenset()
        self._due_s = 0.0

    def pids(self) -> frozenset[int]:
        """The running ones; a new one appears within 2 × 3 s."""
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _LOOK_S
            self._look()
        return self._found

    def _look(self) -> None:
        before, self._looks = self._looks, {}
        found = set()
        for pid in list_pids(self._root):
            looks = before.get(pid, 0)
            self._looks[pid] = min(looks + 1, _LOOKS)
            is_due = pid in self._found or looks < _LOOKS
            if is_due and self._is_first(pid):
                found.add(pid)
        self._found = frozenset(found)

    def _is_first(self, pid: int) -> bool:
        stat = read_process_stat(pid, self._root)
        if stat is None or stat.comm not in self._names:
            return False
        parent = read_process_stat(stat.parent_pid, self._root)
        return parent is None or parent.comm != stat.comm


def server_name(pid: int, root: Path = ROOT) -> str | None:
    """Program and instance: ``postgres 15/main``, ``mariadbd 3307``; None if it has ended."""
    words = _command_line(pid, root)
    if not words or not words[0]:
        return None
    program = os.path.basename(words[0].split(" ")[0].rstrip(":"))
    given = _options(words)
    folder = given.get("-D") or given.get("--datadir") or ""
    port = given.get("-p") or given.get("--port") or given.get("-P") or ""
    cluster = re.search(r"/([0-9.]+/[^/]+)/?$", folder)
    which = cluster[1] if cluster else port
    return printable(f"{program} {which}".rstrip(), _NAME_CHARS)


def session_name(pid: int, root: Path = ROOT) -> str | None:
    """The session in a server process' title: ``alice shop [local]``, ``checkpointer``.

    "" if the title has none, None if the process is gone.
    """
    words = _command_line(pid, root)
    if not words:
        return None
    title = " ".join(words)
    _, colon, rest = title.partition(": ")
    if not colon:
        return ""
    _cluster, colon, after = rest.partition(": ")
    parts = (after if colon else rest).split()
    is_client = len(parts) > 3 or (len(parts) == 3 and parts[2].startswith("["))
    return printable(" ".join(parts[:3] if is_client else parts), _NAME_CHARS)


def _options(words: list[str]) -> dict[str, str]:
    """Options with their values: ``-D x``, ``-Dx`` or ``--datadir=x``."""
    given: dict[str, str] = {}
    for word, following in zip(words[1:], [*words[2:], ""], strict=False):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            given[name] = value if equals else following
        elif word == "-c":  # PostgreSQL's -c port=5433 is --port=5433
            name, _, value = following.partition("=")
            given[f"--{name}"] = value
        elif word.startswith("-"):
            given[word[:2]] = word[2:] or following
    return given


def _command_line(pid: int, root: Path) -> list[str]:
    text = read_text(path_under(root, f"proc/{pid}/cmdline")) or ""
    return [word for word in text.rstrip("\0 ").split("\0") if word]
