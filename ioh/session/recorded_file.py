"""The bytes of one recording: a whole file, or one host's part of a joined file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.model.rounds import MAX_HOSTS
from ioh.session.frame import MARKER, Kind
from ioh.session.index import frame_at
from ioh.session.output import part_of_name
from ioh.session.packing import Unpacker
from ioh.session.records import RecordError, decode_plain, to_text

STDIN = "stdin"  # its name in error messages
_PIECE_BYTES = 1 << 18
MAX_HOST_BYTES = 255
_MAX_LIST_BYTES = 4096  # of the record, and of its unpacked payload
_Name = Annotated[bytes, Meta(max_length=MAX_HOST_BYTES)]
_Size = Annotated[int, Meta(ge=0, lt=1 << 62)]


class HostList(Struct, array_like=True):
    """Each host's name and the size of its recording, in the order of the file."""

    hosts: Annotated[list[tuple[_Name, _Size]], Meta(max_length=MAX_HOSTS)]


Member = tuple[int, int]  # one host's recording: its offset and its size in bytes


def split_name(path: str) -> tuple[str, str]:
    """Split ``both.ioh#db01`` into file and host; the host is "" if none is given."""
    if "#" not in path or os.path.lexists(path):
        return path, ""
    marks = [at for at, letter in enumerate(path) if letter == "#"]
    at = next((at for at in marks if os.path.lexists(path[:at])), marks[-1])
    return path[:at], path[at + 1 :]


def hosts_of(path: str) -> tuple[str, ...]:
    """The hosts of a joined file, in its order; () of anything else."""
    try:
        if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return ()
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return tuple(_members_in(file.fileno()))
    except (OSError, ValueError):  # reported when it is read
        return ()


def _members_in(fd: int) -> dict[str, Member]:
    """The hosts of a joined file, in its order; none of other files and pipes."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return {}
    size_bytes, sizes_and_place = os.fstat(fd).st_size, _list_at(fd, 0)
    if sizes_and_place is not None:
        sizes, at = sizes_and_place
    else:  # use the copy of the list at the end
        begin = max(0, size_bytes - _MAX_LIST_BYTES)
        at_list = os.pread(fd, _MAX_LIST_BYTES, begin).rfind(MARKER + bytes([Kind.JOINED]))
        sizes_and_place = _list_at(fd, begin + at_list) if at_list >= 0 else None
        sizes = sizes_and_place[0] if sizes_and_place is not None else []
        at = begin + at_list - sum(size for _, size in sizes)
    members: dict[str, Member] = {}
    for name, size in sizes:
        if at >= 0:
            members.setdefault(to_text(name), (at, min(size, size_bytes - at)))
        at = min(at + size, size_bytes)
    return members


def _list_at(fd: int, offset: int) -> tuple[list[tuple[bytes, int]], int] | None:
    """Decode the list at an offset; return it and where it ends."""
    frame = frame_at(lambda at, length: os.pread(fd, length, at), offset)
    if frame is None or frame.kind != Kind.JOINED:
        return None
    try:
        plain = Unpacker().unpack(frame.payload, most_bytes=_MAX_LIST_BYTES)
        return decode_plain(plain, HostList).hosts, frame.end
    except RecordError:
        return None


def _member_of(members: dict[str, Member], host: str, path: str) -> Member | None:
    """The requested host's part; None if the file is of one host, and none was requested.

    Raises IohError if the host is not in the file, or the file has several and none was requested.
    """
    names, name = ", ".join(map(printable, members)), printable(path)
    if host in members or not (members or host):
        return members.get(host)
    if host:
        cause = f"no host {host} in {name}"
        raise IohError(cause, f"Its hosts: {names}" if names else "It has one host: leave #… out")
    cause = f"{name} has several hosts: {names}"
    hint = f"Give one: {shlex.quote(f'{name}#{next(iter(members))}')}"
    raise IohError(cause, hint, ExitCode.USAGE)


def _not_there(path: str) -> IohError:
    if path == "-":
        cause, hint = "this command reads files only, not a pipe", "Save it to a file first"
        return IohError(cause, hint, ExitCode.USAGE)
    cause, hint = f"no recording {printable(path)}", "Make one with: ioh record"
    folder, base = os.path.split(path)
    with contextlib.suppress(OSError, ValueError):
        parts = sorted(n for n in os.listdir(folder or ".") if part_of_name(n, base) is not None)  # noqa: PTH208
        if parts:
            cause += f", but {printable(parts[0])} to {printable(parts[-1])}"
            stem, extension = map(shlex.quote, os.path.splitext(path))  # noqa: PTH122
            files = printable(f"{stem}-*{extension}")
            hint = f"Give one of them, or all: cat {files} | ioh replay -"
    return IohError(cause, hint, ExitCode.USAGE)


def _open(path: str) -> int:
    """Open for reading only; IohError if that fails, or it is a directory."""
    name = printable(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, ValueError) as error:
        raise _not_there(path) from error
    except OSError as error:
        cause = f"cannot open {name}: {error.strerror}"
        hint = "Only its owner may read it" if isinstance(error, PermissionError) else ""
        raise IohError(cause, hint) from None
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        cause = f"{name} is a directory"
        raise IohError(cause, "Give the recording itself", ExitCode.USAGE)
    return fd


def unreadable(path: str, error: OSError) -> IohError:
    """The error to raise if reading fails."""
    cause = f"cannot read {path}: {error.strerror}"
    return IohError(cause, "See the kernel's messages: dmesg")


class RecordedFile(Closing):
    """Reads the bytes of one recording; a context manager.

    ``path`` may be ``FILE#HOST`` of a joined file.  Takes ownership of ``fd``.  Raises IohError if
    the file cannot be opened or read, or the host must be given, or is not in it.
    """

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        file, host = split_name(path) if fd is None else (path, "")
        self._fd = _open(file) if fd is None else fd
        try:
            self._member = _member_of(_members_in(self._fd), host, file)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise unreadable(file, error) from error
            raise

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def seeks(self) -> bool:
        """Whether read() works; a pipe has pieces() only."""
        return stat.S_ISREG(os.fstat(self._fd).st_mode)

    @property
    def size_bytes(self) -> int:
        """The recording's present size."""
        return os.fstat(self._fd).st_size if self._member is None else self._member[1]

    @property
    def is_locked(self) -> bool:
        """Whether another process is recording into this file."""
        if self._member is not None:
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from an offset of the recording on: fewer at its end; IohError on failure."""
        if self._member is not None:
            begin, size_bytes = self._member
            length = max(0, min(length, size_bytes - offset))
            offset += begin
        try:
            return os.pread(self._fd, length, offset)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes in order; IohError if reading fails."""
        rest_bytes = sys.maxsize
        try:
            if self._member is not None:
                begin, rest_bytes = self._member
                os.lseek(self._fd, begin, os.SEEK_SET)
            while piece := os.read(self._fd, min(_PIECE_BYTES, rest_bytes)):
                yield piece
                rest_bytes -= len(piece)
        except OSError as error:
            raise unreadable(self.path, error) from error
