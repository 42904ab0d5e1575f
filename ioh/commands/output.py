"""Writes data to stdout past every buffer, so that nothing is left to fail at shutdown."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from ioh.model.errors import IohError


class ReaderGoneError(Exception):
    """Whoever read stdout went away (``ioh text | head``): no fault, but the end."""


def write_stdout(text: str) -> None:
    """Write all of ``text``; a letter that the locale lacks becomes an escape.

    Raises:
        ReaderGoneError: The reader of the pipe went away.
        IohError: It cannot be written, such as on a full disk.
    """
    fd = sys.stdout.fileno()
    view = memoryview(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
    with _failures_named():
        while view:
            view = view[os.write(fd, view) :]


def flush_stdout() -> None:
    """Write what ``print`` and argparse left in the buffer.

    Raises:
        ReaderGoneError: The reader of the pipe went away.
        IohError: It cannot be written, such as on a full disk.
    """
    try:
        with _failures_named():
            sys.stdout.flush()
    except (ReaderGoneError, IohError):
        # The interpreter flushes once more at shutdown; let that go nowhere.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def forget_unread_stderr() -> None:
    """Let what stderr did not take go nowhere: its terminal may be gone, or its disk full.

    The interpreter flushes once more at shutdown, and would end with status 120 for that.
    """
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def fill_standard_streams() -> None:
    """Put /dev/null where stdin, stdout or stderr is closed, so that no other file takes its place.

    The interpreter has None for such a stream, and whatever is opened next gets its number.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 (of os)
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


@contextlib.contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None
    except OSError as error:
        cause = f"cannot write the output: {error.strerror}"
        raise IohError(cause, "Make room, or send it elsewhere") from None
