"""``ioh text``: the classic scrolling output."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping

from ioh.commands.options import add_file_arguments, add_live_arguments
from ioh.commands.run import run_live
from ioh.commands.sample import tell_nothing
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.sinks.histogram import HistStyle
from ioh.sinks.text import SECTIONS, TextOptions, TextSink

DEFAULT_WIDTH = 80
MAX_COLUMN_WIDTH = 40


def sections(text: str) -> frozenset[str]:
    """An argparse type: names of SECTIONS, as in ``hist,topfile`` or ``"hist topfile"``."""
    names = text.replace(",", " ").split()
    for name in names:
        if name not in SECTIONS:
            msg = f'"{printable(name)}" is not one of {", ".join(SECTIONS)}'
            raise argparse.ArgumentTypeError(msg)
    return frozenset(names)


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare everything that live text takes."""
    add_live_arguments(parser, top=5)
    add_section_arguments(parser)


def add_section_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what of each interval text shows."""
    parser.add_argument(
        "-d",
        dest="sections",
        metavar="SECTIONS",
        type=sections,
        action="append",
        default=[],
        help="; ".join(f"{name}: {what}" for name, what in SECTIONS.items()),
    )
    parser.add_argument("--utc", action="store_true", help="dates in UTC, not local time")


def text_options(args: argparse.Namespace, env: Mapping[str, str], width: int) -> TextOptions:
    """What to print, from the arguments and ioh.sh's two environment variables.

    Raises:
        IohError: CWIDTH is no width, or the arguments contradict each other.
    """
    chosen = frozenset[str]().union(*args.sections)
    if "findings" in chosen and args.no_findings:
        cause = "-d findings shows what --no-findings leaves out"
        raise IohError(cause, "Give one of them", ExitCode.USAGE)
    if args.has_top and args.top != 0 and not chosen & {"top", "topfile", "all"}:
        chosen |= {"top"}  # whoever says how many rows wants to see them
    style = hist_style(env, width)
    return TextOptions(sections=chosen, top=args.top, hist=style, utc=args.utc)


def hist_style(env: Mapping[str, str], width: int) -> HistStyle:
    """How histograms look, from ioh.sh's two environment variables.

    Raises:
        IohError: CWIDTH is no width.
    """
    column_width: int | None = None
    if env.get("CWIDTH"):
        text = env["CWIDTH"]
        if not (text.isascii() and text.isdigit() and 2 <= int(text[:6]) <= MAX_COLUMN_WIDTH):
            cause = f'CWIDTH="{printable(text)}" is no column width'
            hint = f"Set it to a number from 2 to {MAX_COLUMN_WIDTH}, or unset it"
            raise IohError(cause, hint, ExitCode.USAGE)
        column_width = int(text)
    return HistStyle(width=width, column_width=column_width, pad=printable(env.get("PAD", "")))


def terminal_width(fd: int) -> int:
    """Columns of the terminal; DEFAULT_WIDTH where the output is none, as ioh.sh's was."""
    try:
        return max(DEFAULT_WIDTH, os.get_terminal_size(fd).columns)
    except OSError:
        return DEFAULT_WIDTH


def run_text(args: argparse.Namespace, tell: Callable[[str], bool] | None = None) -> int:
    """Print this machine's layers as text, interval by interval; ``tell`` as in run_live()."""
    options = text_options(args, os.environ, terminal_width(sys.stdout.fileno()))
    return run_live(args, lambda: TextSink(options), tell)


class TextCommand:
    """``ioh text``."""

    name = "text"
    summary = "print the layers as scrolling text, in the manner of ioh.sh"
    examples = """\
  ioh text                        every second, until Ctrl-C
  ioh text -c 10 -t 60 -d hist    six intervals of ten seconds, with histograms
  ioh text -d "histsz topfile"    latency by size, and the busiest files
  ioh text --pid 4121 -d all      all there is about one process
  ioh text --proc                 without root: what /proc and sysfs know
  ioh text FILE -d all            a recording, as fast as possible

environment (as in ioh.sh):
  CWIDTH   width of a histogram column (default 6, narrower to fit the line)
  PAD      text between histogram columns"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        add_file_arguments(parser, top=5)
        add_section_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print text until asked to end, or a whole recording."""
        if args.file is None:
            return run_text(args, lambda why: tell_nothing(why, asks=False))
        from ioh.commands.replay import replay_text

        return replay_text(args, None)
