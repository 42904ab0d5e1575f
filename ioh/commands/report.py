"""``ioh report``: a whole recording, or a span of it, as one table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioh.commands.intervals import tell_remarks
from ioh.commands.options import (
    add_findings_arguments,
    add_span_arguments,
    add_top_argument,
    engine_from,
)
from ioh.commands.output import write_stdout
from ioh.commands.sample import recording
from ioh.commands.text_options import add_section_arguments, terminal_width, text_options
from ioh.model.errors import ExitCode
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.findings.engine import Engine
    from ioh.model.sample import Sample
    from ioh.session.reader import Session
    from ioh.sinks.text import TextOptions
    from ioh.sources.period import Period


class ReportCommand:
    """``ioh report FILE``."""

    name = "report"
    summary = "sum a recording, or a part of it, up: totals, percentiles, histograms"
    examples = """\
  ioh report run.ioh
  ioh report run.ioh --from "fio run 3 starts" --to "fio run 3 ends"
  ioh report run.ioh -d hist,topfile --from 14:40 --to 14:45

Percentiles and histograms are of all operations of the span, not means of each second's; the
maximum is the slowest operation of all. Findings are of each interval as it was recorded."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument("file", metavar="FILE", type=recording, help="a recording")
        add_span_arguments(parser)
        add_top_argument(parser, 5)
        add_section_arguments(parser)
        add_findings_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the report."""
        from ioh.session.reader import Session
        from ioh.sinks.text import TextSink
        from ioh.sources.period import read_period

        args.sections = args.sections or [frozenset({"hist"})]
        options = text_options(args, os.environ, terminal_width(sys.stdout.fileno()))
        engine = engine_from(args)
        with Session(args.file) as session:
            period = read_period(session, args.begin, args.end, utc=args.utc)
            marks = session.marks()
            tell_remarks(period.notes)
            snapshot = period.snapshot
            found = list(_findings(session, period, engine, options))
        begin, end = (
            clock(unix_s, utc=args.utc) for unix_s in (period.begin_unix_s, snapshot.time_unix_s)
        )
        lines = [
            f"report of {printable(args.file)}",
            f"from {begin} to {end}: {period.ticks} intervals, {snapshot.interval_s:.0f} s",
            *(
                f"mark {clock(mark.time_unix_s, utc=args.utc)}  {printable(mark.text)}"
                for mark in marks
                if period.holds(mark)
            ),
            *(f"! {printable(remark)}" for remark in period.remarks),
            *found,
            "",
        ]
        write_stdout("\n".join(lines) + "\n" + TextSink(options).render(snapshot))
        return ExitCode.OK


def _findings(
    session: Session, period: Period, engine: Engine | None, options: TextOptions
) -> Iterator[str]:
    """What the rules found within the period, each with its time and what to do."""
    if engine is None:
        return
    from ioh.findings.spans import finding_spans
    from ioh.pipeline import judged, snapshots
    from ioh.sinks.findings import render_advice, render_evidence, render_headline, render_times

    samples = _samples(session, period)
    spans = finding_spans(judged(snapshots(samples), engine))
    width, utc = options.hist.width, options.utc
    yield "" if spans else "no findings"
    for span in spans:
        yield from render_headline(span.finding, width)
        yield render_times(span.begin_unix_s, span.end_unix_s, utc=utc)
        if options.shows("findings"):
            titles = {name: spec.title for name, spec in period.snapshot.specs.items()}
            yield from render_evidence(span.finding, titles, width, utc=utc)
        yield from render_advice(span.finding, width)


def _samples(session: Session, period: Period) -> Iterator[Sample]:
    """The samples of a span, the one before it as its baseline."""
    for item in session.ticks(period.first_tick):
        if item.tick > period.last_tick:
            return
        yield item.sample


def clock(unix_s: float, *, utc: bool) -> str:
    """Date and time for people; ``?`` where no calendar has it."""
    if not 0 <= unix_s < 1e11:
        return "?"
    when = time.gmtime(unix_s) if utc else time.localtime(unix_s)
    return time.strftime("%Y-%m-%d %H:%M:%S", when)
