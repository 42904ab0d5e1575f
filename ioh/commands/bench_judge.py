"""``ioh bench report``, ``compare`` and ``card``: what is made of a bench's results."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.commands.output import write_stdout
from ioh.model.errors import IohError
from ioh.model.printable import printable

if TYPE_CHECKING:
    from ioh.bench.grade import Card
    from ioh.bench.results import Results


def add_bands(parser: argparse.ArgumentParser) -> None:
    """By what letters are given."""
    group = parser.add_argument_group("the report card")
    group.add_argument(
        "--bands", metavar="BANDS", default="today", help="today, classic, or a TOML file (today)"
    )
    group.add_argument(
        "--class", dest="storage", metavar="CLASS", default="",
        help="hdd, sata_ssd, nvme, cloud or nfs (default: what was measured)",
    )  # fmt: skip


def check_bands(args: argparse.Namespace) -> None:
    """Whether there are such bands, before anything is measured.

    Raises:
        IohError: There are not, or not this class of storage.
    """
    from ioh.bench.grade import chosen_class, read_bands

    bands = read_bands(args.bands)
    if args.storage:
        chosen_class(bands, args.storage, None)


class BenchReportCommand:
    """``ioh bench report DIR``."""

    name = "bench report"
    summary = "report again what a bench found, from the files it kept"
    examples = """\
  ioh bench report bench-db01-2026-11-23-101500
  ioh bench report DIRECTORY --html report.html --bands classic
  ioh bench report DIRECTORY --csv > results.csv      in fioparse's columns

It needs no root and measures nothing."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument("directory", metavar="DIRECTORY", help="as ioh bench made it")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--html", metavar="FILE", help="write the page with charts")
        form.add_argument(
            "--csv", action="store_true", help="fioparse's columns, of the tests that are ok"
        )
        form.add_argument("--json", action="store_true", help="everything as JSON")
        add_bands(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print or write it."""
        from ioh.bench.columns import to_csv
        from ioh.bench.results import load, to_json

        results = load(args.directory)
        if args.csv:
            write_stdout(to_csv(results))
        elif args.json:
            write_stdout(to_json(results))
        elif args.html:
            write_html(results, card_for(results, args.bands, args.storage), Path(args.html))
        else:
            lines = report_lines(results, card_for(results, args.bands, args.storage))
            write_stdout("\n".join(lines) + "\n")
        return 0


class BenchCompareCommand:
    """``ioh bench compare A B``."""

    name = "bench compare"
    summary = "compare two benches, test by test, each change beside the spread of the runs"
    examples = """\
  ioh bench compare bench-db01-2026-11-20-101500 bench-db01-2026-11-23-101500"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument("a", metavar="A", help="a directory that ioh bench made")
        parser.add_argument("b", metavar="B", help="another one")

    def run(self, args: argparse.Namespace) -> int:
        """Print the comparison."""
        from ioh.bench.comparison import comparison_text
        from ioh.bench.results import load

        write_stdout("\n".join(comparison_text(load(args.a), load(args.b))) + "\n")
        return 0


class BenchCardCommand:
    """``ioh bench card --from FILE``."""

    name = "bench card"
    summary = "grade any results: a bench's, or a CSV file in fioparse's columns"
    examples = """\
  ioh bench card --from results.csv --bands classic
  ioh bench card --from results.csv --bands classic --csv
  ioh bench card --from bench-db01-2026-11-23-101500 --class nvme

A CSV file does not say what storage it is of: give --class, unless the bands have but one."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        parser.add_argument(
            "--from", dest="file", metavar="FILE", required=True, help="a CSV file or a bench"
        )
        parser.add_argument("--csv", action="store_true", help="a line for each letter, as CSV")
        add_bands(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the cards."""
        from ioh.bench.card import card_csv, card_text
        from ioh.bench.columns import read_columns
        from ioh.bench.grade import card_of, chosen_class, read_bands
        from ioh.bench.results import load

        if Path(args.file).is_dir() or args.file.endswith(".json"):
            results = load(args.file)
            host = results.conditions.host
            cards = {host: card_for(results, args.bands, args.storage)}
        else:
            found, bands = read_columns(args.file), read_bands(args.bands)
            chosen = chosen_class(bands, args.storage, None)
            cards = {system: card_of(tests, bands, chosen) for system, tests in found.items()}
        if args.csv:
            write_stdout(card_csv(cards))
        else:
            texts = ["\n".join(card_text(card, system)) for system, card in cards.items()]
            write_stdout("\n\n".join(texts) + "\n")
        return 0


def card_for(results: Results, bands_name: str, class_name: str) -> Card:
    """The card of a bench; by the classic bands where the class is neither given nor known.

    Raises:
        IohError: There are no such bands, or no such class.
    """
    from ioh.bench.grade import card_of, chosen_class, class_of, measured_of, read_bands

    bands = read_bands(bands_name)
    if not class_name and len(bands.classes) > 1 and not class_of(results.conditions):
        bands = read_bands("classic")
    chosen = chosen_class(bands, class_name, results.conditions)
    return card_of(measured_of(results), bands, chosen)


def report_lines(results: Results, card: Card) -> Iterator[str]:
    """The whole report as text."""
    from ioh.bench.card import card_text
    from ioh.bench.families import panels_text
    from ioh.bench.table import table_text

    yield from table_text(results)
    yield ""
    yield from panels_text(results)
    yield from card_text(card, results.conditions.host)


def write_html(results: Results, card: Card, path: Path) -> None:
    """Write the page.

    Raises:
        IohError: It cannot be written.
    """
    from ioh.bench.files import write_file
    from ioh.bench.page import render_page

    page = render_page(results, card)
    try:
        write_file(path, page, 0o644)
    except OSError as error:
        cause = f"cannot write {printable(str(path))}: {error.strerror}"
        raise IohError(cause, "Give another file, or make room") from None
