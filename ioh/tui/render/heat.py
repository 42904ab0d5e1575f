"""Latency over time as a heat map: columns are intervals, rows times, colour how many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line
from ioh.tui.render.sizelat import HEAT_LEVELS, column_label, heat_level, heat_scale, shade

_LABEL = 5
_LEVELS = range(HEAT_LEVELS)


def render_heat_map(
    intervals: Sequence[tuple[int, ...] | None],
    width: int,
    height: int,
    glyphs: Glyphs,
    lengths_s: Sequence[float | None] = (),
) -> list[Line]:
    """The newest intervals that fit, the latest at the right; a space where nothing is known.

    Args:
        intervals: Counts by LATENCY_EDGES_US of each interval, oldest first; ``()`` for none.
        width: Columns, the labels' included.
        height: Lines, the time axis' included; where not all times fit, each line stands for
            two or more of them, its label being the longest.
        glyphs: Characters to draw with.
        lengths_s: Of each interval, for the time axis; those not known as long as the others.
    """
    columns = max(1, width - _LABEL - 1)
    known = list(intervals[-columns:])
    shown: list[tuple[int, ...] | None] = [*[None] * (columns - len(known)), *known]
    found = [counts for counts in shown if counts]
    used = [b for b, total in enumerate(map(sum, zip(*found, strict=True))) if total]
    if not used:
        return [Line("no operations with a known latency in this time", "dim")]
    low, high = used[0], used[-1]
    step = -(-(high - low + 1) // max(1, height - 1))
    starts = range(low, high + 1, step)
    nothing = (0,) * (high + 1)
    by_bucket = list(zip(*((counts or nothing)[low : high + 1] for counts in shown), strict=True))
    rows = [
        list(map(sum, zip(*by_bucket[at : at + step], strict=True)))
        for at in range(0, len(by_bucket), step)
    ]
    scale = heat_scale(max(map(max, rows)))
    shades = [(shade(level, glyphs), f"heat{level}" if level else "") for level in _LEVELS]
    lines = []
    for start, row in zip(reversed(starts), reversed(rows), strict=True):
        label = column_label(min(start + step - 1, high))
        line = Line().right(label, _LABEL, "head").add(" ")
        for level, run in groupby([heat_level(count, scale) for count in row]):
            char, style = shades[level]
            line.add(char * len(list(run)), style)
        lines.append(line)
    lines.append(_axis(columns, lengths_s))
    return lines


def _axis(columns: int, lengths_s: Sequence[float | None]) -> Line:
    newest = [*[None] * (columns - len(lengths_s)), *lengths_s[-columns:]]
    known = sorted(length for length in newest if length is not None)
    usual = known[len(known) // 2] if known else 1.0
    spent = [usual if length is None else length for length in newest]
    right_half = spent[columns - columns // 2 :]
    left, middle = f"-{sum(spent):.0f} s", f"-{sum(right_half):.0f} s"
    line = Line().to(_LABEL + 1)
    line.add(left, "dim").to(_LABEL + 1 + columns // 2 - len(middle) // 2).add(middle, "dim")
    return line.to(_LABEL + 1 + columns - 3).add("now", "dim")
