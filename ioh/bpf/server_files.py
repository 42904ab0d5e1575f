"""Which servers there are, and which of their functions and probe points are which operation."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

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
_HINT = "docs/layers/db.md shows what such a file has"

Op = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z_]{0,23}$")]
_EVENT = r"usdt:[\w.-]{1,64}:\w{1,64}|function:[\w.@$:~]{1,256}"
Event = Annotated[str, msgspec.Meta(pattern=f"^({_EVENT})$")]
Name = Annotated[str, msgspec.Meta(pattern=r"^[\w ./+-]{1,255}$")]
Value = Annotated[int, msgspec.Meta(ge=1, le=0xFFFF_FFFF)]


class Only(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls count: those with one of ``values`` as an argument of ``start``, or returned."""

    argument: Annotated[int, msgspec.Meta(ge=1, le=12)] | Literal["return"]
    values: Annotated[tuple[Value, ...], msgspec.Meta(min_length=1, max_length=4)]


class ServerProbe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one kind of operation is seen.

    Shape:
        ``start``, ``done``, ``cancel`` and ``drop`` are ``usdt:PROVIDER:NAME`` or
        ``function:SYMBOL``; without ``done`` it ends where the function of ``start`` returns.
        ``cancel`` ends it as an error, ``drop`` as if it had not been; where there is a ``cancel``,
        what starts meanwhile is a part of it.  ``bytes`` is the number, from 1, of the argument
        that is its size, or ``return``; 0 where it has none; ``bytes_at`` says whose argument,
        ``bytes_is_int`` that it has 32 bits and is negative after an error.  ``key``
        is the argument of ``start`` and ``done`` that says which operation it is, where another
        thread may end it.  ``is_wait``: another probe counts it, this one sees the session wait for
        it.  ``dear`` ones happen for each row, buffer or lock.

    Units:
        ``scale``: bytes in one of the unit of that size.
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
    dear: bool = False

    def __post_init__(self) -> None:
        if self.only and (self.bytes or (self.done and self.only.argument == "return")):
            msg = f"{self.op}: only has no place beside bytes, by what is returned beside done"
            raise ValueError(msg)
        if self.key and not all(x.startswith("function:") for x in (*self.starts, self.done)):
            msg = f"{self.op}: key is an argument of functions, both start and done"
            raise ValueError(msg)
        if not self.done and (
            not isinstance(self.start, str) or not self.start.startswith("function:")
        ):
            msg = f"{self.op}: a probe point does not return: name what ends it as done"
            raise ValueError(msg)

    @property
    def starts(self) -> tuple[str, ...]:
        """All that begin it."""
        return (self.start,) if isinstance(self.start, str) else self.start


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of server.

    ``binaries`` are names of programs, or their whole paths; ``libraries`` names of files in the
    system's directories of libraries.  ``owner``: whose totals a session's are, those of its
    ``process``, or of the ``parent`` that has forked it.
    """

    title: Name
    probes: Annotated[tuple[ServerProbe, ...], msgspec.Meta(min_length=1, max_length=64)] = (
        msgspec.field(name="probe")
    )
    binaries: tuple[Name, ...] = ()
    libraries: tuple[Name, ...] = ()
    owner: Literal["process", "parent"] = "process"

    def __post_init__(self) -> None:
        if not (self.binaries or self.libraries):
            msg = "neither binaries nor libraries are named"
            raise ValueError(msg)


def read_servers(paths: Sequence[str] = (), *, dear: bool = False) -> tuple[Server, ...]:
    """Those that ioh knows, then those of a user's files.

    A library that ioh knows is in many a program that nobody thinks of: it has to be asked for.

    Args:
        paths: Of the user's files, or names of libraries that ioh knows: ``sqlite``.
        dear: Whether what is dear shall be watched, too.

    Raises:
        IohError: A file cannot be read, or is wrong.
    """
    with own_rights():  # a checkout may be root's alone; the user's files are read as the user
        known = {path.stem: read_server(path) for path in sorted(_BUILT_IN.glob("*.toml"))}
    found = [server for name, server in known.items() if name in paths or not server.libraries]
    found += [read_server(Path(path)) for path in paths if path not in known]
    return tuple(
        msgspec.structs.replace(server, probes=probes)
        for server in found
        if (probes := tuple(probe for probe in server.probes if dear or not probe.dear))
    )


def read_server(path: Path) -> Server:
    """One file; an IohError where it cannot be read, or is wrong."""
    name = printable(str(path))
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_FILE_BYTES)
        return msgspec.convert(tomllib.loads(text.decode()), Server)
    except OSError as error:
        cause = f"{name}: {error.strerror}"
    except (ValueError, RecursionError) as error:  # TOML's, UTF-8's and msgspec's own
        cause = f"{name}: {printable(str(error))}"
    raise IohError(cause, _HINT, ExitCode.USAGE)


def parse_function(text: str) -> Server:
    """``commit=/opt/app/bin/app:flush_log``: each call of a function, as an operation."""
    found = re.fullmatch(r"([a-z_]+)=(/[^:]+):(.+)", text)
    if found is None:
        cause = f"--function {printable(text)!r} is not OP=/PATH/TO/PROGRAM:FUNCTION"
        raise IohError(cause, "Such as commit=/opt/app/bin/app:flush_log", ExitCode.USAGE)
    op, path, symbol = found.groups()
    probe = {"op": op, "start": f"function:{symbol}"}
    program = Path(path)
    table = {"title": program.name, "binaries": [str(program.resolve())], "probe": [probe]}
    try:
        return msgspec.convert(table, Server)
    except ValueError as error:
        cause = f"--function {printable(text)!r}: {printable(str(error))}"
        raise IohError(cause, _HINT, ExitCode.USAGE) from error
