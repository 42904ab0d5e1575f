"""Finds FUSE daemons among the processes that do I/O: what they do for others counts twice."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

from ioh.layers.flows import FlowTables
from ioh.model.file_systems import served_elsewhere
from ioh.procfs.files import path_under

_DEVICE = "/dev/fuse"
_MOST_FILES = 1024  # of a process; a daemon opens the device early
_LOOKS = 16  # processes per tick
_TICKS = 30  # the note stays so long, and a process is looked at again
_NAMES = 3
_NOTE = (
    "includes the calls of FUSE daemons ({}): a program's call on their file systems counts twice, "
    "for the program and for the daemon"
)


class FuseDaemons:
    """Looks at each process once, while a FUSE file system is mounted."""

    def __init__(self, root: Path, *, sees_pids: bool) -> None:
        self._root, self._sees_pids = root, sees_pids
        self._is_daemon: dict[int, tuple[bool, int]] = {}  # by pid: and when it was looked at
        self._last: dict[str, int] = {}  # by name: its last tick with I/O
        self._tick = 0

    def notes(self, flows: FlowTables) -> tuple[str, ...]:
        """The note, if a daemon did something lately."""
        self._tick += 1
        if not self._sees_pids or not any(
            served_elsewhere(mount.fstype) == "fuse" for mount in flows.mounts.mounts
        ):
            return ()
        known, at_work = self._is_daemon, flows.at_work
        due = (p for p in at_work if p not in known or self._tick - known[p][1] > _TICKS)
        for pid in list(islice(due, _LOOKS)):
            known[pid] = self._has_device(pid), self._tick
        for pid in at_work:
            if known.get(pid, (False,))[0]:
                self._last[flows.process(pid)[1]] = self._tick
        names = sorted(name for name, tick in self._last.items() if self._tick - tick <= _TICKS)
        if len(known) > _MOST_FILES:
            known.clear()
        shown = ", ".join(names[:_NAMES]) + (" and others" if len(names) > _NAMES else "")
        return (_NOTE.format(shown),) if names else ()

    def _has_device(self, pid: int) -> bool:
        folder = Path(path_under(self._root, f"proc/{pid}/fd"))
        with suppress(OSError):  # it has ended
            for file in islice(folder.iterdir(), _MOST_FILES):
                with suppress(OSError):  # closed meanwhile
                    if str(file.readlink()) == _DEVICE:
                        return True
        return False
