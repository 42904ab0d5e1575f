"""``ioh report``: a whole recording, or a span of it, as one table."""

from __future__ import annotations

import argparse
import sys
import time

from ioh.commands.options import add_span_arguments
from ioh.commands.output import write_stdout
from ioh.commands.sample import recording
from ioh.commands.text import add_section_arguments, terminal_width, text_options
from ioh.model.errors import ExitCode
from ioh.model.printable import printable


class ReportCommand:
    """``ioh report FILE``."""

    name = "report"
    summary = "sum a recording, or a part of it, up: totals, percentiles, histograms"
    examples = """\
  ioh report run.ioh
  ioh report run.ioh --from "fio run 3 starts" --to "fio run 3 ends"
  ioh report run.ioh -d hist,topfile --from 14:40 --to 14:45

Percentiles and histograms are of all operations of the span, not means of each second's; the
maximum is the slowest operation of all."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument("file", metavar="FILE", type=recording, help="a recording")
        add_span_arguments(parser)
        parser.add_argument("--top", type=int, default=5, metavar="N", help="rows of each table")
        add_section_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the report."""
        from ioh.session.reader import Session
        from ioh.sinks.text import TextSink
        from ioh.sources.period import read_period

        args.sections = args.sections or [frozenset({"hist"})]
        options = text_options(args, {}, terminal_width(sys.stdout.fileno()))
        with Session(args.file) as session:
            period = read_period(session, args.begin, args.end, utc=args.utc)
            marks = session.marks()
        snapshot = period.snapshot
        begin_s = snapshot.time_unix_s - snapshot.interval_s
        span = f"{clock(begin_s, utc=args.utc)} to {clock(snapshot.time_unix_s, utc=args.utc)}"
        lines = [
            f"report of {printable(args.file)}",
            f"from {span}: {period.ticks} intervals, {snapshot.interval_s:.0f} s",
            *(
                f"mark {clock(mark.time_unix_s, utc=args.utc)}  {printable(mark.text)}"
                for mark in marks
                if begin_s <= mark.time_unix_s <= snapshot.time_unix_s
            ),
            *(f"! {printable(remark)}" for remark in period.remarks),
            "",
        ]
        write_stdout("\n".join(lines) + "\n" + TextSink(options).render(snapshot))
        return ExitCode.OK


def clock(unix_s: float, *, utc: bool) -> str:
    """Date and time for people; ``?`` where no calendar has it."""
    if not 0 <= unix_s < 1e11:
        return "?"
    when = time.gmtime(unix_s) if utc else time.localtime(unix_s)
    return time.strftime("%Y-%m-%d %H:%M:%S", when)
