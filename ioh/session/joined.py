"""Several hosts in one file: their recordings one behind the other, a list of them at both ends."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.model.rounds import MAX_HOSTS
from ioh.session.frame import MARKER, Kind, make_frame
from ioh.session.index import Read, frame_at
from ioh.session.packing import Packer, Unpacker
from ioh.session.records import RecordError, decode_plain, encode_plain, to_bytes, to_text

_MAX_NAME_BYTES = 255
_MAX_LIST_BYTES = 4096  # of the record, and before compression
_Size = Annotated[int, Meta(ge=0, lt=1 << 62)]


class _Joined(Struct, array_like=True):
    """Each host's name and the bytes of its recording, in the order in which they lie."""

    hosts: Annotated[
        list[tuple[Annotated[bytes, Meta(max_length=_MAX_NAME_BYTES)], _Size]],
        Meta(max_length=MAX_HOSTS),
    ]


@dataclass(frozen=True, slots=True)
class Member:
    """One host's recording: ``size_bytes`` from ``offset`` on; ``name`` as it comes."""

    name: str
    offset: int
    size_bytes: int


def split_name(path: str) -> tuple[str, str]:
    """``both.ioh#db01``: the file, and the host asked for; "" for none."""
    if "#" not in path or os.path.lexists(path):
        return path, ""
    marks = [at for at, letter in enumerate(path) if letter == "#"]
    at = next((at for at in marks if os.path.lexists(path[:at])), marks[-1])
    return path[:at], path[at + 1 :]


def members_in(fd: int) -> tuple[Member, ...]:
    """The hosts of a joined file; () of any other, and of what allows no seeking."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return ()
    size_bytes = os.fstat(fd).st_size
    read: Read = lambda offset, length: os.pread(fd, length, offset)  # noqa: E731
    if (found := _list_at(read, 0)) is not None:
        listed, at = found
    else:
        begin = max(0, size_bytes - _MAX_LIST_BYTES)
        at_list = read(begin, size_bytes - begin).rfind(MARKER + bytes([Kind.JOINED]))
        found = _list_at(read, begin + at_list) if at_list >= 0 else None
        if found is None:
            return ()
        listed = found[0]
        at = begin + at_list - sum(size for _, size in listed.hosts)
    made = []
    for name, size in listed.hosts:
        if at >= 0:
            made.append(Member(to_text(name), at, min(size, size_bytes - at)))
        at = min(at + size, size_bytes)
    return tuple(made)


def member_of(found: Sequence[Member], host: str, path: str) -> Member | None:
    """The host asked for; None where the file is of one alone, and none was asked for.

    Raises IohError where the host is not in the file, or the file has several.
    """
    names = ", ".join(printable(each.name) for each in found)
    shown = printable(path)
    if not found and not host:
        return None
    for each in found:
        if each.name == host:
            return each
    if host:
        cause = f"no host {printable(host)} in {shown}"
        raise IohError(cause, f"Its hosts: {names}" if names else "It is of one host: leave #… out")
    cause = f"{shown} is of several hosts: {names}"
    hint = f"Give one: {shlex.quote(f'{shown}#{printable(found[0].name)}')}"
    raise IohError(cause, hint, ExitCode.USAGE)


def list_record(hosts: Iterable[tuple[str, int]]) -> bytes:
    """The record at both ends, of each host's name and the size of its recording."""
    listed = _Joined([(to_bytes(name)[:_MAX_NAME_BYTES], size) for name, size in hosts])
    return make_frame(Kind.JOINED, 0, 0.0, Packer().pack(encode_plain(listed)))


def _list_at(read: Read, offset: int) -> tuple[_Joined, int] | None:
    """The list that begins there, and where it ends."""
    frame = frame_at(read, offset)
    if frame is None or frame.kind != Kind.JOINED:
        return None
    try:
        plain = Unpacker().unpack(frame.payload, most_bytes=_MAX_LIST_BYTES)
        return decode_plain(plain, _Joined), frame.end
    except RecordError:
        return None
