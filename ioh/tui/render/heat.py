"""Latency over time as a heat map: columns are intervals, rows times, colour how many."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line
from ioh.tui.render.sizelat import HEAT_LEVELS, column_label, heat_level

_LABEL = 5


def render_heat_map(
    intervals: Sequence[tuple[int, ...] | None], width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    """The newest intervals that fit, the latest at the right; ``·`` where nothing is known.

    Args:
        intervals: Counts by LATENCY_EDGES_US of each interval, oldest first; ``()`` for none.
        width: Columns, the labels' included.
        height: Lines, the time axis' included; times that do not fit are joined with the
            outermost rows.
        glyphs: Characters to draw with.
    """
    columns = max(1, width - _LABEL - 1)
    known = list(intervals[-columns:])
    shown: list[tuple[int, ...] | None] = [*[None] * (columns - len(known)), *known]
    used = [b for counts in shown if counts for b, count in enumerate(counts) if count]
    if not used:
        return [Line("no operations with a known latency in this time", "dim")]
    low, high = min(used), max(used)
    rows = max(1, height - 1)
    while high - low + 1 > rows:  # the fastest say least
        low += 1
    largest = max(
        max(_at(counts, bucket, low, high) for bucket in range(low, high + 1))
        for counts in shown
        if counts
    )
    lines = []
    for bucket in range(high, low - 1, -1):
        line = Line().right(column_label(bucket), _LABEL, "head").add(" ")
        for counts in shown:
            if counts is None:
                line.add(" ")
                continue
            level = heat_level(_at(counts, bucket, low, high) if counts else 0, largest)
            line.add(_shade(level, glyphs), f"heat{level}" if level else "dim")
        lines.append(line)
    lines.append(_axis(shown, columns))
    return lines


def _at(counts: tuple[int, ...], bucket: int, low: int, high: int) -> int:
    if bucket == low:
        return sum(counts[: low + 1])
    return sum(counts[high:]) if bucket == high else counts[bucket]


def _shade(level: int, glyphs: Glyphs) -> str:
    full = len(glyphs.shades) - 1
    return glyphs.shades[0 if not level else max(1, round(level / (HEAT_LEVELS - 1) * full))]


def _axis(shown: Sequence[object], columns: int) -> Line:
    left = f"-{len(shown)}"
    middle = f"-{len(shown) // 2}"
    line = Line().to(_LABEL + 1)
    line.add(left, "dim").to(_LABEL + 1 + columns // 2 - len(middle) // 2).add(middle, "dim")
    return line.to(_LABEL + 1 + columns - 3).add("now", "dim")
