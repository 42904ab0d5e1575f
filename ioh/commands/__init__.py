"""The command line: find the subcommand, run it, turn errors into one line and an exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

from ioh import __version__
from ioh.commands.output import (
    ReaderGoneError,
    fill_standard_streams,
    flush_stdout,
    forget_unread_stderr,
    say,
    write_stdout,
)
from ioh.model.errors import ExitCode, IohError
from ioh.model.limits import lack_behind, require_limits
from ioh.pg.login import hide_passwords
from ioh.rights.user import act_as_caller, forget_foreign_libraries, give_root_up


class Command(NamedTuple):
    """One subcommand; its module defines everything except the name.

    Shape:
        ``summary`` is its line in ``ioh --help``; ``examples`` follow its own help unchanged.
        ``run`` returns the exit status, None for OK.  It raises IohError if the user or the host
        must fix something.
    """

    name: str
    summary: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]


# In the order of ioh --help.
_NAMES = (
    *("live", "text", "json", "serve", "record", "mark", "replay", "report", "compare"),
    *("bench", "bench report", "bench compare", "bench card"),
    *("export", "join", "verify", "explain", "demo", "deploy", "doctor"),
)


def commands(name: str = "") -> list[Command]:
    """Only the subcommand ``name``, which saves 2 MB; all of them if there is no such name."""
    found = []
    for each in (name,) if name in _NAMES else _NAMES:
        made = import_module(f"ioh.commands.{each.replace(' ', '_')}")
        found.append(Command(each, made.SUMMARY, made.EXAMPLES, made.add_arguments, made.run))
    return found


class _Parser(argparse.ArgumentParser):
    """Reports usage errors like all other errors, and writes help like all other output."""

    def error(self, message: str) -> NoReturn:
        raise IohError(message, f"See: {self.prog} --help", ExitCode.USAGE)

    def _print_message(self, message: str, file: object = None) -> None:
        """Print help or the version; a closed pipe or a full disk must not end in a traceback."""
        del file
        write_stdout(message)


_EPILOG = """\
Without a command, ioh runs live with the options of `ioh live`.

exit status:
  0    ended as requested (-t, SIGTERM, SIGHUP, or the reader of the pipe exited)
  1    failed; the reason is on stderr
  2    wrong arguments
  3    this host cannot measure what was requested; the reason is on stderr
  130  interrupted (Ctrl-C)
"""


def build_parser(name: str = "") -> argparse.ArgumentParser:
    """Return the parser for the subcommands in commands(name)."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="ioh",
        formatter_class=raw,
        description="Show one server's I/O as a stack of layers, live.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    version = f"ioh {__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version")
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for command in commands(name):
        sub = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=f"examples:\n{command.examples}",
            formatter_class=raw,
            allow_abbrev=False,
        )
        command.add_arguments(sub)
        sub.set_defaults(command=command)
    return parser


def with_command(argv: Sequence[str]) -> list[str]:
    """Insert ``live`` if the arguments begin with an option; join ``bench report`` and the like."""
    own = {"-h", "--help", "--version"}
    if not argv or (argv[0].startswith("-") and argv[0] not in own):
        return ["live", *argv]
    if (both := " ".join(argv[:2])) in _NAMES:
        return [both, *argv[2:]]
    return list(argv)


def _needs_root(args: argparse.Namespace) -> bool:
    """Whether the command measures this machine or sets a mark; it then drops root itself."""
    looks = {"live", "text", "json", "serve", "record", "doctor"}
    name = args.command.name
    if getattr(args, "hosts", None):  # ssh runs as the caller
        return False
    return name in {"mark", "bench"} or (name in looks and getattr(args, "file", None) is None)


def _unrecognized(command: str, words: Sequence[str]) -> IohError:
    hint = f"See: ioh {command} --help"
    if command == "live" and words[0] in _NAMES:
        hint = f"The command comes first: ioh {words[0]} ..."
    return IohError(f"unrecognized arguments: {' '.join(words)}", hint, ExitCode.USAGE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ioh`` and return its exit status, see ExitCode."""
    fill_standard_streams()
    try:
        try:
            require_limits()
            if argv is None:
                forget_foreign_libraries()
            act_as_caller()
            given = with_command(sys.argv[1:] if argv is None else argv)
            args, unknown = build_parser(given[0]).parse_known_args(given)
            command: Command = args.command
            args.words = given[1:]
            if unknown:
                raise _unrecognized(command.name, unknown)
            if not _needs_root(args):
                give_root_up()
            code = command.run(args) or ExitCode.OK
        except SystemExit as ended:  # argparse, after --help or --version
            code = ended.code if isinstance(ended.code, int) else ExitCode.OK
        flush_stdout()
    except IohError as error:
        say(hide_passwords(str(error)))
        return error.code
    except ReaderGoneError:
        return ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        lack = lack_behind(error)
        if lack is None:
            raise
        say(str(lack.as_error()))
        return ExitCode.FAILED
    finally:
        forget_unread_stderr()
    return code
