"""Where a recording's bytes go: a new file that nobody else may read, or a pipe."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.rights.files import create, remove

Name = TypeVar("Name")
Made = TypeVar("Made")

# What passes when somebody makes room.
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoRoomError(IohError):
    """A file cannot be made for want of space, which may pass."""


class NameTakenError(IohError):
    """A recording is never written over another file."""


class LostFileError(OSError):
    """The file under way is not what was written any more: somebody else was at it."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ESTALE, reason)


def first_free(names: Iterable[Name], make: Callable[[Name], Made]) -> Made:
    """What ``make`` makes of the first name that is not taken; NameTakenError where all are."""
    cause = "no name is left for the recording"
    taken = NameTakenError(cause)
    for name in names:
        try:
            return make(name)
        except NameTakenError as error:  # noqa: PERF203 (it is the loop's purpose)
            taken = error
    raise taken


class Output:
    """Where whole batches of records go: the caller's descriptor, only to be written on."""

    def __init__(self, fd: int, name: str = "-") -> None:
        self._fd, self.name = fd, name
        self.size_bytes = 0  # written so far

    def write(self, data: bytes) -> None:
        """Write all of ``data``, or nothing of it where that is possible.

        Raises OSError where it did not get there: FULL_ERRNOS may pass, other failures of a file
        are a reason for another one, and BrokenPipeError is that the reader went away.  Raises
        IohError where nothing more can be written: what is half in a pipe cannot be taken back.
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
        """Nothing more will be written."""


class SeekableOutput(Output):
    """An empty file's descriptor, its own now; what cannot be written whole is cut off again."""

    _is_ragged = False  # part of a batch may lie behind the last whole one

    def write(self, data: bytes) -> None:
        """Write all of ``data``; on failure cut the file back to the last whole batch."""
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
        """Bytes from an offset on, of a descriptor that can be read, too."""
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        """Give the lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileOutput(SeekableOutput):
    """A new file: mode 0600, never one that exists, never through a symbolic link, locked.

    The lock is held until close() or the end of the process, so that a reader who follows the file
    can see whether a recording is in progress or was killed.  Before each write it looks whether
    the file is still there, and as it was left.  ``option`` is where the user can say another path.
    Raises NameTakenError, NoRoomError or another IohError.
    """

    def __init__(self, path: str, *, option: str = "-o") -> None:
        try:
            fd = create(path)
        except FileExistsError:
            cause = f"{printable(path)} exists, and a recording is never written over"
            hint = f"Give another name with {option}"
            raise NameTakenError(cause, hint, ExitCode.USAGE) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            cause = f"cannot make {printable(path)}: {reason}"
            is_full = isinstance(error, OSError) and error.errno in FULL_ERRNOS
            kind = NoRoomError if is_full else IohError
            raise kind(cause, f"Give another place with {option}") from None
        super().__init__(fd, path)
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, data: bytes) -> None:
        """As of any file; LostFileError where it was deleted, replaced or changed."""
        if reason := self._lost_why():
            raise LostFileError(reason)
        super().write(data)

    def close(self) -> None:
        """Give the lock back; a file that nothing was written into is not left behind."""
        with contextlib.suppress(OSError):
            if self._fd >= 0 and not self.size_bytes and not self._lost_why():
                remove(self.name)
        super().close()

    def _lost_why(self) -> str:
        """What somebody else did to the file; "" where it is as it was left.

        A file that was only moved is whole and grows on, unless it is one that NFS keeps under such
        a name until it is closed, since it was deleted.
        """
        now = os.fstat(self._fd)
        if now.st_nlink == 0:
            return "it was deleted"
        if now.st_size != self.size_bytes and not self._is_ragged:
            return "it was cut off" if now.st_size < self.size_bytes else "others write to it"
        try:
            there = os.stat(self.name, follow_symlinks=False)  # noqa: PTH116
        except FileNotFoundError:
            moved_to = os.path.basename(os.readlink(f"/proc/self/fd/{self._fd}"))  # noqa: PTH115, PTH119
            return "it was deleted" if moved_to.startswith(".nfs") else ""
        except OSError:  # out of reach since root was given away
            return ""
        is_same = (there.st_dev, there.st_ino) == (now.st_dev, now.st_ino)
        return "" if is_same else "another file took its name"
