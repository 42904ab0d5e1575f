"""``ioh export``: a recording for other programs."""

from __future__ import annotations

import argparse
import sys

from ioh.commands.intervals import Faults, intervals_from, tell_remarks
from ioh.commands.options import (
    add_findings_arguments,
    add_shown_arguments,
    add_span_arguments,
    add_when_arguments,
)
from ioh.commands.output import stdout_into, write_stdout
from ioh.commands.playback import run_replay
from ioh.commands.sample import recording
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.pipeline import SnapshotSink

FORMATS = ("csv", "jsonl", "openmetrics", "parquet")


class ExportCommand:
    """``ioh export FILE``."""

    name = "export"
    summary = "write a recording as CSV, JSON lines, OpenMetrics or Parquet"
    examples = """\
  ioh export run.ioh > run.csv                              one number a line
  ioh export run.ioh -c 60 --layers block > minutes.csv     minute by minute
  ioh export run.ioh --format jsonl > run.jsonl
  ioh export run.ioh --format openmetrics > run.om
  promtool tsdb create-blocks-from openmetrics run.om data/
  ioh export run.ioh --format parquet -o run.parquet        for DuckDB, pandas, Spark

csv columns: time, layer, op, metric, value; unknown numbers have no line. openmetrics holds
running totals and histograms, as Prometheus wants them. parquet has a row for each time, host,
layer, part and op, with its histogram; it needs the Python library pyarrow."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument(
            "file", metavar="FILE", type=recording, help="a recording, or - for stdin"
        )
        parser.add_argument(
            "--format", choices=FORMATS, default="csv", help="output format (default: csv)"
        )
        parser.add_argument(
            "-o", dest="output", metavar="FILE", help="a new file instead of stdout"
        )
        add_when_arguments(parser, cycle_s=None)
        add_span_arguments(parser)
        add_shown_arguments(parser, top=10)
        add_findings_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Write it to stdout, or to a new file.

        Raises:
            IohError: An option has no meaning in this format, or there is nothing to write.
        """
        _refuse_what_is_not_in(args)
        with stdout_into(args.output):
            return self._export(args)

    @staticmethod
    def _export(args: argparse.Namespace) -> int:
        if args.format == "openmetrics":
            return _openmetrics(args)
        if args.format == "parquet":
            return _parquet(args)
        is_csv = args.format == "csv"

        def sink() -> SnapshotSink:
            from ioh.sinks.csv import CsvSink
            from ioh.sinks.json import JsonSink

            return CsvSink() if is_csv else JsonSink(args.top)

        tables = not is_csv and args.top != 0
        return run_replay(args, sink, speed=None, with_tables=tables, judges=not is_csv)


def _refuse_what_is_not_in(args: argparse.Namespace) -> None:
    """Only JSON lines have breakdowns and findings."""
    given = {"--top": args.has_top, "--findings-config": args.findings_config is not None}
    for option, is_given in given.items():
        if is_given and args.format != "jsonl":
            what = "breakdowns" if option == "--top" else "findings"
            cause = f"{option}: {args.format} has no {what}"
            raise IohError(cause, "Give --format jsonl", ExitCode.USAGE)
    if args.format == "parquet" and not args.output and sys.stdout.isatty():
        cause = "Parquet is not for a terminal"
        raise IohError(cause, "Give -o FILE", ExitCode.USAGE)


def _parquet(args: argparse.Namespace) -> int:
    try:
        from ioh.sinks.parquet import ParquetSink
    except ImportError:
        cause = "--format parquet needs the Python library pyarrow"
        hint = f"Install it: {printable(sys.executable)} -m pip install pyarrow"
        raise IohError(cause, hint, ExitCode.UNAVAILABLE) from None
    sink = ParquetSink()
    code = run_replay(args, lambda: sink, speed=None, with_tables=False, judges=False)
    write_stdout(sink.finish())
    return code


def _openmetrics(args: argparse.Namespace) -> int:
    from ioh.playback.replay import ReplaySource, Span, no_interval
    from ioh.session.stream import Tick
    from ioh.sinks.openmetrics import OpenMetrics

    faults, intervals, ticks = Faults(), intervals_from(args), 0
    span = Span(args.begin, args.end)
    with (
        ReplaySource(args.file, span, speed=None, with_tables=False) as source,
        OpenMetrics() as metrics,
    ):
        for item in source:
            faults.take(item)
            if isinstance(item, Tick):
                ticks += 1
                intervals.take(item.sample)
                if intervals.has_taken(item.sample):
                    metrics.take(intervals.newest)
                if args.run_s is not None and intervals.seen_s >= args.run_s:
                    break
        if ticks < 2:
            faults.report()
            raise no_interval(args.file, span)
        for piece in metrics.render():
            write_stdout(piece)
    tell_remarks(source.part.remarks)
    faults.report()
    return ExitCode.OK
