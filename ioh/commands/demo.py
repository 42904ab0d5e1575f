"""``ioh demo``: another name of ``ioh replay demo``; needs no root."""

from __future__ import annotations

import argparse

from ioh.commands import replay
from ioh.commands.sample import DEMO, bundled_path

SUMMARY = "replay a bundled recording of an NFS client and its server; needs no root"
EXAMPLES = """\
  ioh demo                          on the screen, in a loop
  ioh demo --speed 10               ten times as fast
  ioh demo --as-text -d all -t 60   its first minute as text
  ioh json demo -t 60               one JSON object per line

It is a real recording of fio with client and server on one machine: random reads, writes, a bad
network, cached reads, an idle phase. Other commands read it as the file named demo."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``replay``, but for its file."""
    replay.add_play_arguments(parser)
    parser.set_defaults(file=str(bundled_path(DEMO)))


run = replay.run
