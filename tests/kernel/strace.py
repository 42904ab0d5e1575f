"""What strace says that a program called: metadata calls by op and by mount, as ioh counts them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.kernel.rig import run

ABSOLUTE = "(absolute path)"
_CALLS = {
    "open": "open openat openat2 creat open_by_handle_at",
    "stat": "stat lstat fstat newfstatat statx access faccessat faccessat2 readlink readlinkat "
    "statfs fstatfs getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",
    "readdir": "getdents getdents64",
    "unlink": "unlink unlinkat rmdir",
    "rename": "rename renameat renameat2 link linkat symlink symlinkat mkdir mkdirat mknod mknodat",
    "setattr": "chmod fchmod fchmodat chown fchown lchown fchownat truncate ftruncate fallocate "
    "utime utimes futimesat utimensat setxattr lsetxattr fsetxattr removexattr lremovexattr "
    "fremovexattr",
}
_OP_OF = {call: op for op, calls in _CALLS.items() for call in calls.split()}
_LINE = re.compile(r"(\w+)\((.*)\) += (-?\d+)(?:<(.*)>)?")
# The first path of a call, with the folder's descriptor before it if there is one.
_BY_PATH = re.compile(r'(?:(?:\d+|AT_FDCWD)<(.*?)>, )?"((?:[^"\\]|\\.)*)"')
_BY_FILE = re.compile(r"(?:\d+|AT_FDCWD)<(.*?)>(?:, |$)")
# Also by path, such as /proc/self/mounts, which /etc/mtab leads to.
_PSEUDO = re.compile(r"/(proc|sys|dev(?!/shm)|memfd:.*)(/|$)")


@dataclass
class Truth:
    """Calls by op, and by the volume or ABSOLUTE; ``create`` are opens that made a file."""

    ops: Counter[str] = field(default_factory=Counter)
    mounts: Counter[str] = field(default_factory=Counter)


def traced(log: Path, volume: Path, *command: str | Path) -> Truth:
    """Run a program in a volume's folder; what it, its threads and its children called.

    Raises:
        AssertionError: the program failed, or strace says something that is not understood.
    """
    calls = ",".join(f"?{name}" for name in _OP_OF)
    options = f"-ff -y -s 4096 -e trace={calls} -e signal=none -o {log}".split()
    there = {str(path) for path in volume.rglob("*")}
    run("env", "-C", volume, "LC_ALL=C", f"HOME={log.parent}", "strace", *options, *command)
    truth, made = Truth(), set[str]()
    for path in log.parent.glob(f"{log.name}.*"):
        for name, arguments, result, opened in _lines(path):
            op, place = _OP_OF[name], _place(name, arguments, opened, volume)
            if not place:
                continue
            if op == "open" and result >= 0 and (name == "creat" or "O_CREAT" in arguments):
                is_new = "O_EXCL" in arguments or opened not in there | made
                op = "create" if is_new else op
                made.add(opened)
            truth.ops[op] += 1
            if place == ABSOLUTE or _is_on(volume, place):
                truth.mounts[str(volume) if place != ABSOLUTE else ABSOLUTE] += 1
        path.unlink()
    return truth


def _is_on(volume: Path, place: str) -> bool:
    return Path(place).is_relative_to(volume)


def _lines(path: Path) -> Iterator[tuple[str, str, int, str]]:
    """Call, arguments, result, and the path of the descriptor that it returned."""
    for line in path.read_text().splitlines():
        if not line.startswith("+++"):
            found = _LINE.match(line)
            assert found, line
            yield found[1], found[2], int(found[3]), found[4] or ""


def _place(name: str, arguments: str, opened: str, cwd: Path) -> str:
    """Where the call was: a path, ABSOLUTE, or "" if it does not count.

    strace does not tell the current folder of calls without one, such as unlink(): programs here do
    not leave the volume.
    """
    if name in {"symlink", "symlinkat"}:
        arguments = arguments.partition('", ')[2]
    path = _BY_PATH.match(arguments)
    if path and path[2].startswith("/"):
        place = "" if _PSEUDO.match(path[2]) else opened or ABSOLUTE
    elif opened:
        place = opened
    else:
        file = path or _BY_FILE.match(arguments)
        assert file, (name, arguments)
        place = file[1] or str(cwd)
    is_counted = place == ABSOLUTE or (place.startswith("/") and not _PSEUDO.match(place))
    return place if is_counted else ""
