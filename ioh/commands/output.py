"""Unbuffered output to stdout and stderr, so that nothing can fail later at exit."""

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
    """The reader of stdout has exited (``ioh text | head``); a normal end, not an error."""


def write_stdout(data: str | bytes) -> None:
    """Write all of ``data``; characters that the locale lacks are escaped.

    ReaderGoneError: the reader of the pipe has exited.  IohError: cannot write, as on a full disk.
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
    """Redirect stdout to a new file; None does nothing.

    The file is removed if the block fails.  IohError: it exists, or cannot be created.
    """
    if path is None:
        yield
        return
    try:
        fd = create(path)
    except FileExistsError:
        cause = f"{path} exists, and ioh does not overwrite it"
        raise IohError(cause, "Give another name with -o", ExitCode.USAGE) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        cause = f"cannot create {path}: {reason}"
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
    """Write what is in Python's buffer; errors as for write_stdout()."""
    try:
        with _failures_named():
            sys.stdout.flush()
    except (ReaderGoneError, IohError):
        _forget(sys.stdout)
        raise


def agrees(question: str) -> bool:
    """Ask on stdout; return whether the user answers yes."""
    write_stdout(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def say(message: str) -> None:
    """Print one line on stderr; ignore that nobody reads it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"ioh: {printable(message)}\n")
        sys.stderr.flush()


def forget_unread_stderr() -> None:
    """Discard what stderr cannot take: its terminal may be closed, or its disk full."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Point ``stream`` to /dev/null: Python flushes it at exit, and a failure gives status 120."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def fill_standard_streams() -> None:
    """Open /dev/null for a closed stdin, stdout or stderr.

    Otherwise the next file opened gets its number; and Python has None for the stream.
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
