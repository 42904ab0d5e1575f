"""Where a recording's bytes go: a new file that nobody else may read, or a pipe."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from typing import Protocol

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable

# What passes when somebody makes room.
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class NoRoomError(IohError):
    """A file cannot be made for want of space, which may pass."""


class Output(Protocol):
    """Takes whole batches of records.

    Shape:
        ``name`` for people.
    """

    name: str

    @property
    def size_bytes(self) -> int:
        """Written so far."""
        ...

    def write(self, data: bytes) -> None:
        """Write all of ``data``, or nothing of it where that is possible.

        Raises:
            OSError: It did not get there; FULL_ERRNOS may pass.
        """
        ...

    def close(self) -> None:
        """Nothing more will be written."""
        ...


class SeekableOutput:
    """A descriptor of a file that was empty; what could not be written whole is cut off again.

    Args:
        fd: Belongs to the output from now on.
        name: For people.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self.name = name
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Written so far."""
        return self._size_bytes

    def write(self, data: bytes) -> None:
        """Write all of ``data``; on failure cut the file back to the last whole batch.

        Raises:
            OSError: It could not be written.
        """
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size_bytes)
                os.lseek(self._fd, self._size_bytes, os.SEEK_SET)
            raise
        self._size_bytes += len(data)

    def close(self) -> None:
        """Give the lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileOutput(SeekableOutput):
    """A new file: mode 0600, never one that exists, never through a symbolic link, locked.

    The lock is held until close() or the end of the process, so that a reader who follows the
    file can tell a recording under way from one that was killed.

    Args:
        path: The file.
        owner: User and group that it shall belong to; None leaves the process's own.
        directory_fd: What a relative ``path`` is relative to; None: the working directory.
        option: Where the user can say another path, for the hint.

    Raises:
        IohError: It exists, or cannot be made.
    """

    def __init__(
        self,
        path: str,
        owner: tuple[int, int] | None = None,
        directory_fd: int | None = None,
        *,
        option: str = "-o",
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600, dir_fd=directory_fd)
        except FileExistsError:
            cause = f"{printable(path)} exists, and a recording is never written over"
            raise IohError(cause, f"Give another name with {option}", ExitCode.USAGE) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            cause = f"cannot make {printable(path)}: {reason}"
            is_full = isinstance(error, OSError) and error.errno in FULL_ERRNOS
            kind = NoRoomError if is_full else IohError
            raise kind(cause, f"Give another place with {option}") from None
        super().__init__(fd, path)
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(self._fd, 0o600)
        if owner is not None:
            with contextlib.suppress(OSError):  # vfat knows no owners
                os.fchown(self._fd, *owner)


class PipeOutput:
    """A descriptor that can only be written on, such as stdout."""

    def __init__(self, fd: int, name: str = "-") -> None:
        self._fd = fd
        self.name = name
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Written so far."""
        return self._size_bytes

    def write(self, data: bytes) -> None:
        """Write all of ``data``.

        Raises:
            OSError: BrokenPipeError when the reader went away, or another failure.
        """
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._size_bytes += len(data)

    def close(self) -> None:
        """The descriptor belongs to the caller."""
