"""Columns of a table: which of them fit a width, the least useful one left out first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ioh.model.snapshot import OpStats
from ioh.sinks.cells import UNKNOWN, ZERO
from ioh.tui.render.line import Line


@dataclass(frozen=True, slots=True)
class Column:
    """One number of each op.

    Shape:
        ``cell`` makes its text; ``rank`` says how soon it is left out: the largest first,
        0 last of all; ``style`` names how it looks.
    """

    title: str
    width: int
    cell: Callable[[OpStats], str]
    rank: int = 0
    style: str = ""


def width_of(columns: Sequence[Column]) -> int:
    """Columns of the terminal that they take, each with a space before it."""
    return sum(column.width + 1 for column in columns)


def fitting(columns: Sequence[Column], room: int) -> list[Column]:
    """The columns that fit ``room`` columns of the terminal."""
    kept = list(columns)
    while kept and width_of(kept) > room:
        worst = max(kept, key=lambda c: c.rank)
        if worst.rank == 0:
            kept.pop()  # half a number would be another number
        else:
            kept.remove(worst)
    return kept


def titles(columns: Sequence[Column], line: Line) -> Line:
    """The headings, appended to ``line``."""
    for column in columns:
        line.cell(column.title, column.width, "head")
    return line


def cells(columns: Sequence[Column], stats: OpStats, line: Line, style: str = "") -> Line:
    """An op's numbers, appended to ``line``; ``style`` instead of each column's own.

    What is not known is ``.`` where nothing was done.
    """
    for column in columns:
        text = column.cell(stats)
        if text == UNKNOWN and stats.count == 0:
            text = ZERO
        shown = style or ("dim" if text in {ZERO, UNKNOWN} else column.style)
        line.cell(text, column.width, shown)
    return line
