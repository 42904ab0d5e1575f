"""``ioh replay``: a recording as it was, at its own pace or any other."""

from __future__ import annotations

import argparse
import os
import sys

from ioh.commands.hosts import TextHosts
from ioh.commands.intervals import text_remarks
from ioh.commands.joined import run_joined
from ioh.commands.options import (
    add_findings_arguments,
    add_shown_arguments,
    add_span_arguments,
    add_when_arguments,
)
from ioh.commands.playback import run_replay, speed_factor
from ioh.commands.sample import recording
from ioh.commands.screen import add_screen_arguments, show_replay, wants_screen
from ioh.commands.text_options import add_section_arguments, terminal_width, text_options
from ioh.sinks.text import TextSink


class ReplayCommand:
    """``ioh replay FILE|-``."""

    name = "replay"
    summary = "replay a recording at its own pace; needs no root"
    examples = """\
  ioh replay db01-20261121-110012.ioh             as it was, second by second
  ioh replay sample                               a minute that comes with ioh, to try it
  ioh replay FILE --speed 60                      a minute each second
  ioh replay FILE --from 14:40 --to 14:45         five minutes of it
  ioh replay FILE --from "fio run 3 starts"       from a mark on
  ioh replay FILE --as-text -t 3600 > hour.txt    as fast as possible
  ssh db01 sudo ioh record -o - | ioh replay -    watch another machine live

A file that is still being recorded is followed. Nothing is ever written to it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument(
            "file", metavar="FILE", type=recording, help="a recording, or - for stdin"
        )
        add_when_arguments(parser, cycle_s=None)
        parser.add_argument(
            "--speed",
            type=speed_factor,
            default=1.0,
            help="speed, as a multiple of the recording's own pace (default 1)",
        )
        # A bench writes its line there.
        parser.add_argument("--line", type=int, help=argparse.SUPPRESS)
        parser.add_argument("--as-text", action="store_true", help="print it as fast as possible")
        add_span_arguments(parser)
        add_shown_arguments(parser, top=5)
        add_findings_arguments(parser)
        add_section_arguments(parser)
        add_screen_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Show the recording."""
        is_text = args.as_text or args.cycle_s is not None  # the screen steps as was recorded
        if not is_text and wants_screen(args, stdin_is_pipe=args.file == "-"):
            return show_replay(args)
        return replay_text(args, None if args.as_text else args.speed)


def replay_text(args: argparse.Namespace, speed: float | None) -> int:
    """Print a recording as text, at a pace or (None) as fast as possible."""
    from ioh.session.reader import hosts_of

    options = text_options(args, os.environ, terminal_width(sys.stdout.fileno()))
    remarks = text_remarks(utc=args.utc)
    if names := hosts_of(args.file):
        return run_joined(args, names, lambda: TextHosts(options), speed=speed, remarks=remarks)
    return run_replay(
        args,
        lambda: TextSink(options),
        speed=speed,
        remarks=remarks,
        with_tables=any(map(options.shows, ("top", "topfile", "path"))),
        with_parts=options.shows("parts"),
    )
