"""``ioh replay``: a recording as it was, at its own pace or any other."""

from __future__ import annotations

import argparse

from ioh.commands.options import add_interval_arguments, add_section_arguments, add_speed_argument
from ioh.commands.sample import recording
from ioh.commands.screen import add_screen_arguments, show_replay, wants_screen
from ioh.commands.text import run as print_text

SUMMARY = "replay a recording at its own pace; needs no root"
EXAMPLES = """\
  ioh replay db01-20261121-110012.ioh             as it was, second by second
  ioh replay sample                               a minute that comes with ioh, to try it
  ioh replay FILE --speed 60                      a minute each second
  ioh replay FILE --from 14:40 --to 14:45         five minutes of it
  ioh replay FILE --from "fio run 3 starts"       from a mark on
  ioh replay FILE --as-text -t 3600 > hour.txt    as fast as possible
  ssh db01 sudo ioh record -o - | ioh replay -    watch another machine live

A file that is still being recorded is followed. Nothing is ever written to it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", type=recording, help="a recording, or - for stdin")
    add_speed_argument(parser)
    add("--line", type=int, help=argparse.SUPPRESS)  # a bench writes its line there
    add("--as-text", action="store_true", help="print it as fast as possible")
    add_interval_arguments(parser, top=5, recorded=True)
    add_section_arguments(parser)
    add_screen_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the recording."""
    is_text = args.as_text or args.cycle_s is not None  # the screen steps as was recorded
    if not is_text and wants_screen(args, stdin_is_pipe=args.file == "-"):
        return show_replay(args)
    return print_text(args, speed=None if args.as_text else args.speed)
