"""``ioh text``: the classic scrolling output."""

from __future__ import annotations

import argparse

from ioh.commands.hosts import add_host_arguments, run_hosts, run_recording, wants_hosts
from ioh.commands.options import add_interval_arguments, add_section_arguments, text_options
from ioh.commands.playback import text_remarks
from ioh.commands.run import run_live
from ioh.sinks.hosts import TextHosts
from ioh.sinks.text import TextSink

SUMMARY = "print the layers as scrolling text, in the style of ioh.sh"
EXAMPLES = """\
  ioh text                        every second, until Ctrl-C
  ioh text -c 10 -t 60 -d hist    six intervals of ten seconds, with histograms
  ioh text -d "histsz topfile"    latency by size, and the busiest files
  ioh text --pid 4121 -d all      everything about one process
  ioh text --proc                 without root: what /proc and sysfs know
  ioh text FILE -d all            a recording, as fast as possible
  ioh text --host db01 --host nfs01    two machines as one stack, through ssh

environment (as in ioh.sh):
  CWIDTH   width of a histogram column (default 6, narrower to fit the line)
  PAD      text between histogram columns"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_interval_arguments(parser, top=5, live=True, recorded=True)
    add_section_arguments(parser)
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print text until asked to end, or a whole recording."""
    return print_text(args) if wants_hosts(args) or args.file is None else print_recording(args)


def print_text(args: argparse.Namespace, *, asks: bool = False) -> int:
    """Print the layers of this machine, or of others, as text; ``asks`` as of run_live()."""
    options = text_options(args)
    if args.hosts:
        return run_hosts(args, lambda: TextHosts(options))
    return run_live(args, lambda: TextSink(options), asks=asks)


def print_recording(args: argparse.Namespace, speed: float | None = None) -> int:
    """Print a recording as text, at a pace or (None) as fast as possible."""
    options = text_options(args)
    return run_recording(
        args,
        lambda: TextSink(options),
        lambda: TextHosts(options),
        speed=speed,
        remarks=text_remarks(utc=args.utc),
        with_tables=any(map(options.shows, ("top", "topfile", "path"))),
        with_parts=options.shows("parts"),
    )
