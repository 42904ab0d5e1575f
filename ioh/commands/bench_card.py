"""``ioh bench card``: letters for a bench, or for fioparse's columns."""

from __future__ import annotations

import argparse
from pathlib import Path

from ioh.commands.bench_report import add_bands, card_for
from ioh.commands.output import write_stdout

SUMMARY = "grade any results: a bench's, or a CSV file in fioparse's columns"
EXAMPLES = """\
  ioh bench card --from results.csv --bands classic
  ioh bench card --from results.csv --bands classic --csv
  ioh bench card --from bench-db01-2026-11-23-101500 --class nvme

A CSV file does not say what storage it is of: give --class, unless the bands have but one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--from", dest="file", metavar="FILE", required=True, help="a CSV file or a bench")
    add("--csv", action="store_true", help="a line for each letter, as CSV")
    add_bands(parser)


def run(args: argparse.Namespace) -> None:
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
