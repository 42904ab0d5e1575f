"""``ioh report``: a recording or a part of it, as one table or as an HTML page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ioh.commands.arguments import IntervalOptions, ShowOptions, interval_options, options_of
from ioh.commands.options import (
    add_findings_arguments,
    add_section_arguments,
    add_span_arguments,
    add_top_argument,
)
from ioh.commands.output import say, stdout_into, write_stdout
from ioh.commands.sample import recording
from ioh.model.errors import refuse_if
from ioh.model.printable import printable
from ioh.pipeline import snapshots
from ioh.sinks.cells import clock

if TYPE_CHECKING:
    from ioh.findings.spans import FindingSpan
    from ioh.model.snapshot import Snapshot
    from ioh.playback.aggregate_interval import AggregateInterval
    from ioh.session.reader import Moment, Session
    from ioh.sinks.text import TextOptions


SUMMARY = "summarise a recording or a part of it: totals, percentiles, histograms"
EXAMPLES = """\
  ioh report run.ioh
  ioh report run.ioh --from "fio run 3 starts" --to "fio run 3 ends"
  ioh report run.ioh -d hist,topfile --from 14:40 --to 14:45
  ioh report run.ioh --html -o run.html           a page to send to somebody

Percentiles and histograms cover all operations of that part; they are not means of per-second
values. The maximum is the slowest single operation. Findings come from the recorded intervals."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", type=recording, help="a recording")
    what = "write an HTML page that opens offline: the stack, latency over time, findings, tables"
    add("--html", action="store_true", help=what)
    add("-o", dest="output", metavar="NEW", help="write to this new file instead of stdout")
    add_span_arguments(parser)
    add_top_argument(parser, 5)
    add_section_arguments(parser)
    add_findings_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Print the report, or write it to a new file."""
    cause = "-d works only with text: the HTML page has its own sections"
    refuse_if(args.html and args.sections, cause, "Leave out -d or --html")
    is_shown = args.html and not args.output and sys.stdout.isatty()
    refuse_if(is_shown, "the HTML page would go to the terminal", "Give -o FILE.html")
    with stdout_into(args.output):
        report = _report(interval_options(args), options_of(ShowOptions, args), is_page=args.html)
        write_stdout(report.encode() if args.html else report)  # HTML is UTF-8 in any locale


def _report(intervals: IntervalOptions, how: ShowOptions, *, is_page: bool) -> str:
    from ioh.findings.spans import finding_spans
    from ioh.playback.aggregate_interval import read_aggregate, samples_of
    from ioh.session.reader import Session

    options = (how if how.sections else replace(how, sections=[frozenset({"hist"})])).text()
    engine = intervals.engine()
    with Session(intervals.file) as session:
        period = read_aggregate(session, intervals.span)
        for note in period.notes:
            say(note)
        spans = None
        if engine is not None:
            spans = finding_spans(snapshots(samples_of(session, period), lambda: engine))
        marks = [mark for mark in session.marks() if period.holds(mark)]
        if is_page:
            return _page(session, period, spans, marks, options)
    return _text(intervals.file, period, spans, marks, options)


def _page(
    session: Session,
    period: AggregateInterval,
    spans: list[FindingSpan] | None,
    marks: list[Moment],
    options: TextOptions,
) -> str:
    from ioh.pages.recording import Recorded, render_recording

    return render_recording(
        Recorded(
            os.path.basename(session.path),  # noqa: PTH119 (the page's reader need not know the path)
            period.begin_unix_s,
            period.ticks,
            period.snapshot,
            _joined(session, period),
            spans,
            [(mark.time_unix_s, mark.text) for mark in marks],
            period.remarks,
            options.top,
            options.utc,
        )
    )


def _joined(session: Session, period: AggregateInterval) -> Iterator[Snapshot]:
    """The intervals that are the heat maps' columns; the last one may be shorter."""
    from ioh.model.intervals import Intervals, interval
    from ioh.pages.recording import COLUMNS
    from ioh.playback.aggregate_interval import samples_of

    intervals = Intervals(cycle_s=period.snapshot.interval_s / COLUMNS)
    sample = None
    for sample in samples_of(session, period, is_brief=True):
        if (found := intervals.take(sample)) is not None:
            yield found
    if sample is not None and (rest := interval(intervals.newest, sample)) is not None:
        yield rest


def _text(
    file: str,
    period: AggregateInterval,
    spans: list[FindingSpan] | None,
    marks: list[Moment],
    options: TextOptions,
) -> str:
    from ioh.sinks.text import TextSink

    snapshot, dated = period.snapshot, {"utc": options.utc, "with_date": True}
    begin, end = (clock(unix_s, **dated) for unix_s in (period.begin_unix_s, snapshot.time_unix_s))
    marked = ((clock(mark.time_unix_s, **dated), printable(mark.text)) for mark in marks)
    lines = [
        f"report of {printable(file)}",
        f"from {begin} to {end}: {period.ticks} intervals, {snapshot.interval_s:.0f} s",
        *(f"mark {when}  {text}" for when, text in marked),
        *(f"! {printable(remark)}" for remark in period.remarks),
        *_findings(spans, period, options),
        "",
    ]
    return "\n".join(lines) + "\n" + TextSink(options).render(snapshot)


def _findings(
    spans: list[FindingSpan] | None, period: AggregateInterval, options: TextOptions
) -> Iterator[str]:
    """Lines of the findings within the period: cause, time and advice of each."""
    if spans is None:
        return
    from ioh.findings.spans import MAX_SPANS
    from ioh.sinks.findings import render_advice, render_evidence, render_headline, render_times

    width, utc = options.hist.width, options.utc
    yield "" if spans else "no findings"
    if len(spans) == MAX_SPANS:
        yield f"! only the first {MAX_SPANS:,} findings are shown"
    for span in spans:
        yield from render_headline(span.finding, width)
        yield render_times(span.begin_unix_s, span.end_unix_s, utc=utc)
        if options.shows("findings"):
            titles = {name: spec.title for name, spec in period.snapshot.specs.items()}
            yield from render_evidence(span.finding, titles, width, utc=utc)
        yield from render_advice(span.finding, width)
