"""Finds processes by the names of their programs, cheaply, and what such a process is called."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.files import ROOT, path_under, read_text
from ioh.procfs.processes import list_pids, read_process_stat

COMM_BYTES = 15
_LOOK_S = 3.0
_LOOKS = 2  # at a new process: a program's name comes with exec, after the fork
_NAME_CHARS = 60


class ServerProcesses:
    """Processes that run one of some programs; of a server's many the first, which forked them.

    Args:
        names: Of programs, as in ``ps -o comm``.
        root: Of /proc.
    """

    def __init__(self, names: Collection[str], root: Path = ROOT) -> None:
        self._names = frozenset(name[:COMM_BYTES] for name in names)
        self._root = root
        self._looks: dict[int, int] = {}
        self._found: frozenset[int] = frozenset()
        self._due_s = 0.0

    def pids(self) -> frozenset[int]:
        """Those that run; what began since is seen within 2 × 3 s."""
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
    """``postgres 15/main``, ``mariadbd 3307``: program, and what tells it from its like.

    Returns:
        None where there is no such process.
    """
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
    """What a server's process says it works on: ``alice shop [local]``, ``checkpointer``.

    Returns:
        None where there is no such process.
    """
    words = _command_line(pid, root)
    if not words:
        return None
    title = " ".join(words)
    _, colon, rest = title.partition(": ")
    if not colon:
        return ""
    _cluster, colon, after = rest.partition(": ")
    told = (after if colon else rest).split()
    is_client = len(told) > 3 or (len(told) == 3 and told[2].startswith("["))
    return printable(" ".join(told[:3] if is_client else told), _NAME_CHARS)


def _options(words: list[str]) -> dict[str, str]:
    """Options with their values, as ``-D x``, ``-Dx`` or ``--datadir=x``."""
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
