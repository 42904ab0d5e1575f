"""``ioh bench report``: print, export or grade the results of a bench."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.commands.output import write_stdout
from ioh.model.errors import IohError

if TYPE_CHECKING:
    from ioh.bench.grade import Card
    from ioh.bench.results import Results

SUMMARY = "print the report of an earlier bench again, from its files"
EXAMPLES = """\
  ioh bench report bench-db01-2026-11-23-101500
  ioh bench report DIRECTORY --html report.html --bands classic
  ioh bench report DIRECTORY --csv > results.csv      with fioparse's columns

It needs no root and measures nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("directory", metavar="DIRECTORY", help="directory of the bench")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--html", metavar="FILE", help="write an HTML page with charts")
    add("--csv", action="store_true", help="print fioparse's columns of the tests that are ok")
    add("--json", action="store_true", help="print everything as JSON")
    add_bands(parser)


def run(args: argparse.Namespace) -> None:
    """Print the report, or write the page."""
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
    """Declare the grades' options."""
    add = parser.add_argument_group("the report card").add_argument
    what = "limits of the grades: today, classic, or a TOML file (default: today)"
    add("--bands", metavar="BANDS", default="today", help=what)
    what = "class of storage: hdd, sata_ssd, nvme, cloud or nfs (default: as detected)"
    add("--class", dest="storage", metavar="CLASS", default="", help=what)


def check_bands(bands_name: str, class_name: str) -> None:
    """Raise IohError early if the bands or the class of storage do not exist."""
    from ioh.bench.grade import chosen_class, read_bands

    bands = read_bands(bands_name)
    if class_name:
        chosen_class(bands, class_name, None)


def card_for(results: Results, bands_name: str, class_name: str) -> Card:
    """The card of a bench; with the classic bands if the class is neither given nor detected."""
    from ioh.bench.grade import card_of, chosen_class, class_of, measured_of, read_bands

    bands = read_bands(bands_name)
    if not class_name and len(bands.classes) > 1 and not class_of(results.conditions):
        bands = read_bands("classic")
    chosen = chosen_class(bands, class_name, results.conditions)
    return card_of(measured_of(results), bands, chosen)


def write_html(results: Results, card: Card, path: Path) -> None:
    """Write the HTML page.  IohError: it cannot be written."""
    from ioh.bench.files import write_file
    from ioh.bench.page import render_page

    page = render_page(results, card)
    try:
        write_file(path, page, 0o644)
    except OSError as error:
        cause = f"cannot write {path}: {error.strerror}"
        raise IohError(cause, "Give another file, or free some space") from None
