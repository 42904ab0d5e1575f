"""``ioh compare``: two recordings, or two parts of one, side by side."""

from __future__ import annotations

import argparse

from ioh.commands.arguments import hist_style
from ioh.commands.options import moment
from ioh.commands.output import say, write_stdout
from ioh.commands.sample import recording
from ioh.model.printable import printable
from ioh.sinks.cells import clock

SUMMARY = "compare two recordings, or two parts of one, operation by operation"
EXAMPLES = """\
  ioh compare before.ioh after.ioh
  ioh compare run.ioh run.ioh --from "run 1 starts" --to "run 1 ends" \\
      --from-b "run 2 starts" --to-b "run 2 ends"

"B - A" and "%" are the change from A to B. The parts may differ in length: rates are per
second, histograms per 10,000 operations."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("a", metavar="A", type=recording, help="a recording")
    add("b", metavar="B", type=recording, help="another recording, or the same one")
    group = parser.add_argument_group("which part (as for ioh replay)")
    for option, dest, what in (
        ("--from", "begin", "start of A's part, and of B's unless --from-b is given"),
        ("--to", "end", "end of A's part, and of B's unless --from-b or --to-b is given"),
        ("--from-b", "begin_b", "start of B's part"),
        ("--to-b", "end_b", "end of B's part"),
    ):
        group.add_argument(option, dest=dest, metavar="M", type=moment, help=what)
    add("--all", action="store_true", help="show every kind of operation")
    add("--utc", action="store_true", help="show times in UTC, not local time")


def run(args: argparse.Namespace) -> None:
    """Print the comparison."""
    from ioh.playback.aggregate_interval import read_aggregate
    from ioh.playback.time_range import Span
    from ioh.session.reader import Session
    from ioh.sinks.compare import differences, render_comparison

    style = hist_style()
    begin_b, end_b = args.begin_b, args.end_b
    if begin_b is None:  # with its own start, B must not get A's end, which may lie before it
        begin_b, end_b = args.begin, end_b or args.end
    span_a, span_b = Span(args.begin, args.end, args.utc), Span(begin_b, end_b, args.utc)
    lines, found = [], []
    for label, path, span in (("A", args.a, span_a), ("B", args.b, span_b)):
        with Session(path) as session:
            period = read_aggregate(session, span)
        for note in period.notes:
            say(note)
        snapshot = period.snapshot
        since = clock(period.begin_unix_s, utc=args.utc, with_date=True)
        lines.append(
            f"{label}  {printable(path)}  {printable(snapshot.hostname)}  "
            f"from {since}, {snapshot.interval_s:.0f} s"
        )
        lines += [f"!  {label}: {printable(remark)}" for remark in period.remarks]
        found.append(snapshot)
    lines += [f"!  {text}" for text in differences(*found)]
    table = render_comparison(found[0], found[1], style, every_op=args.all)
    write_stdout("\n".join(lines) + "\n\n" + table)
