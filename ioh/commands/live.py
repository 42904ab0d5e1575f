"""``ioh`` and ``ioh live``: this machine on the screen, or as text without a terminal."""

from __future__ import annotations

import argparse

from ioh.commands.arguments import ShowOptions, interval_options, options_of
from ioh.commands.hosts import add_host_arguments, show_hosts
from ioh.commands.options import add_interval_arguments, add_section_arguments
from ioh.commands.screen import add_screen_arguments, show_live, wants_screen
from ioh.commands.text import print_text

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
    options, show = interval_options(args), options_of(ShowOptions, args)
    if not wants_screen(show):
        return print_text(options, show)
    return show_hosts(options, show) if options.hosts else show_live(options, show)
