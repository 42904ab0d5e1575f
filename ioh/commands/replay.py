"""``ioh replay``: a recording at its original or any other speed."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ioh.commands.arguments import ShowOptions, interval_options, options_of
from ioh.commands.options import (
    add_interval_arguments,
    add_section_arguments,
    add_speed_argument,
    moment,
)
from ioh.commands.sample import DEMO, bundled_path, recording
from ioh.commands.screen import add_screen_arguments, show_replay, wants_screen
from ioh.commands.text import print_text

# The mark at which the demo begins; the time before it only mounts file systems.
_FIRST_LOAD = "random reads, 8 at once"

SUMMARY = "replay a recording at its original speed; needs no root"
EXAMPLES = """\
  ioh replay db01-20261121-110012.ioh             at its original speed
  ioh replay sample                               a bundled minute, to try it
  ioh replay FILE --speed 60                      one minute per second
  ioh replay FILE --from 14:40 --to 14:45         five minutes of it
  ioh replay FILE --from "fio run 3 starts"       starting at a mark
  ioh replay FILE --as-text -t 3600 > hour.txt    as fast as possible
  ssh db01 sudo ioh record -o - | ioh replay -    watch another machine live

If the file is still being recorded, replay follows it. Replay never writes to the file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = "a recording, or - for stdin"
    parser.add_argument("file", metavar="FILE", type=recording, help=what)
    add_play_arguments(parser)


def add_play_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how to play a recording."""
    add = parser.add_argument
    add_speed_argument(parser)
    add("--line", type=int, help=argparse.SUPPRESS)  # the pipe on which a bench sends its line
    add("--as-text", action="store_true", help="print text as fast as possible")
    add_interval_arguments(parser, top=5, recorded=True)
    add_section_arguments(parser)
    add_screen_arguments(parser)
    parser.set_defaults(follows=True)


def run(args: argparse.Namespace) -> int:
    """Show the recording."""
    options, show = interval_options(args), options_of(ShowOptions, args)
    is_text = args.as_text or options.cycle_s  # the screen keeps the recorded intervals
    if is_text or not wants_screen(show, stdin_is_pipe=options.file == "-"):
        return print_text(replace(options, speed=None) if args.as_text else options, show)
    if options.file == str(bundled_path(DEMO)) and options.begin is options.end is None:
        return show_replay(replace(options, begin=moment(_FIRST_LOAD)), show, "demo")
    return show_replay(options, show)
