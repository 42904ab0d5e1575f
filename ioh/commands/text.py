"""``ioh text``: the classic scrolling output."""

from __future__ import annotations

import argparse

from ioh.commands.arguments import IntervalOptions, ShowOptions, interval_options, options_of
from ioh.commands.hosts import add_host_arguments, print_intervals
from ioh.commands.options import add_interval_arguments, add_section_arguments
from ioh.commands.playback import PrintOptions, text_remarks

SUMMARY = "print the layers as scrolling text, in the style of ioh.sh"
EXAMPLES = """\
  ioh text                        every second, until Ctrl-C
  ioh text -c 10 -t 60 -d hist    six intervals of ten seconds, with histograms
  ioh text -d "histsz topfile"    latency by size, and the busiest files
  ioh text --pid 4121 -d all      everything about one process
  ioh text --proc                 without root: only what /proc and sysfs report
  ioh text FILE -d all            a recording, as fast as possible
  ioh text --host db01 --host nfs01    two machines as one stack, over ssh

environment (as in ioh.sh):
  CWIDTH   width of a histogram column (default 6, or less to fit the line)
  PAD      text between histogram columns"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_interval_arguments(parser, top=5, live=True, recorded=True)
    add_section_arguments(parser)
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print text."""
    return print_text(interval_options(args), options_of(ShowOptions, args))


def print_text(intervals: IntervalOptions, show: ShowOptions) -> int:
    """Print text; status and errors as for print_intervals()."""
    options = show.text()
    from ioh.sinks.hosts import TextHosts

    form = PrintOptions(
        TextHosts(options).render,
        text_remarks(utc=show.utc),
        with_tables=any(map(options.shows, ("top", "topfile", "path"))),
        with_parts=options.shows("parts"),
        has_hosts=True,
    )
    return print_intervals(intervals, form)
