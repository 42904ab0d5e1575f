"""``ioh bench card``: grades for a bench, or for a CSV file with fioparse's columns."""

from __future__ import annotations

import argparse
import os

from ioh.commands.bench_report import add_bands, card_for
from ioh.commands.output import write_stdout

SUMMARY = "grade the results of a bench, or of a CSV file with fioparse's columns"
EXAMPLES = """\
  ioh bench card --from results.csv --bands classic
  ioh bench card --from results.csv --bands classic --csv
  ioh bench card --from bench-db01-2026-11-23-101500 --class nvme

A CSV file does not name its storage: give --class, unless the bands have only one class."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    what = "a CSV file, or the directory of a bench"
    add("--from", dest="file", metavar="FILE", required=True, help=what)
    add("--csv", action="store_true", help="print CSV, one line per grade")
    add_bands(parser)


def run(args: argparse.Namespace) -> None:
    """Print the cards."""
    from ioh.bench.card import card_csv, card_text
    from ioh.bench.columns import read_columns
    from ioh.bench.grade import card_of, chosen_class, read_bands
    from ioh.bench.results import load

    if os.path.isdir(args.file) or args.file.endswith(".json"):  # noqa: PTH112
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
