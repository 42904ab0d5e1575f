"""``ioh demo``: a recording of all five layers that comes with ioh; no root, no kernel."""

from __future__ import annotations

import argparse

from ioh.commands.options import (
    add_interval_arguments,
    add_section_arguments,
    add_speed_argument,
    moment,
)
from ioh.commands.sample import DEMO, bundled_path
from ioh.commands.screen import add_screen_arguments, show_replay, wants_screen
from ioh.commands.text import run as print_text
from ioh.model.errors import refuse_if

# The mark on the screen's first interval: before it, 20 s long, only file systems are mounted.
_FIRST_LOAD = "v4.2: random reads, O_DIRECT"

SUMMARY = "show a recording of all five layers that comes with ioh; needs no root"
EXAMPLES = """\
  ioh demo                          an NFS client and its server, again and again
  ioh demo --speed 10               ten times as fast
  ioh demo --text -d all -t 60      its first minute as text
  ioh demo --json -t 60             one JSON object a line

Random reads, writes, a bad network, cached reads, quiet: fio on two machines in one, recorded
for real. Text and JSON end with the recording."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_speed_argument(parser)
    parser.add_argument("--seed", help=argparse.SUPPRESS)  # of the made-up load it once was
    add = parser.add_mutually_exclusive_group().add_argument
    add("--text", action="store_true", help="print text")
    add("--json", action="store_true", help="print JSON lines")
    add_interval_arguments(parser, top=5)
    add_section_arguments(parser)
    add_screen_arguments(parser, is_default=False)
    parser.set_defaults(file=str(bundled_path(DEMO)), begin=None, end=None)


def run(args: argparse.Namespace) -> int:
    """Show the demo until its end, or until asked to end."""
    if args.json:
        hint = "Leave it out, or give --text"
        refuse_if(args.sections, "-d is for text: JSON has everything", hint)
        from ioh.commands.json import run as print_json

        return print_json(args, speed=args.speed)
    if not args.text and args.cycle_s is None and wants_screen(args):
        args.begin = moment(_FIRST_LOAD)
        return show_replay(args, "demo")
    return print_text(args, speed=args.speed)
