"""Options about databases: a login, and which programs' functions are watched."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.pg.login import Login

if TYPE_CHECKING:
    from ioh.bpf.server_files import Server

DATABASE_OPTIONS = ("pg", "pg_parameters", "functions", "function", "db_all")


def add_database_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is seen of databases."""
    group = parser.add_argument_group("databases")
    group.add_argument(
        "--pg",
        metavar="DSN",
        help="log in to PostgreSQL, read-only, and show its statements, sessions and waits:"
        " service=NAME, or what else psql takes (others see it in the list of processes)",
    )
    group.add_argument(
        "--pg-parameters",
        action="store_true",
        help="show statements with their strings and numbers instead of ?",
    )
    group.add_argument(
        "--function",
        metavar="OP=PROGRAM:FUNCTION",
        action="append",
        default=[],
        help="count the calls of a function of any program, and how long they take, as"
        " operation OP of layer db; can be given more than once",
    )
    group.add_argument(
        "--functions",
        metavar="FILE",
        action="append",
        default=[],
        help="the same from a file, as those in ioh/data/servers are; sqlite: of all programs"
        " that use the system's SQLite",
    )
    group.add_argument(
        "--db-all",
        action="store_true",
        help="count what happens for each row, buffer or light-weight lock, too, which costs more",
    )


def databases_from(args: argparse.Namespace) -> Login | None:
    """Watch the servers and functions asked for; the login asked for.

    Call it before the probes' loader is started.

    Raises:
        IohError: Part of it is missing, or there is no such program or function.
    """
    if args.pg is None and args.pg_parameters:
        cause = "--pg-parameters needs --pg"
        raise IohError(cause, "Give --pg DSN too", ExitCode.USAGE)
    if args.function or args.functions or args.db_all:
        _watch(args)
    return None if args.pg is None else Login(args.pg, args.pg_parameters)


def _watch(args: argparse.Namespace) -> None:
    from ioh.bpf.server_files import parse_function, read_servers
    from ioh.layers.db import Db

    named = [parse_function(text) for text in args.function]
    for server in named:
        _check(server, server.binaries)
    Db.configure((*read_servers(args.functions, dear=args.db_all), *named))


def _check(server: Server, paths: Iterable[str]) -> None:
    """Whoever names a program may read it, and it has what he names.

    Raises:
        IohError: Not so.
    """
    from ioh.bpf.sites import find_sites

    for path in paths:
        hint = "nm -D PROGRAM and nm PROGRAM list the functions that can be named"
        try:
            with Path(path).open("rb") as file:
                missing = find_sites(file, server, os.uname().machine).missing
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            cause = f"{printable(path)} cannot be watched: {why}"
            raise IohError(cause, hint, ExitCode.USAGE) from error
        if missing:
            raise IohError(printable(missing[0]), hint, ExitCode.USAGE)
