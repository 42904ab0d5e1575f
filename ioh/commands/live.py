"""``ioh`` and ``ioh live``: this machine on the screen, or as text without a terminal."""

from __future__ import annotations

import argparse

from ioh.commands.hosts import add_host_arguments, show_hosts, wants_hosts
from ioh.commands.options import add_interval_arguments, add_section_arguments
from ioh.commands.screen import add_screen_arguments, show_live, wants_screen
from ioh.commands.text import run as print_text

SUMMARY = "show this machine's layers live (the default)"
EXAMPLES = """\
  sudo ioh                        every second, until Ctrl-C
  sudo ioh -c 5                   every five seconds
  sudo ioh --device nvme0n1       one device
  ioh --proc                      without root: only what /proc and sysfs report
  ioh --host db01 --host nfs01    two machines as one stack, over ssh
  sudo ioh --no-tui               text, as in ioh text; the default if stdout is not a terminal"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_interval_arguments(parser, top=5, live=True)
    add_section_arguments(parser)
    add_screen_arguments(parser)
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the layers; return the exit status."""
    show = show_hosts if wants_hosts(args) else show_live
    return show(args) if wants_screen(args) else print_text(args)
