"""The known servers, which of their functions and probe points form each operation, and files."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO, ClassVar, Literal, NamedTuple

import msgspec

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.rights.user import own_rights

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BUILT_IN = Path(__file__).resolve().parent.parent / "data" / "servers"
_MOST_FILE_BYTES = 1 << 20
_LIBRARY_DIRS = "usr/lib/*-linux-gnu"
_HINT = "docs/layers/db.md describes the file format"

Op = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z_]{0,23}$")]
_EVENT = r"usdt:[\w.-]{1,64}:\w{1,64}|function:[\w.@$:~]{1,256}"
Event = Annotated[str, msgspec.Meta(pattern=f"^({_EVENT})$")]
Name = Annotated[str, msgspec.Meta(pattern=r"^[\w ./+-]{1,255}$")]
Value = Annotated[int, msgspec.Meta(ge=1, lt=0xFFFF_FFFF)]


class Only(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Count only calls with one of ``values``.

    ``argument``: of ``start``, or the return value.  ``variable``: of the program, an int; without
    ``values``, a pointer that is set.
    """

    argument: Annotated[int, msgspec.Meta(ge=1, le=12)] | Literal["", "return"] = ""
    variable: Annotated[str, msgspec.Meta(pattern=r"^\w{0,64}$")] = ""
    values: Annotated[tuple[Value, ...], msgspec.Meta(max_length=4)] = ()

    def __post_init__(self) -> None:
        if bool(self.argument) == bool(self.variable) or (self.argument and not self.values):
            msg = "only needs an argument and values, or a variable"
            raise ValueError(msg)


class ServerProbe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to measure one kind of operation.

    Shape:
        ``start``, ``done``, ``cancel`` and ``drop`` are ``usdt:PROVIDER:NAME`` or
        ``function:SYMBOL``.  Without ``done``, the operation ends when the function of ``start``
        returns.  ``cancel`` ends it as an error, ``drop`` as if it had never started.  With a
        ``cancel``, another start before the end is part of the same operation.  ``bytes``: the
        argument (from 1) that holds its size, or ``return``, or 0 if it has none; ``bytes_at``: of
        which event; ``bytes_is_int``: it has 32 bits, and is negative after an error.  ``key``: the
        argument of ``start`` and ``done`` that identifies the operation, if another thread can end
        it.  ``is_wait``: another probe counts the operation; this one measures the session's wait
        for it.  ``unseen``: why such operations happen without a call that could be counted; while
        ``start`` happens, the op is unknown.  ``dear``: expensive, because it happens for each row,
        buffer or lock.

    Units:
        ``scale``: bytes per unit of the size.
    """

    op: Op
    start: Event | Annotated[tuple[Event, ...], msgspec.Meta(min_length=1, max_length=4)]
    done: Event = ""
    cancel: Event = ""
    drop: tuple[Event, ...] = ()
    bytes: Annotated[int, msgspec.Meta(ge=0, le=12)] | Literal["return"] = 0
    bytes_at: Literal["start", "done"] = "done"
    bytes_is_int: bool = False
    scale: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)] = 1
    only: Only | None = None
    key: Annotated[int, msgspec.Meta(ge=0, le=6)] = 0
    is_wait: bool = False
    unseen: Annotated[str, msgspec.Meta(max_length=200)] = ""
    dear: bool = False

    def __post_init__(self) -> None:
        if self.only and (self.bytes or (self.done and self.only.argument == "return")):
            msg = f"{self.op}: only excludes bytes, and with argument = return also done"
            raise ValueError(msg)
        if self.key and not all(x.startswith("function:") for x in (*self.starts, self.done)):
            msg = f"{self.op}: key needs functions for both start and done"
            raise ValueError(msg)
        if not self.done and (
            not isinstance(self.start, str) or not self.start.startswith("function:")
        ):
            msg = f"{self.op}: a probe point does not return, so it needs done"
            raise ValueError(msg)

    @property
    def starts(self) -> tuple[str, ...]:
        """All events that start it."""
        return (self.start,) if isinstance(self.start, str) else self.start


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of server.

    ``binaries``: program names or full paths.  ``libraries``: file names in the system's library
    directories.  ``owner``: whether a session counts for its ``process`` or for the ``parent`` that
    forked it.
    """

    is_users: ClassVar[bool] = False

    title: Name
    probes: Annotated[tuple[ServerProbe, ...], msgspec.Meta(min_length=1, max_length=64)] = (
        msgspec.field(name="probe")
    )
    binaries: tuple[Name, ...] = ()
    libraries: tuple[Name, ...] = ()
    owner: Literal["process", "parent"] = "process"

    def __post_init__(self) -> None:
        if not (self.binaries or self.libraries):
            msg = "it needs binaries or libraries"
            raise ValueError(msg)


