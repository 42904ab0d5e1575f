"""What of each interval text shows, and how wide: for every command that prints some."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from ioh.model.errors import refuse_if
from ioh.model.printable import printable
from ioh.sinks.histogram import HistStyle
from ioh.sinks.text import SECTIONS, TextOptions

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


def add_section_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which parts of an interval are shown as text."""
    listed = "; ".join(f"{name}: {what}" for name, what in SECTIONS.items())
    parser.add_argument(
        "-d",
        dest="sections",
        metavar="SECTIONS",
        type=sections,
        action="append",
        default=[],
        help=f"what else to print; {listed}",
    )
    parser.add_argument("--utc", action="store_true", help="times in UTC, not local time")


def text_options(args: argparse.Namespace, env: Mapping[str, str], width: int) -> TextOptions:
    """What to print; as hist_style(), and IohError where the arguments contradict each other."""
    chosen = frozenset[str]().union(*args.sections)
    is_both = "findings" in chosen and args.no_findings
    refuse_if(is_both, "-d findings shows what --no-findings leaves out", "Give one of them")
    if args.has_top and args.top != 0 and not chosen & {"top", "topfile", "all"}:
        chosen |= {"top"}  # whoever says how many rows wants to see them
    style = hist_style(env, width)
    return TextOptions(sections=chosen, top=args.top, hist=style, utc=args.utc)


def hist_style(env: Mapping[str, str], width: int) -> HistStyle:
    """How histograms look, from ioh.sh's two environment variables.  IohError: a wrong CWIDTH."""
    column_width: int | None = None
    if text := env.get("CWIDTH"):
        is_width = text.isascii() and text.isdigit() and 2 <= int(text[:6]) <= MAX_COLUMN_WIDTH
        hint = f"Set it to a number from 2 to {MAX_COLUMN_WIDTH}, or unset it"
        refuse_if(not is_width, f'CWIDTH="{printable(text)}" is no column width', hint)
        column_width = int(text)
    return HistStyle(width=width, column_width=column_width, pad=printable(env.get("PAD", "")))


def terminal_width(fd: int) -> int:
    """Columns of the terminal; DEFAULT_WIDTH where the output is none, as ioh.sh's was."""
    try:
        return max(DEFAULT_WIDTH, os.get_terminal_size(fd).columns)
    except OSError:
        return DEFAULT_WIDTH
