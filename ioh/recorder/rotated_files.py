"""Names of recordings and of their parts, and the parts left by an earlier recording."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ioh.model.errors import ExitCode
from ioh.model.printable import printable
from ioh.rights.files import dated_names
from ioh.session.frame import MARKER
from ioh.session.output import FileOutput, NameTakenError, part_of_name


def default_names(hostname: str, now_unix_s: float) -> Iterator[str]:
    """Names for a recording, the preferred one first."""
    return dated_names(hostname, now_unix_s, "ioh")


def part_name(path: str, part: int) -> str:
    """The file name of a part: ``x.ioh`` gives ``x-0001.ioh``."""
    stem, extension = os.path.splitext(path)  # noqa: PTH122
    return f"{stem}-{part:04}{extension}"


def parts_of(path: str, *, is_numbered: bool = False) -> Callable[[int], FileOutput]:
    """Return a function that creates a part's file; the first is numbered only on request.

    It raises as FileOutput does.
    """
    return lambda part: FileOutput(part_name(path, part) if is_numbered or part > 1 else path)


@dataclass(frozen=True, slots=True)
class EarlierFiles:
    """The parts of one name, the oldest first, and the highest number of any file, or 0."""

    names: tuple[str, ...] = ()
    last: int = 0


def earlier_files(path: str) -> EarlierFiles:
    """Find the parts of an earlier recording into ``path``.

    Raises NameTakenError if one of them is being recorded.
    """
    folder, base = os.path.split(path)
    with contextlib.suppress(OSError):  # reported when the new file cannot be created
        names = os.listdir(folder or ".")  # noqa: PTH208
        parts = sorted(
            (part, name) for name in names if (part := part_of_name(name, base)) is not None
        )
        paths = [os.path.join(folder, name) for _, name in parts]  # noqa: PTH118
        mine = tuple(path for path in paths if _is_recording(path))
        return EarlierFiles(mine, parts[-1][0] if parts else 0)
    return EarlierFiles()


def _is_recording(path: str) -> bool:
    """Whether a file is a recording that has ended, or was killed before its first record."""
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
        cause = f"another process is recording into {printable(path)}"
        raise NameTakenError(cause, "Give another name with -o", ExitCode.USAGE) from None
    except OSError:  # some network file systems have no locks
        return True
    finally:
        os.close(fd)
    return True
