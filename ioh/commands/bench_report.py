"""``ioh bench report``: what is made of a bench's results, and how they are graded."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.commands.output import write_stdout
from ioh.model.errors import IohError
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.bench.grade import Card
    from ioh.bench.results import Results

SUMMARY = "report again what a bench found, from the files it kept"
EXAMPLES = """\
  ioh bench report bench-db01-2026-11-23-101500
  ioh bench report DIRECTORY --html report.html --bands classic
  ioh bench report DIRECTORY --csv > results.csv      in fioparse's columns

It needs no root and measures nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("directory", metavar="DIRECTORY", help="as ioh bench made it")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--html", metavar="FILE", help="write the page with charts")
    add("--csv", action="store_true", help="fioparse's columns, of the tests that are ok")
    add("--json", action="store_true", help="everything as JSON")
    add_bands(parser)


def run(args: argparse.Namespace) -> None:
    """Print or write it."""
    from ioh.bench.card import card_text
    from ioh.bench.columns import to_csv
    from ioh.bench.families import panels_text
    from ioh.bench.results import load, to_json
    from ioh.bench.table import table_text

    results = load(args.directory)
    if args.csv or args.json:
        write_stdout(to_csv(results) if args.csv else to_json(results))
        return
    card = card_for(results, args.bands, args.storage)
    if args.html:
        write_html(results, card, Path(args.html))
        return
    graded = card_text(card, results.conditions.host)
    lines = [*table_text(results), "", *panels_text(results), *graded]
    write_stdout("\n".join(lines) + "\n")


def add_bands(parser: argparse.ArgumentParser) -> None:
    """Declare by what letters are given."""
    add = parser.add_argument_group("the report card").add_argument
    what = "today, classic, or a TOML file (today)"
    add("--bands", metavar="BANDS", default="today", help=what)
    what = "hdd, sata_ssd, nvme, cloud or nfs (default: what was measured)"
    add("--class", dest="storage", metavar="CLASS", default="", help=what)


def check_bands(args: argparse.Namespace) -> None:
    """Refuse, by IohError, bands or a class of storage that do not exist, before all else."""
    from ioh.bench.grade import chosen_class, read_bands

    bands = read_bands(args.bands)
    if args.storage:
        chosen_class(bands, args.storage, None)


def card_for(results: Results, bands_name: str, class_name: str) -> Card:
    """The card of a bench; by the classic bands where the class is neither given nor known."""
    from ioh.bench.grade import card_of, chosen_class, class_of, measured_of, read_bands

    bands = read_bands(bands_name)
    if not class_name and len(bands.classes) > 1 and not class_of(results.conditions):
        bands = read_bands("classic")
    chosen = chosen_class(bands, class_name, results.conditions)
    return card_of(measured_of(results), bands, chosen)


def write_html(results: Results, card: Card, path: Path) -> None:
    """Write the page.  IohError: it cannot be written."""
    from ioh.bench.files import write_file
    from ioh.bench.page import render_page

    page = render_page(results, card)
    try:
        write_file(path, page, 0o644)
    except OSError as error:
        cause = f"cannot write {printable(str(path))}: {error.strerror}"
        raise IohError(cause, "Give another file, or make room") from None
