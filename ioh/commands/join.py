"""``ioh join``: one recording of several hosts' recordings."""

from __future__ import annotations

import argparse

from ioh.commands.output import say, write_stdout
from ioh.commands.sample import recording
from ioh.model.errors import refuse_if
from ioh.model.printable import printable

SUMMARY = "make one recording of the recordings of several hosts"
EXAMPLES = """\
  ioh join db01.ioh nfs01.ioh                  into ioh-db01-nfs01-DATE.ioh
  ioh join db01.ioh nfs01.ioh -o both.ioh
  ioh replay both.ioh                          both hosts on one screen; H switches
  ioh text both.ioh                            with what the network took, in each interval
  ioh report both.ioh#nfs01                    one host of it, for every other command
  ioh verify both.ioh#db01 --repair db01.ioh   one host of it as a file of its own

The recordings stay as they are. Their clocks must agree: ioh goes by the times that each has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", type=recording, help="a recording of each host")
    add("-o", dest="output", metavar="NEW", help="the new file (default: named by the hosts)")


def run(args: argparse.Namespace) -> None:
    """Write the new recording."""
    from ioh.session.join import Joining
    from ioh.session.rotated_files import default_names

    with Joining() as joining:
        for path in args.files:
            joining.add(path)
        sessions = joining.sessions.values()
        hint = "Give the recording of another host too"
        refuse_if(len(sessions) < 2, "that is one host alone", hint)
        first_s = min(session.start_unix_s for session in sessions)
        made = default_names("-".join(joining.sessions), first_s)
        output = joining.write([args.output] if args.output else made)
        if max(s.start_unix_s for s in sessions) > min(s.end_unix_s for s in sessions):
            say("the recordings have no time in common: nothing in them goes together")
    names = ", ".join(map(printable, joining.sessions))
    write_stdout(f"{printable(output.name)}: {output.size_bytes:,} bytes, {names}\n")
