"""Columns of a table of ops: which ones fit a width; the least useful is left out first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ioh.model.snapshot import OpStats
from ioh.sinks.cells import UNKNOWN, ZERO, format_scaled
from ioh.terminal.line import Line


@dataclass(frozen=True, slots=True)
class Column:
    """One number of each op.

    Shape:
        ``cell`` makes its text; the largest ``rank`` is left out first, 0 last; ``style`` is a
        name in theme.py.
    """

    title: str
    width: int
    cell: Callable[[OpStats], str]
    rank: int = 0
    style: str = ""


ERRORS = Column("err/s", 5, lambda s: format_scaled(s.errors_per_s), style="crit")


def width_of(columns: Sequence[Column]) -> int:
    """Terminal columns that they take, each with a space before it."""
    return sum(column.width + 1 for column in columns)


def fitting(columns: Sequence[Column], room: int) -> list[Column]:
    """The columns that fit ``room`` terminal columns."""
    kept = list(columns)
    while kept and width_of(kept) > room:
        worst = max(kept, key=lambda c: c.rank)
        if worst.rank == 0:
            kept.pop()  # half a number would be a wrong number
        else:
            kept.remove(worst)
    return kept


def with_errors(columns: Sequence[Column], shown: Iterable[OpStats]) -> list[Column]:
    """The same, with errors among the columns that stay, if any op has some."""
    if not any(stats.errors_per_s for stats in shown):
        return list(columns)
    return [*(column for column in columns if column.title != ERRORS.title), ERRORS]


def titles(columns: Sequence[Column], line: Line) -> Line:
    """Append the headings to ``line``."""
    for column in columns:
        line.cell(column.title, column.width, "head")
    return line


def cells(columns: Sequence[Column], stats: OpStats, line: Line, style: str = "") -> Line:
    """Append an op's numbers to ``line``; ``style`` replaces each column's own.

    An unknown number is ``.`` if there were no operations.
    """
    for column in columns:
        text = column.cell(stats)
        if text == UNKNOWN and stats.count == 0:
            text = ZERO
        is_bad = column is ERRORS and stats.errors_per_s
        shown = (not is_bad and style) or ("dim" if text in {ZERO, UNKNOWN} else column.style)
        line.cell(text, column.width, shown)
    return line
