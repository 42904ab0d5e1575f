"""``ioh replay``: a recording at its original or any other speed."""

from __future__ import annotations

import argparse

from ioh.commands.options import add_interval_arguments, add_section_arguments, add_speed_argument
from ioh.commands.sample import recording
from ioh.commands.screen import add_screen_arguments, show_replay, wants_screen
from ioh.commands.text import run as print_text

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
    add = parser.add_argument
    add("file", metavar="FILE", type=recording, help="a recording, or - for stdin")
    add_speed_argument(parser)
    add("--line", type=int, help=argparse.SUPPRESS)  # the pipe on which a bench sends its line
    add("--as-text", action="store_true", help="print text as fast as possible")
    add_interval_arguments(parser, top=5, recorded=True)
    add_section_arguments(parser)
    add_screen_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the recording."""
    is_text = args.as_text or args.cycle_s is not None  # the screen keeps the recorded intervals
    if not is_text and wants_screen(args, stdin_is_pipe=args.file == "-"):
        return show_replay(args)
    return print_text(args, speed=None if args.as_text else args.speed)
