"""``ioh export``: a recording in formats of other programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ioh.commands.arguments import IntervalOptions, interval_options
from ioh.commands.options import add_interval_arguments
from ioh.commands.output import stdout_into, write_stdout
from ioh.commands.playback import PrintOptions, run_replay
from ioh.commands.sample import recording
from ioh.model.errors import ExitCode, IohError, refuse_if

if TYPE_CHECKING:
    from ioh.model.snapshot import Snapshot

SUMMARY = "write a recording as CSV, JSON lines, OpenMetrics or Parquet"
EXAMPLES = """\
  ioh export run.ioh > run.csv                              one number per line
  ioh export run.ioh -c 60 --layers block > minutes.csv     minute by minute
  ioh export run.ioh --format jsonl > run.jsonl
  ioh export run.ioh --format openmetrics > run.om
  promtool tsdb create-blocks-from openmetrics run.om data/
  ioh export run.ioh --format parquet -o run.parquet        for DuckDB, pandas, Spark

csv has the columns time, layer, op, metric and value; unknown numbers have no line.
openmetrics has running totals and histograms, the form that Prometheus needs.
parquet has one row per time, host, layer, part and op, with its histogram; it needs pyarrow."""


def _print(
    options: IntervalOptions,
    render: Callable[[Snapshot], str | bytes],
    *,
    with_tables: bool = False,
    judges: bool = False,
) -> int:
    form = PrintOptions(lambda each: render(each.snapshot), with_tables=with_tables, judges=judges)
    return run_replay(options, form)


def _csv(options: IntervalOptions, _: object) -> int:
    from ioh.sinks.csv import CsvSink

    return _print(options, CsvSink().render)


def _jsonl(options: IntervalOptions, top: int | None) -> int:
    from ioh.sinks.json import JsonSink

    return _print(options, JsonSink(top).render, with_tables=top != 0, judges=True)


def _parquet(options: IntervalOptions, _: object) -> int:
    try:
        from ioh.sinks.parquet import ParquetSink
    except ImportError:
        cause = "--format parquet needs the Python library pyarrow"
        hint = f"Install it: {sys.executable} -m pip install pyarrow"
        raise IohError(cause, hint, ExitCode.UNAVAILABLE) from None
    sink = ParquetSink()
    code = _print(options, sink.render)
    write_stdout(sink.finish())
    return code


def _openmetrics(options: IntervalOptions, _: object) -> int:
    from ioh.sinks.openmetrics import OpenMetrics

    with OpenMetrics() as metrics:
        form = PrintOptions(metrics.add, with_tables=False, judges=False)
        code = run_replay(options, form)
        for piece in metrics.render():
            write_stdout(piece)
    return code


_EXPORTS = {"csv": _csv, "jsonl": _jsonl, "openmetrics": _openmetrics, "parquet": _parquet}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", type=recording, help="a recording, or - for stdin")
    add("--format", choices=tuple(_EXPORTS), default="csv", help="output format (default: csv)")
    add("-o", dest="output", metavar="FILE", help="write to this new file instead of stdout")
    add_interval_arguments(parser, top=10, recorded=True, prints=False)


def run(args: argparse.Namespace) -> int:
    """Write it to stdout, or to a new file."""
    given = {
        "--top has no effect: {} has no breakdowns": args.has_top,
        "--findings-config has no effect: {} has no findings": args.findings_config is not None,
    }
    for cause, is_given in given.items():
        is_wrong = is_given and args.format != "jsonl"
        refuse_if(is_wrong, cause.format(args.format), "Give --format jsonl")
    is_shown = args.format == "parquet" and not args.output and sys.stdout.isatty()
    refuse_if(is_shown, "Parquet is binary data and stdout is a terminal", "Give -o FILE")
    with stdout_into(args.output):
        return _EXPORTS[args.format](interval_options(args), args.top)
