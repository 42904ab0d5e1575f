"""``ioh text``: the classic scrolling output."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from ioh.commands.hosts import TextHosts, add_host_arguments, refuse_remote_command, run_hosts
from ioh.commands.options import add_file_arguments, add_live_arguments
from ioh.commands.run import run_live
from ioh.commands.sample import tell_nothing
from ioh.commands.text_options import add_section_arguments, terminal_width, text_options
from ioh.sinks.text import TextSink


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare everything that live text takes."""
    add_live_arguments(parser, top=5)
    add_section_arguments(parser)


def run_text(args: argparse.Namespace, tell: Callable[[str], bool] | None = None) -> int:
    """Print this machine's layers as text, interval by interval; ``tell`` as in run_live()."""
    options = text_options(args, os.environ, terminal_width(sys.stdout.fileno()))
    return run_live(args, lambda: TextSink(options), tell)


def run_text_of_hosts(args: argparse.Namespace) -> int:
    """Print several machines' layers as text."""
    options = text_options(args, os.environ, terminal_width(sys.stdout.fileno()))
    return run_hosts(args, lambda: TextHosts(options))


class TextCommand:
    """``ioh text``."""

    name = "text"
    summary = "print the layers as scrolling text, in the style of ioh.sh"
    examples = """\
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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        add_file_arguments(parser, top=5)
        add_section_arguments(parser)
        add_host_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print text until asked to end, or a whole recording."""
        refuse_remote_command(args)
        if args.hosts:
            return run_text_of_hosts(args)
        if args.file is None:
            return run_text(args, lambda why: tell_nothing(why, asks=False))
        from ioh.commands.replay import replay_text

        return replay_text(args, None)
