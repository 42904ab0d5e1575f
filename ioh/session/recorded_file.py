"""The bytes of one recording: in a file of its own, or in one that holds several hosts'."""

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
from ioh.session.packing import Unpacker
from ioh.session.records import RecordError, decode_plain, to_text
from ioh.session.rotated_files import part_of_name

STDIN = "stdin"  # what errors call it
_PIECE_BYTES = 1 << 18
MAX_HOST_BYTES = 255
_MAX_LIST_BYTES = 4096  # of the record, and before compression
_Name = Annotated[bytes, Meta(max_length=MAX_HOST_BYTES)]
_Size = Annotated[int, Meta(ge=0, lt=1 << 62)]


class HostList(Struct, array_like=True):
    """Each host's name and the bytes of its recording, in the order in which they lie."""

    hosts: Annotated[list[tuple[_Name, _Size]], Meta(max_length=MAX_HOSTS)]


Member = tuple[int, int]  # one host's recording: where it begins, and its bytes


def split_name(path: str) -> tuple[str, str]:
    """``both.ioh#db01``: the file, and the host asked for; "" for none."""
    if "#" not in path or os.path.lexists(path):
        return path, ""
    marks = [at for at, letter in enumerate(path) if letter == "#"]
    at = next((at for at in marks if os.path.lexists(path[:at])), marks[-1])
    return path[:at], path[at + 1 :]


def hosts_of(path: str) -> tuple[str, ...]:
    """The hosts of a file that holds several, as they come; () of anything else."""
    try:
        if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return ()
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return tuple(_members_in(file.fileno()))
    except (OSError, ValueError):  # said when it is read
        return ()


def _members_in(fd: int) -> dict[str, Member]:
    """The hosts of a joined file, as they come; of any other, and of a pipe, none."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return {}
    size_bytes, found = os.fstat(fd).st_size, _list_at(fd, 0)
    if found is not None:
        sizes, at = found
    else:  # the list at the end leads to the begin, too
        begin = max(0, size_bytes - _MAX_LIST_BYTES)
        at_list = os.pread(fd, _MAX_LIST_BYTES, begin).rfind(MARKER + bytes([Kind.JOINED]))
        found = _list_at(fd, begin + at_list) if at_list >= 0 else None
        sizes = found[0] if found is not None else []
        at = begin + at_list - sum(size for _, size in sizes)
    members: dict[str, Member] = {}
    for name, size in sizes:
        if at >= 0:
            members.setdefault(to_text(name), (at, min(size, size_bytes - at)))
        at = min(at + size, size_bytes)
    return members


def _list_at(fd: int, offset: int) -> tuple[list[tuple[bytes, int]], int] | None:
    """The list that begins there, and where it ends."""
    frame = frame_at(lambda at, length: os.pread(fd, length, at), offset)
    if frame is None or frame.kind != Kind.JOINED:
        return None
    try:
        plain = Unpacker().unpack(frame.payload, most_bytes=_MAX_LIST_BYTES)
        return decode_plain(plain, HostList).hosts, frame.end
    except RecordError:
        return None


def _member_of(found: dict[str, Member], host: str, path: str) -> Member | None:
    """The host asked for; None where the file is of one alone, and none was asked for.

    Raises IohError where the host is not in the file, or the file has several.
    """
    names, shown = ", ".join(map(printable, found)), printable(path)
    if host in found or not (found or host):
        return found.get(host)
    if host:
        cause = f"no host {printable(host)} in {shown}"
        raise IohError(cause, f"Its hosts: {names}" if names else "It is of one host: leave #… out")
    cause = f"{shown} is of several hosts: {names}"
    hint = f"Give one: {shlex.quote(f'{shown}#{printable(next(iter(found)))}')}"
    raise IohError(cause, hint, ExitCode.USAGE)


def _not_there(path: str) -> IohError:
    if path == "-":
        cause, hint = "this reads files only, no pipe", "Save it to a file first"
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
    """A descriptor for reading only; IohError where it cannot be opened, or is a directory."""
    shown = printable(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, ValueError) as error:
        raise _not_there(path) from error
    except OSError as error:
        cause = f"cannot open {shown}: {error.strerror}"
        hint = "It belongs to whoever recorded it" if isinstance(error, PermissionError) else ""
        raise IohError(cause, hint) from None
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        cause = f"{shown} is a directory"
        raise IohError(cause, "Give the recording itself", ExitCode.USAGE)
    return fd


def unreadable(path: str, error: OSError) -> IohError:
    """What to raise where reading fails."""
    cause = f"cannot read {printable(path)}: {error.strerror}"
    return IohError(cause, "See what the kernel says of it with: dmesg")


class RecordedFile(Closing):
    """The bytes of one recording, which are read only; a context manager.

    ``path`` may be ``FILE#HOST`` of a file that holds several hosts; ``fd`` belongs to it from now
    on.  Raises IohError where the file cannot be opened or read, or it is not clear what is meant.
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
        """Whether read() can be used; of a pipe, only pieces()."""
        return stat.S_ISREG(os.fstat(self._fd).st_mode)

    @property
    def size_bytes(self) -> int:
        """How large the recording is now."""
        return os.fstat(self._fd).st_size if self._member is None else self._member[1]

    @property
    def is_locked(self) -> bool:
        """Whether somebody is still recording into this file."""
        if self._member is not None:
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from an offset of the recording on: fewer at its end; IohError where it fails."""
        if self._member is not None:
            begin, size_bytes = self._member
            length = max(0, min(length, size_bytes - offset))
            offset += begin
        try:
            return os.pread(self._fd, length, offset)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in order; IohError where reading fails."""
        left = sys.maxsize
        try:
            if self._member is not None:
                begin, left = self._member
                os.lseek(self._fd, begin, os.SEEK_SET)
            while piece := os.read(self._fd, min(_PIECE_BYTES, left)):
                yield piece
                left -= len(piece)
        except OSError as error:
            raise unreadable(self.path, error) from error
