"""``ioh demo``: replay a bundled recording of an NFS client and its server; needs no root."""

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

# The mark at which the screen starts; the 20 s before it only mount file systems.
_FIRST_LOAD = "v4.2: random reads, O_DIRECT"

SUMMARY = "replay a bundled recording of an NFS client and its server; needs no root"
EXAMPLES = """\
  ioh demo                          on the screen, in a loop
  ioh demo --speed 10               ten times as fast
  ioh demo --text -d all -t 60      its first minute as text
  ioh demo --json -t 60             one JSON object per line

It is a real recording of fio with client and server on one machine: random reads, writes, a bad
network, cached reads, an idle phase. Text and JSON end with the recording."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_speed_argument(parser)
    parser.add_argument("--seed", help=argparse.SUPPRESS)  # ignored; of the former synthetic load
    add = parser.add_mutually_exclusive_group().add_argument
    add("--text", action="store_true", help="print text")
    add("--json", action="store_true", help="print JSON lines")
    add_interval_arguments(parser, top=5)
    add_section_arguments(parser)
    add_screen_arguments(parser, is_default=False)
    parser.set_defaults(file=str(bundled_path(DEMO)), begin=None, end=None)


def run(args: argparse.Namespace) -> int:
    """Show the demo; return the exit status."""
    if args.json:
        hint = "Leave it out, or give --text"
        refuse_if(args.sections, "-d works only with text: JSON has everything", hint)
        from ioh.commands.json import run as print_json

        return print_json(args, speed=args.speed)
    if not args.text and args.cycle_s is None and wants_screen(args):
        args.begin = moment(_FIRST_LOAD)
        return show_replay(args, "demo")
    return print_text(args, speed=args.speed)
