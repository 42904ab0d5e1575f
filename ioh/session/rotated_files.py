"""What recordings are called, and what an endless one of the same name has left before."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ioh.model.errors import ExitCode
from ioh.model.printable import printable
from ioh.session.frame import MARKER
from ioh.session.output import FileOutput, NameTakenError

MAX_NAMES = 99  # tried for one second


def default_names(hostname: str, now_unix_s: float) -> Iterator[str]:
    """``ioh-<host>-<local date and time>.ioh``; where that is taken ``…-2.ioh``, ``…-3.ioh``."""
    host = re.sub(r"[^A-Za-z0-9._-]", "_", hostname)[:64].lstrip(".-") or "host"
    stem = f"ioh-{host}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now_unix_s))}"
    yield f"{stem}.ioh"
    yield from (f"{stem}-{number}.ioh" for number in range(2, MAX_NAMES + 1))


def part_name(path: str, part: int) -> str:
    """The name of one file of an endless recording: ``x.ioh`` gives ``x-0001.ioh``."""
    stem, extension = os.path.splitext(path)  # noqa: PTH122
    return f"{stem}-{part:04}{extension}"


def parts_of(path: str, *, is_numbered: bool = False) -> Callable[[int], FileOutput]:
    """What makes the file of each part; the first has the plain name unless that is numbered, too.

    Raises as FileOutput does.
    """
    return lambda part: FileOutput(part_name(path, part) if is_numbered or part > 1 else path)


def part_of_name(name: str, path: str) -> int | None:
    """Which file of an endless recording into ``path`` is called so; None: it is none of them."""
    stem, extension = map(re.escape, os.path.splitext(path))  # noqa: PTH122
    found = re.fullmatch(rf"{stem}-([0-9]{{4,9}}){extension}", name)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class EarlierFiles:
    """Recordings of one name, the oldest first, and the highest number any file has, 0 for none."""

    names: tuple[str, ...] = ()
    last: int = 0


def earlier_files(path: str) -> EarlierFiles:
    """What is there of an endless recording into ``path``.

    Raises NameTakenError where somebody is recording into one of them.
    """
    folder, base = os.path.split(path)
    with contextlib.suppress(OSError):  # said when the new one cannot be made there
        names = os.listdir(folder or ".")  # noqa: PTH208
        found = sorted(
            (part, name) for name in names if (part := part_of_name(name, base)) is not None
        )
        paths = [os.path.join(folder, name) for _, name in found]  # noqa: PTH118
        mine = tuple(path for path in paths if _is_recording(path))
        return EarlierFiles(mine, found[-1][0] if found else 0)
    return EarlierFiles()


def _is_recording(path: str) -> bool:
    """Whether it is one that has ended, if only by being killed before its first record."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        begin = os.read(fd, len(MARKER)) if stat.S_ISREG(os.fstat(fd).st_mode) else None
        if begin not in {b"", MARKER}:
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        cause = f"somebody is recording into {printable(path)}"
        raise NameTakenError(cause, "Give another name with -o", ExitCode.USAGE) from None
    except OSError:  # some network file systems have no locks
        return True
    finally:
        os.close(fd)
    return True
