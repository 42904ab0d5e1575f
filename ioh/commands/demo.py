"""``ioh demo``: a recording of all five layers that comes with ioh; no root, no kernel."""

from __future__ import annotations

import argparse

from ioh.commands.options import (
    add_findings_arguments,
    add_shown_arguments,
    add_when_arguments,
    moment,
)
from ioh.commands.playback import run_replay, speed_factor
from ioh.commands.replay import replay_text
from ioh.commands.sample import DEMO, bundled_path
from ioh.commands.screen import add_screen_arguments, show_replay, wants_screen
from ioh.commands.text_options import add_section_arguments
from ioh.model.errors import ExitCode, IohError

# The mark on the screen's first interval: before it, 20 s long, only file systems are mounted.
_FIRST_LOAD = "v4.2: random reads, O_DIRECT"


class DemoCommand:
    """``ioh demo``."""

    name = "demo"
    summary = "show a recording of all five layers that comes with ioh; needs no root"
    examples = """\
  ioh demo                          an NFS client and its server, again and again
  ioh demo --speed 10               ten times as fast
  ioh demo --text -d all -t 60      its first minute as text
  ioh demo --json -t 60             one JSON object a line

Random reads, writes, a bad network, cached reads, quiet: fio on two machines in one, recorded
for real. Text and JSON end with the recording."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument(
            "--speed",
            type=speed_factor,
            default=1.0,
            help="speed, as a multiple of the recording's own (default 1)",
        )
        parser.add_argument("--seed", help=argparse.SUPPRESS)  # of the made-up load it once was
        outputs = parser.add_mutually_exclusive_group()
        outputs.add_argument("--text", action="store_true", help="print text")
        outputs.add_argument("--json", action="store_true", help="print JSON lines")
        add_when_arguments(parser, cycle_s=None)
        add_shown_arguments(parser, top=5)
        add_section_arguments(parser)
        add_findings_arguments(parser)
        add_screen_arguments(parser, is_default=False)
        parser.set_defaults(file=str(bundled_path(DEMO)), begin=None, end=None)

    def run(self, args: argparse.Namespace) -> int:
        """Show the demo until its end, or until asked to end.

        Raises:
            IohError: A layer asked for is not in it, or -d was given with --json.
        """
        if args.json:
            if args.sections:
                cause = "-d is for text: JSON has everything"
                raise IohError(cause, "Leave it out, or give --text", ExitCode.USAGE)
            from ioh.sinks.json import JsonSink

            return run_replay(args, lambda: JsonSink(args.top), speed=args.speed)
        if not args.text and args.cycle_s is None and wants_screen(args):
            args.begin = moment(_FIRST_LOAD)
            return show_replay(args, "demo")
        return replay_text(args, args.speed)
