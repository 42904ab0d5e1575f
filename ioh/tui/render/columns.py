"""Columns of a table: which of them fit a width, the least useful one left out first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ioh.model.snapshot import OpStats
from ioh.sinks.cells import UNKNOWN, ZERO
from ioh.tui.render.line import Line
from ioh.tui.rows import LayerRow

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One number of each row.

    Shape:
        ``cell`` makes its text; ``rank`` says how soon it is left out: the largest first,
        0 last of all; ``style`` names how it looks.
    """

    title: str
    width: int
    cell: Callable[[Row], str]
    rank: int = 0
    style: str = ""


def of_stats(cell: Callable[[OpStats], str]) -> Callable[[LayerRow], str]:
    """A cell that is ``.`` rather than unknown where nothing was done."""

    def shown(row: LayerRow) -> str:
        text = cell(row.stats)
        return ZERO if text == UNKNOWN and row.stats.count == 0 else text

    return shown


def fitting(columns: Sequence[Column[Row]], room: int) -> list[Column[Row]]:
    """The columns that fit ``room`` columns of the terminal, each with a space before it."""
    kept = list(columns)
    while kept and sum(c.width + 1 for c in kept) > room:
        worst = max(kept, key=lambda c: c.rank)
        if worst.rank == 0:
            kept.pop()  # half a number would be another number
        else:
            kept.remove(worst)
    return kept


def titles(columns: Sequence[Column[Row]], line: Line) -> Line:
    """The headings, appended to ``line``."""
    for column in columns:
        line.cell(column.title, column.width, "head")
    return line


def cells(columns: Sequence[Column[Row]], row: Row, line: Line, style: str = "") -> Line:
    """One row's numbers, appended to ``line``; ``style`` instead of each column's own."""
    for column in columns:
        text = column.cell(row)
        shown = style or ("dim" if text in {".", "-"} else column.style)
        line.cell(text, column.width, shown)
    return line
