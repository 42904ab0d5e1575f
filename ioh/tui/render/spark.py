"""Sparklines and bar charts from a row of values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from ioh.sinks.cells import format_scaled
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line

Values = Sequence[float | None]


def resampled(values: Values, width: int) -> list[float | None]:
    """``values`` in ``width`` columns: each the mean of those it stands for, None where none is."""
    count = len(values)
    if count == width or not width:
        return list(values[:width])
    made: list[float | None] = []
    for part in _parts(count, width):
        known = [value for value in values[part] if value is not None]
        made.append(sum(known) / len(known) if known else None)
    return made


@lru_cache(maxsize=8)
def _parts(count: int, width: int) -> tuple[slice, ...]:
    """Which of ``count`` values each of ``width`` columns stands for; every row asks the same."""
    starts = [column * count // width for column in range(width + 1)]
    return tuple([slice(a, max(a + 1, b)) for a, b in itertools.pairwise(starts)])


def render_spark(values: Values, glyphs: Glyphs, top: float | None = None) -> str:
    """One character a value, its height the share of the largest one (or of ``top``).

    Returns:
        A space where a value is not known, and the lowest bar for anything above 0.
    """
    known = [v for v in values if v]
    highest = top if top is not None else max(known, default=0.0)
    full = len(glyphs.bars) - 1
    text = ""
    for value in values:
        if not value or highest <= 0:
            text += " "
        else:
            text += glyphs.bars[max(1, min(full, round(value / highest * full)))]
    return text


def render_chart(
    values: Values, width: int, height: int, glyphs: Glyphs, style: str = ""
) -> list[Line]:
    """A bar chart, newest value at the right, with its scale at the left.

    Args:
        values: One for each interval, oldest first; None where not known.
        width: Columns of the whole, the scale's included.
        height: Lines.
        glyphs: Characters to draw with.
        style: Of the bars.
    """
    label_width = 8
    columns = max(1, width - label_width - 1)
    known = list(values[-columns:])
    shown: list[float | None] = [*[None] * (columns - len(known)), *known]
    highest = max((v for v in shown if v is not None), default=0.0)
    full = len(glyphs.bars) - 1
    lines = []
    for row in range(height):
        label = format_scaled(highest) if row == 0 else ("0" if row == height - 1 else "")
        line = Line().right(label, label_width, "dim").add(" ")
        floor = height - 1 - row
        text = ""
        for value in shown:
            eighths = round((value or 0.0) / highest * height * full) if highest > 0 else 0
            inside = min(full, max(0, eighths - floor * full))
            if floor == 0 and value and not inside:
                inside = 1
            text += glyphs.bars[inside]
        lines.append(line.add(text, style))
    return lines
