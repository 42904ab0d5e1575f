"""``ioh`` and ``ioh live``: this machine now."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ioh.commands.hosts import add_host_arguments, refuse_remote_command, show_hosts
from ioh.commands.sample import SAMPLE, tell_nothing
from ioh.commands.screen import add_screen_arguments, show_live, wants_screen
from ioh.commands.text import add_text_arguments, run_text, run_text_of_hosts

if TYPE_CHECKING:
    from ioh.commands import Command


class LiveCommand:
    """``ioh live``, also what plain ``ioh`` does: the screen, or text where there is none."""

    name = "live"
    summary = "show this machine's layers live (the default)"
    examples = """\
  sudo ioh                        every second, until Ctrl-C
  sudo ioh -c 5                   every five seconds
  sudo ioh --device nvme0n1       one device
  ioh --proc                      without root: what /proc and sysfs know
  ioh --host db01 --host nfs01    two machines as one stack, through ssh
  sudo ioh --no-tui               text, as ioh text; also where stdout is no terminal"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        add_text_arguments(parser)
        add_screen_arguments(parser)
        add_host_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Show the layers until asked to end, or the bundled recording if that is wanted."""
        refuse_remote_command(args)
        if args.hosts:
            return show_hosts(args) if wants_screen(args) else run_text_of_hosts(args)
        if wants_screen(args):
            return show_live(args)
        wants_sample = False

        def tell(why: str) -> bool:
            nonlocal wants_sample
            wants_sample = tell_nothing(why, asks=True)
            return wants_sample

        code = run_text(args, tell)
        if not wants_sample:
            return code
        from ioh.commands import build_parser

        replay = build_parser("replay").parse_args(["replay", SAMPLE, "--no-tui"])
        command: Command = replay.command
        return command.run(replay)
