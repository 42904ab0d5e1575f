"""Reads what /proc tells of each process: its name, command line, and bytes read and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ioh.model.printable import printable
from ioh.procfs.files import ROOT, int_or_none, path_under, read_bytes, read_text

# Of /proc/PID/stat, counted after the name: ppid is field 4, starttime field 22.
_PARENT_FIELD = 1
_START_FIELD = 19
_MAX_CMDLINE_CHARS = 1024
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of linux/proc_ns.h


class ProcessIo(NamedTuple):
    """What one process asked for by read and write calls since it started.

    Units:
        Calls and bytes, of all its threads and of the children that it waited for: the kernel
        adds a child's totals to the process that reaps it.  ``read_*`` and ``write_*`` count
        calls of the read and write family on anything: files, pipes, terminals, sockets; not
        recv and send, not mmap, libaio or io_uring.  ``storage_*`` is what the process caused
        to be fetched from or sent to storage; a write when it made the page dirty.

    Source:
        /proc/PID/io: rchar, syscr, wchar, syscw, read_bytes, write_bytes.
    """

    reads_total: int
    read_bytes_total: int
    writes_total: int
    write_bytes_total: int
    storage_read_bytes_total: int
    storage_write_bytes_total: int


class ProcessStat(NamedTuple):
    """Who a process is: printable name, parent, start in ticks after boot (tells pids reused)."""

    comm: str
    parent_pid: int
    start_ticks: int


def are_pids_the_kernels(root: Path = ROOT) -> bool:
    """Whether a process has the same id here and for the kernel: not within a container."""
    try:
        found = os.stat(path_under(root, "proc/self/ns/pid")).st_ino  # noqa: PTH116
    except OSError:
        return True
    return found == _INITIAL_PID_NAMESPACE


def parse_process_io(text: str) -> ProcessIo | None:
    """Parse /proc/PID/io; None when one of its numbers is missing."""
    numbers: dict[str, int] = {}
    for line in text.split("\n"):
        name, colon, word = line.partition(":")
        number = int_or_none(word) if colon else None
        if number is not None:
            numbers[name] = number
    try:
        return ProcessIo(
            numbers["syscr"],
            numbers["rchar"],
            numbers["syscw"],
            numbers["wchar"],
            numbers["read_bytes"],
            numbers["write_bytes"],
        )
    except KeyError:
        return None


def parse_process_stat(text: str) -> ProcessStat | None:
    """Parse /proc/PID/stat; the name may hold blanks and brackets, so its end is the last one."""
    head, bracket, rest = text.rpartition(")")
    _, opening, comm = head.partition("(")
    fields = rest.split()
    if not bracket or not opening or len(fields) <= _START_FIELD:
        return None
    parent_pid = int_or_none(fields[_PARENT_FIELD])
    start_ticks = int_or_none(fields[_START_FIELD])
    if parent_pid is None or start_ticks is None:
        return None
    return ProcessStat(printable(comm), parent_pid, start_ticks)


def parse_cmdline(data: bytes) -> str | None:
    """A command line as one printable string; None for a kernel thread, which has none."""
    words = data.rstrip(b"\0").split(b"\0")
    return printable(b" ".join(words), _MAX_CMDLINE_CHARS) or None


def parse_cgroup(text: str) -> str | None:
    """Path of the v2 control group in /proc/PID/cgroup (the line ``0::``), else None."""
    for line in text.split("\n"):
        if line.startswith("0::/"):
            return line[3:]
    return None


def list_pids(root: Path = ROOT) -> list[int]:
    """Processes in /proc; with hidepid only one's own.  Empty when /proc cannot be listed."""
    try:
        names = os.listdir(path_under(root, "proc"))  # noqa: PTH208
    except OSError:
        return []
    return [int(name) for name in names if name.isascii() and name.isdecimal()]


def read_comm(pid: int, root: Path = ROOT) -> str | None:
    """The process' name, printable, at most 15 bytes; None when it is gone."""
    data = read_bytes(path_under(root, f"proc/{pid}/comm"))
    return None if data is None else printable(data.removesuffix(b"\n"))


def read_cmdline(pid: int, root: Path = ROOT) -> str | None:
    """The command line, printable; None for kernel threads and processes that are gone."""
    data = read_bytes(path_under(root, f"proc/{pid}/cmdline"))
    return None if data is None else parse_cmdline(data)


def read_process_io(pid: int, root: Path = ROOT) -> ProcessIo | None:
    """Totals of a process; None when it is gone, or another user's and we are not root."""
    text = read_text(path_under(root, f"proc/{pid}/io"))
    return None if text is None else parse_process_io(text)


def read_process_stat(pid: int, root: Path = ROOT) -> ProcessStat | None:
    """Name and start of a process; None when it is gone."""
    text = read_text(path_under(root, f"proc/{pid}/stat"))
    return None if text is None else parse_process_stat(text)


def read_cgroup(pid: int, root: Path = ROOT) -> str | None:
    """Path of the process' v2 control group below the cgroup2 mount; None when unknown."""
    text = read_text(path_under(root, f"proc/{pid}/cgroup"))
    return None if text is None else parse_cgroup(text)


def read_all_io(root: Path = ROOT) -> tuple[dict[int, ProcessIo], int]:
    """Totals of every process that may be read, and the number of those that may not.

    A process that ends while it is read counts as neither.
    """
    totals: dict[int, ProcessIo] = {}
    unreadable = 0
    for pid in list_pids(root):
        io = read_process_io(pid, root)
        if io is not None:
            totals[pid] = io
        elif os.path.exists(path_under(root, f"proc/{pid}")):  # noqa: PTH110
            unreadable += 1
    return totals, unreadable
