"""Finds the changed cells of a line, and writes them as terminal codes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual.strip import Strip

from ioh.sinks.cells import char_width, is_narrow
from ioh.terminal.line import SHOWN_ON_SPACES, Line

# Columns as (first, one past the last), from left to right, with gaps between them.
Runs = list[tuple[int, int]]

# Moving the cursor costs eight bytes, so shorter unchanged gaps are written again.
_JOIN = 8
_SAMPLE = "x"
_HALF = "\0"  # begins the second cell of a wide character
_Cell = tuple[str, str]


def changed_runs(old: Line, new: Line) -> Runs:
    """The columns that differ in two lines of the same width; runs close to each other are joined.

    A wide character is inside a run or outside, never cut: both its cells differ or none.
    """
    runs: Runs = []
    for x, (was, now) in enumerate(zip(_cells(old), _cells(new), strict=True)):
        if was == now or (was[0] == now[0] == " " and SHOWN_ON_SPACES.isdisjoint((was[1], now[1]))):
            continue
        if runs and x - runs[-1][1] < _JOIN:
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return runs


def _cells(line: Line) -> list[_Cell]:
    """The character and the style of each column."""
    if is_narrow(line.text):
        return [(char, style) for text, style in line.spans for char in text]
    cells: list[_Cell] = []
    last = 0  # columns of the character before
    for text, style in line.spans:
        for char in text:
            if width := char_width(char):
                last = width
                cells += [(char, style), (_HALF + char, style)][:width]
            else:
                cells[-last:] = [(before + char, style) for before, _ in cells[-last:]]
    return cells


class Paint:
    """The terminal codes of each named style."""

    def __init__(self, styles: Mapping[str, Style], console: Console) -> None:
        # TRUECOLOR without a terminal, as in Strip.render().
        color_system = console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001
        self.codes: dict[str, tuple[str, str]] = {}  # before and after the text
        for name, style in styles.items():
            whole = Strip.render_style(style, _SAMPLE, color_system)
            before, _, after = whole.partition(_SAMPLE)
            self.codes[name] = (before, after)


def pieces_of(line: Line, y: int, runs: Runs, paint: Paint) -> list[str]:
    """The text to write for some columns of line ``y``.

    A tick changes a hundred pieces: Strips and their caches would cost more than plain text.
    """
    cells, made = _cells(line), list[str]()
    for first, last in runs:
        made.append(f"\x1b[{y + 1};{first + 1}H")
        for style, run in groupby(cells[first:last], itemgetter(1)):
            before, after = paint.codes[style]
            text = "".join([char for char, _ in run if char[0] != _HALF])
            made.append(f"{before}{text}{after}")
    return made
