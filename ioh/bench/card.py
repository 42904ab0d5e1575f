"""The report card as text and as CSV."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from ioh.bench.grade import LETTERS, UNGRADED, Card, CellGrade, Grade
from ioh.bench.results import HIST_EDGES_US
from ioh.bench.table import show_ms
from ioh.model.printable import printable
from ioh.sinks.csv import guarded

_HEAD = ("system", "cell", "of", "latency_letter", "scale_letter", "latency_ms", "scale")
_OF = {"mean": "avg"}  # letters.csv's names
_EDGES_MS = tuple(edge / 1000 for edge in HIST_EDGES_US.values())
# The axis under a cell: from 10 µs to 10 s, a decade each 10 characters.
_AXIS_MS = 0.01
_PER_DECADE = 10
_WIDTH = 6 * _PER_DECADE
_BARS = " ▁▂▃▄▅▆▇█"


def card_csv(cards: Mapping[str, Card]) -> str:
    """Format cards by system: a line for each letter, with grade.r's figures."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for system, card in cards.items():
        for cell in card.cells:
            for grade in cell.grades:
                of = _OF.get(grade.of, grade.of)
                letters = (grade.letter, grade.scale_letter)
                numbers = (_one(grade.latency_ms), _one(grade.scale))
                writer.writerow((guarded(system), cell.cell.name, of, *letters, *numbers))
    return out.getvalue()


def _one(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def card_text(card: Card, system: str) -> Iterator[str]:
    """Format a card for 80 columns: letters, and each cell's histogram over its bounds."""
    yield f"report card of {printable(system)}: latency {card.letter}, scaling {card.scale_letter}"
    bands = card.bands
    yield f"  bands {printable(bands.title)}: {printable(bands.summary)}"
    yield f"  class: {printable(card.class_title)}"
    yield ""
    yield f"{'':<33}{'mean':>11} {'p95':>11} {'p99':>11}  scaling"
    for cell in card.cells:
        cells = " ".join(f"{_latency(grade):>11}" for grade in cell.grades)
        yield f"{cell.cell.title:<33}{cells}  {_scaling(cell)}".rstrip()
        yield from (f"  {UNGRADED} {printable(why)}" for why in (cell.why, cell.scale_why) if why)
    yield ""
    for cell in card.cells:
        if any(cell.hist) and not cell.why:
            yield from _picture(cell)
    yield "Latencies in ms. The card's letters are its worst cells' at p95. Scaling 0: as"
    yield "fast with more users as with few."


def _latency(grade: Grade) -> str:
    return f"{show_ms(grade.latency_ms)} {grade.letter:<2}"


def _scaling(cell: CellGrade) -> str:
    """Scaling and its letter at p95, and to how many users."""
    grade = cell.grades[1]
    if grade.scale is None:
        return grade.scale_letter
    return f"{grade.scale:.2f} {grade.scale_letter:<2} to {cell.cell.more_users} users"


def _picture(cell: CellGrade) -> Iterator[str]:
    """The histogram over the letters, with mean, p95 and p99 between them."""
    places = [_AXIS_MS * 10 ** ((place + 0.5) / _PER_DECADE) for place in range(_WIDTH)]
    top = max(cell.hist)
    yield cell.cell.title
    columns = [bisect_left(_EDGES_MS, ms) for ms in places]
    heights = [math.ceil(cell.hist[column] / top * (len(_BARS) - 1)) for column in columns]
    yield f"  {''.join(_BARS[height] for height in heights)}".rstrip()
    marks = [" "] * (_WIDTH + 4)
    for grade, mark in zip(reversed(cell.grades), ("99", "95", "m"), strict=True):
        if grade.latency_ms:
            at = min(_WIDTH - 1, max(0, int(_PER_DECADE * math.log10(grade.latency_ms / _AXIS_MS))))
            marks[at : at + len(mark)] = mark
    yield f"  {''.join(marks)}".rstrip()
    yield f"  {''.join(LETTERS[bisect_right(cell.ladder.ms, ms)][0] for ms in places)}"
    edges = ("10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s")
    yield f"  {''.join(f'{edge:<{_PER_DECADE}}' for edge in edges)}".rstrip()
    yield ""
