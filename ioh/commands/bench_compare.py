"""``ioh bench compare``: two benches, test by test."""

from __future__ import annotations

import argparse

from ioh.commands.output import write_stdout

SUMMARY = "compare two benches test by test, each change next to the spread of the runs"
EXAMPLES = """\
  ioh bench compare bench-db01-2026-11-20-101500 bench-db01-2026-11-23-101500"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("a", metavar="A", help="directory of a bench")
    parser.add_argument("b", metavar="B", help="directory of another bench")


def run(args: argparse.Namespace) -> None:
    """Print the comparison."""
    from ioh.bench.comparison import comparison_text
    from ioh.bench.results import load

    write_stdout("\n".join(comparison_text(load(args.a), load(args.b))) + "\n")