class UsersServer(Server, frozen=True, forbid_unknown_fields=True):
    """One that the user named: only programs that the user can read are measured."""

    is_users: ClassVar[bool] = True


class NamedFile(NamedTuple):
    """A file that a server names by path; while ``file`` is open, no other can get its ``id``."""

    path: str
    id: tuple[int, int]
    server: Server
    file: BinaryIO


def open_named(server: Server) -> list[NamedFile]:
    """Open the programs and libraries that exist, with the present rights; OSError otherwise."""
    paths = {Path(name).resolve() for name in server.binaries if name.startswith("/")}
    for library in server.libraries:
        paths |= {path.resolve() for path in Path("/").glob(f"{_LIBRARY_DIRS}/{library}")}
        paths |= {path.resolve() for path in Path("/usr").glob(f"lib*/{library}")}
    opened = []
    for path in map(str, sorted(paths)):
        with suppress(FileNotFoundError):
            file = open_regular(path)
            opened.append(NamedFile(path, file_id(file.fileno()), server, file))
    return opened


def file_id(fd: int) -> tuple[int, int]:
    """Device and inode of an open file."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def open_regular(path: str, only: tuple[int, int] | None = None) -> BinaryIO:
    """Open a regular file to read, ``only`` this one; nothing else is opened, not even briefly.

    OSError: it is another file, or cannot be opened.
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a regular file", path)
        if only not in {None, file_id(fd)}:
            raise OSError(0, "it was replaced", path)
        try:
            return open(f"/proc/self/fd/{fd}", "rb")
        except OSError as error:
            error.filename = path
            raise
    finally:
        os.close(fd)


def read_servers(paths: Sequence[str] = (), *, dear: bool = False) -> tuple[Server, ...]:
    """The built-in servers, then those of the user's files.

    A built-in library must be requested: many programs use it that nobody thinks of.

    Args:
        paths: The user's files, or names of built-in libraries: ``sqlite``.
        dear: Whether to include expensive probes.

    Raises:
        IohError: A file cannot be read or is invalid.
    """
    with own_rights():  # only root may be able to read a checkout; user files are read as the user
        known = {path.stem: read_server(path) for path in sorted(_BUILT_IN.glob("*.toml"))}
    found = [server for name, server in known.items() if name in paths or not server.libraries]
    found += [read_server(Path(path), UsersServer) for path in paths if path not in known]
    return tuple(
        msgspec.structs.replace(server, probes=probes)
        for server in found
        if (probes := tuple(probe for probe in server.probes if dear or not probe.dear))
    )


def read_server(path: Path, kind: type[Server] = Server) -> Server:
    """Read one file; IohError if it cannot be read or is invalid."""
    name = printable(str(path))
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_FILE_BYTES)
        return msgspec.convert(tomllib.loads(text.decode()), kind)
    except OSError as error:
        cause = f"{name}: {error.strerror}"
    except (ValueError, RecursionError) as error:  # of TOML, UTF-8 and msgspec
        cause = f"{name}: {printable(str(error))}"
    raise IohError(cause, _HINT, ExitCode.USAGE)


def parse_function(text: str) -> Server:
    """Parse ``commit=/opt/app/bin/app:flush_log``: each call of the function is an operation."""
    found = re.fullmatch(r"([a-z_]+)=(/[^:]+):(.+)", text)
    if found is None:
        cause = f"--function {printable(text)!r} is not OP=/PATH/TO/PROGRAM:FUNCTION"
        raise IohError(cause, "Example: commit=/opt/app/bin/app:flush_log", ExitCode.USAGE)
    op, path, symbol = found.groups()
    probe = {"op": op, "start": f"function:{symbol}"}
    program = Path(path)
    table = {"title": program.name, "binaries": [str(program.resolve())], "probe": [probe]}
    try:
        return msgspec.convert(table, UsersServer)
    except ValueError as error:
        cause = f"--function {printable(text)!r}: {printable(str(error))}"
        raise IohError(cause, _HINT, ExitCode.USAGE) from error
