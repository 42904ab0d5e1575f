"""``ioh join``: join the recordings of several hosts into one."""

from __future__ import annotations

import argparse

from ioh.commands.output import say, write_stdout
from ioh.commands.sample import recording
from ioh.model.errors import refuse_if
from ioh.model.printable import printable

SUMMARY = "join the recordings of several hosts into one"
EXAMPLES = """\
  ioh join db01.ioh nfs01.ioh                  to ioh-db01-nfs01-DATE.ioh
  ioh join db01.ioh nfs01.ioh -o both.ioh
  ioh replay both.ioh                          both hosts on one screen; H switches
  ioh text both.ioh                            with the network's time in each interval
  ioh report both.ioh#nfs01                    one of its hosts, for all other commands
  ioh verify both.ioh#db01 --repair db01.ioh   one of its hosts as a separate file

The original recordings stay. The hosts' clocks must agree: ioh matches by the recorded times."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", type=recording, help="one recording per host")
    add("-o", dest="output", metavar="NEW", help="the new file (default: named after the hosts)")


def run(args: argparse.Namespace) -> None:
    """Write the new recording."""
    from ioh.recorder.rotated_files import default_names
    from ioh.session.join import Joining

    with Joining() as joining:
        for path in args.files:
            joining.add(path)
        sessions = joining.sessions.values()
        hint = "Give the recording of another host too"
        refuse_if(len(sessions) < 2, "these recordings are all of one host", hint)
        first_s = min(session.start_unix_s for session in sessions)
        made = default_names("-".join(joining.sessions), first_s)
        output = joining.write([args.output] if args.output else made)
        if max(s.start_unix_s for s in sessions) > min(s.end_unix_s for s in sessions):
            say("the recordings do not overlap in time: nothing in them can be matched")
    names = ", ".join(map(printable, joining.sessions))
    write_stdout(f"{printable(output.name)}: {output.size_bytes:,} bytes, {names}\n")
