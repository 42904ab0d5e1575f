"""Options for databases: a login, and which functions of which programs to watch."""

from __future__ import annotations

import argparse
import errno
import os
from typing import TYPE_CHECKING

from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.pg.login import Login

if TYPE_CHECKING:
    from ioh.commands.arguments import MeasureOptions

_HINT = "List the functions with: nm -D PROGRAM; nm PROGRAM"


def add_database_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument_group("databases").add_argument
    what = (
        "log in to PostgreSQL, read-only, and show its statements, sessions and waits; DSN is"
        " service=NAME or any connection string of psql (other users can see it in ps)"
    )
    add("--pg", metavar="DSN", help=what)
    what = "show the strings and numbers in statements instead of ?"
    add("--pg-parameters", action="store_true", help=what)
    what = (
        "count and time the calls of a function in any program, as operation OP of layer db;"
        " can be given more than once"
    )
    form = "OP=PROGRAM:FUNCTION"
    add("--function", metavar=form, action="append", default=[], help=what)
    what = (
        "the same from a file in the format of ioh/data/servers; sqlite: all programs"
        " that use the system's SQLite"
    )
    add("--functions", metavar="FILE", action="append", default=[], help=what)
    what = "also count events of each row, buffer and lightweight lock, which costs more"
    add("--db-all", action="store_true", help=what)


def databases_from(options: MeasureOptions) -> Login | None:
    """Configure layer db with the requested servers and functions; return the login, if any.

    Call it before the probes' loader starts.  IohError: an option is missing, or there is no such
    program or function.
    """
    is_alone = options.pg is None and options.pg_parameters
    refuse_if(is_alone, "--pg-parameters needs --pg", "Give --pg DSN too")
    if options.function or options.functions or options.db_all:
        _watch(options)
    return None if options.pg is None else Login(options.pg, options.pg_parameters)


def _watch(options: MeasureOptions) -> None:
    from ioh.bpf.server_files import open_named, parse_function, read_servers
    from ioh.bpf.sites import find_sites
    from ioh.layers.db import Db

    named = [parse_function(text) for text in options.function]
    servers = (*read_servers(options.functions, dear=options.db_all), *named)
    files = []
    for server in servers:
        # The caller must be able to read the files; a function of --function must exist.
        path = ", ".join((*server.binaries, *server.libraries))
        try:
            opened = open_named(server)
            if server in named and not opened:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            wanted = [each.file for each in opened if server in named]
            missing = [x for f in wanted for x in find_sites(f, server, os.uname().machine).missing]
        except (OSError, ValueError) as error:
            path = getattr(error, "filename", None) or path
            why = getattr(error, "strerror", None) or str(error)
            cause = f"{path} cannot be watched: {why}"
            raise IohError(cause, _HINT, ExitCode.USAGE) from error
        if missing:
            raise IohError(missing[0], _HINT, ExitCode.USAGE)
        files += opened
    Db.configure(servers, files)
