"""Writes data past every buffer, so that nothing is left to fail at shutdown."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.rights.files import create, remove


class ReaderGoneError(Exception):
    """Whoever read stdout went away (``ioh text | head``): no fault, but the end."""


def write_stdout(data: str | bytes) -> None:
    """Write all of ``data``; a letter that the locale lacks becomes an escape.

    ReaderGoneError: the reader of the pipe went away.  IohError: it cannot be written, such as on a
    full disk.
    """
    fd = sys.stdout.fileno()
    if isinstance(data, str):
        data = data.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    view = memoryview(data)
    with _failures_named():
        while view:
            view = view[os.write(fd, view) :]


@contextlib.contextmanager
def stdout_into(path: str | None) -> Iterator[None]:
    """Let what is written to stdout go into a new file instead; None: let it be.

    IohError: the file exists, or cannot be made.  Whatever else fails: none is left behind.
    """
    if path is None:
        yield
        return
    try:
        fd = create(path)
    except FileExistsError:
        cause = f"{printable(path)} exists, and is not written over"
        raise IohError(cause, "Give another name with -o", ExitCode.USAGE) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        cause = f"cannot make {printable(path)}: {reason}"
        raise IohError(cause, "Give another place with -o") from None
    stdout = sys.stdout.fileno()
    kept = os.dup(stdout)
    os.dup2(fd, stdout)
    os.close(fd)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            remove(path)
        raise
    finally:
        os.dup2(kept, stdout)
        os.close(kept)


def flush_stdout() -> None:
    """Write what ``print`` and argparse left in the buffer; errors as of write_stdout()."""
    try:
        with _failures_named():
            sys.stdout.flush()
    except (ReaderGoneError, IohError):
        _forget(sys.stdout)
        raise


def agrees(question: str) -> bool:
    """Whether the user, asked on stdout, says yes."""
    write_stdout(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def say(message: str) -> None:
    """Report to the user in one line on stderr, if that still has a reader."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"ioh: {printable(message)}\n")
        sys.stderr.flush()


def forget_unread_stderr() -> None:
    """Let what stderr did not take go nowhere: its terminal may be gone, or its disk full."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """The interpreter flushes once more when it ends, with status 120 where that fails."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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
        raise IohError(cause, "Free some space, or write elsewhere") from None
