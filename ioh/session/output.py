"""Where a recording is written: a new file that only its owner may read, or a pipe."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.rights.files import create, remove

Name = TypeVar("Name")
Made = TypeVar("Made")

# Errors that pass when somebody frees space.
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoRoomError(IohError):
    """A file cannot be created because the disk is full, which may pass."""


class NameTakenError(IohError):
    """The file exists; a recording never overwrites one."""


class LostFileError(OSError):
    """Somebody else changed or removed the file being written."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ESTALE, reason)


def first_free(names: Iterable[Name], make: Callable[[Name], Made]) -> Made:
    """Call ``make`` with each name until one is free; NameTakenError if none is."""
    cause = "no name is left for the recording"
    refusal = NameTakenError(cause)
    for name in names:
        try:
            return make(name)
        except NameTakenError as error:  # noqa: PERF203 (it is the loop's purpose)
            refusal = error
    raise refusal


def part_of_name(name: str, path: str) -> int | None:
    """The number of the part of ``path`` that has this name; None if it is not one."""
    stem, extension = map(re.escape, os.path.splitext(path))  # noqa: PTH122
    match = re.fullmatch(rf"{stem}-([0-9]{{4,9}}){extension}", name)
    return int(match[1]) if match else None


class Output:
    """Writes batches of records to the caller's descriptor, which stays open."""

    def __init__(self, fd: int, name: str = "-") -> None:
        self._fd, self.name = fd, name
        self.size_bytes = 0  # written so far

    def write(self, data: bytes) -> None:
        """Write all of ``data``, or none of it where that is possible.

        Raises OSError if it was not written: FULL_ERRNOS may pass, after other failures a new file
        may help, BrokenPipeError means that the reader is gone.  Raises IohError if nothing more
        can be written: a partial write to a pipe cannot be undone.
        """
        try:
            self._write_all(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            cause = f"cannot write the recording to stdout: {error.strerror}"
            raise IohError(cause, "Free some space, or write elsewhere") from error

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self.size_bytes += len(data)

    def close(self) -> None:
        """Release what the output owns."""


class SeekableOutput(Output):
    """Owns an empty file's descriptor; truncates the file after a partial write."""

    _is_ragged = False  # a partial batch may follow the last whole one

    def write(self, data: bytes) -> None:
        """Write all of ``data``; on failure truncate the file to the last whole batch."""
        try:
            self._write_all(data)
        except OSError:
            self._is_ragged = True
            with contextlib.suppress(OSError):
                os.lseek(self._fd, self.size_bytes, os.SEEK_SET)
                os.ftruncate(self._fd, self.size_bytes)
                self._is_ragged = False
            raise

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from an offset on; the descriptor must be readable."""
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        """Close the file, which releases its lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileOutput(SeekableOutput):
    """A new, locked file of mode 0600; never an existing one or a symbolic link.

    The lock is held until close() or the end of the process: it shows readers whether a recording
    is in progress or was killed.  Before each write the file is checked for changes by others.
    ``option`` is the command's option for the path.  Raises NameTakenError, NoRoomError or another
    IohError.
    """

    def __init__(self, path: str, *, option: str = "-o") -> None:
        try:
            fd = create(path)
        except FileExistsError:
            cause = f"{printable(path)} exists, and ioh does not overwrite files"
            hint = f"Give another name with {option}"
            raise NameTakenError(cause, hint, ExitCode.USAGE) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            cause = f"cannot create {printable(path)}: {reason}"
            is_full = isinstance(error, OSError) and error.errno in FULL_ERRNOS
            kind = NoRoomError if is_full else IohError
            is_helper = isinstance(error, ConnectionError)  # see ioh.rights.files
            hint = "Start it again" if is_helper else f"Give another place with {option}"
            raise kind(cause, hint) from None
        super().__init__(fd, path)
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, data: bytes) -> None:
        """Write as any file does; LostFileError if it was deleted, replaced or changed."""
        if reason := self._lost_why():
            raise LostFileError(reason)
        super().write(data)

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        with contextlib.suppress(OSError):
            if self._fd >= 0 and not self.size_bytes and not self._lost_why():
                remove(self.name)
        super().close()

    def _lost_why(self) -> str:
        """What somebody else did to the file; "" if nothing.

        A file that was only moved is fine and keeps growing, unless NFS renamed it to .nfs* because
        it was deleted while open.
        """
        now = os.fstat(self._fd)
        if now.st_nlink == 0:
            return "it was deleted"
        if now.st_size != self.size_bytes and not self._is_ragged:
            is_shorter = now.st_size < self.size_bytes
            return "it was truncated" if is_shorter else "another process writes to it"
        try:
            there = os.stat(self.name, follow_symlinks=False)  # noqa: PTH116
        except FileNotFoundError:
            moved_to = os.path.basename(os.readlink(f"/proc/self/fd/{self._fd}"))  # noqa: PTH115, PTH119
            return "it was deleted" if moved_to.startswith(".nfs") else ""
        except OSError:  # out of reach after root was given up
            return ""
        is_same = (there.st_dev, there.st_ino) == (now.st_dev, now.st_ino)
        return "" if is_same else "another file has its name"
