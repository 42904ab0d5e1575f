"""``ioh`` and ``ioh live``: this machine now."""

from __future__ import annotations

import argparse

from ioh.commands.text import add_text_arguments, run_text


class LiveCommand:
    """``ioh live``, also what plain ``ioh`` does: text, whether or not there is a terminal."""

    name = "live"
    summary = "show this machine's layers live (the default)"
    examples = """\
  sudo ioh                        every second, until Ctrl-C
  sudo ioh -c 5                   every five seconds
  sudo ioh --device nvme0n1       one device
  ioh --proc                      without root: what /proc and sysfs know"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        add_text_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Show the layers until asked to end."""
        return run_text(args)
