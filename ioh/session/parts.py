"""What an earlier endless recording of the same name has left, so that the next one goes on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from dataclasses import dataclass

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.session.frame import MARKER


@dataclass(frozen=True, slots=True)
class Earlier:
    """Files of one name.

    Shape:
        ``names`` of recordings, the oldest first; ``last`` the highest number that is taken, by
        whatever file, 0 for none.
    """

    names: tuple[str, ...] = ()
    last: int = 0


def earlier_parts(path: str) -> Earlier:
    """What is there of an endless recording into ``path``; see part_name().

    Raises:
        IohError: Somebody is recording into one of them.
    """
    folder, base = os.path.split(path)
    stem, extension = os.path.splitext(base)  # noqa: PTH122 (as part_name() does)
    of_part = re.compile(rf"{re.escape(stem)}-([0-9]{{4,9}}){re.escape(extension)}")
    with contextlib.suppress(OSError):  # said when the new one cannot be made there
        names = os.listdir(folder or ".")  # noqa: PTH208
        found = sorted((int(m[1]), m[0]) for name in names if (m := of_part.fullmatch(name)))
        paths = [os.path.join(folder, name) for _, name in found]  # noqa: PTH118
        mine = tuple(path for path in paths if _is_recording(path))
        return Earlier(mine, found[-1][0] if found else 0)
    return Earlier()


def _is_recording(path: str) -> bool:
    """Whether it is one that has ended, if only by being killed before its first record.

    Raises:
        IohError: It is still under way.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or os.read(fd, len(MARKER)) not in {b"", MARKER}:
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        cause = f"somebody is recording into {printable(path)}"
        raise IohError(cause, "Give another name with -o", ExitCode.USAGE) from None
    except OSError:  # some network file systems have no locks
        return True
    finally:
        os.close(fd)
    return True
