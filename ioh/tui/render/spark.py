"""Trends and bar charts from a row of values."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.sinks.cells import format_scaled
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line

Values = Sequence[float | None]


def render_bars(values: Values, height: int, glyphs: Glyphs, *, gap: bool = False) -> list[str]:
    """A bar for each value, on so many lines, the upper ones first.

    Args:
        values: Oldest first; nothing is drawn where one is not known.
        height: Lines.
        glyphs: Characters to draw with.
        gap: Whether the highest bar ends below its line's upper edge, apart from what is above.
    """
    highest = max((v for v in values if v is not None), default=0.0)
    full = len(glyphs.bars) - 1
    eighths = [0] * len(values)
    if highest > 0:  # divided first: 1 / highest may be more than a number can be
        most = height * full - gap
        eighths = [max(1, round(v / highest * most)) if v else 0 for v in values]
    bars = glyphs.bars
    return [
        "".join([bars[max(0, min(full, high - floor))] for high in eighths])
        for floor in range((height - 1) * full, -1, -full)
    ]


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
    lines = []
    for row, text in enumerate(render_bars(shown, height, glyphs)):
        label = format_scaled(highest) if row == 0 else ("0" if row == height - 1 else "")
        lines.append(Line().right(label, label_width, "dim").add(" ").add(text, style))
    return lines
