"""``ioh report``: a whole recording, or a span of it, as one table."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioh.commands.options import add_findings_arguments, add_span_arguments, engine_from
from ioh.commands.output import write_stdout
from ioh.commands.sample import recording
from ioh.commands.text import add_section_arguments, terminal_width, text_options
from ioh.model.errors import ExitCode
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.findings.engine import Engine
    from ioh.model.sample import Sample
    from ioh.model.snapshot import Snapshot
    from ioh.session.reader import Session
    from ioh.sinks.text import TextOptions


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
        parser.add_argument("--top", type=int, default=5, metavar="N", help="rows of each table")
        add_section_arguments(parser)
        add_findings_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the report."""
        from ioh.session.reader import Session
        from ioh.sinks.text import TextSink
        from ioh.sources.period import read_period

        args.sections = args.sections or [frozenset({"hist"})]
        options = text_options(args, {}, terminal_width(sys.stdout.fileno()))
        engine = engine_from(args)
        with Session(args.file) as session:
            period = read_period(session, args.begin, args.end, utc=args.utc)
            marks = session.marks()
            snapshot = period.snapshot
            found = list(_findings(session, snapshot, engine, options))
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
            *found,
            "",
        ]
        write_stdout("\n".join(lines) + "\n" + TextSink(options).render(snapshot))
        return ExitCode.OK


def _findings(
    session: Session, period: Snapshot, engine: Engine | None, options: TextOptions
) -> Iterator[str]:
    """What the rules found within the period, each with its time and what to do."""
    if engine is None:
        return
    from ioh.findings.spans import finding_spans
    from ioh.pipeline import judged, snapshots
    from ioh.sinks.findings import render_advice, render_evidence, render_headline, render_times

    begin_s = period.time_unix_s - period.interval_s
    samples = _samples(session, begin_s, period.time_unix_s)
    spans = finding_spans(judged(snapshots(samples), engine))
    width, utc = options.hist.width, options.utc
    yield "" if spans else "no findings"
    for span in spans:
        yield from render_headline(span.finding, width)
        yield render_times(span.begin_unix_s, span.end_unix_s, utc=utc)
        if options.shows("findings"):
            titles = {name: spec.title for name, spec in period.specs.items()}
            yield from render_evidence(span.finding, titles, width, utc=utc)
        yield from render_advice(span.finding, width)


def _samples(session: Session, begin_s: float, end_s: float) -> Iterator[Sample]:
    """The samples of a span, the one before it as its baseline; a clock that goes back ends it."""
    from ioh.session.stream import Tick

    before: Sample | None = None
    for item in session.items(session.tick_at(begin_s)):
        if isinstance(item, Tick):
            is_over = item.sample.time_unix_s > end_s
            if is_over or (before is not None and item.sample.mono_ns <= before.mono_ns):
                return
            before = item.sample
            yield item.sample


def clock(unix_s: float, *, utc: bool) -> str:
    """Date and time for people; ``?`` where no calendar has it."""
    if not 0 <= unix_s < 1e11:
        return "?"
    when = time.gmtime(unix_s) if utc else time.localtime(unix_s)
    return time.strftime("%Y-%m-%d %H:%M:%S", when)
