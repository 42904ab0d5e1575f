"""Trends: a layer's last minute as bars, each column the same intervals until it is full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ioh.model.sample import Value
from ioh.tui.history import TrendPoint
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line
from ioh.tui.render.spark import Values, render_bars

TREND_INTERVALS = 60
STYLES = {"R": "read", "W": "write", "": "other"}
TREND_STYLES = {"R": "trend_r", "W": "trend_w", "": "trend_o"}
_LABEL, _PEAK = 9, 6
_USUAL = 4  # intervals from which the middle one is usual: the first ones are short


@dataclass(frozen=True, slots=True)
class Trend:
    """One number over time.

    Shape:
        ``rank`` says how soon it is left out where not all fit, the largest first.
    """

    label: str
    style: str
    values: Values
    text: Callable[[Value], str]
    rank: int = 0


def per_column(width: int) -> int:
    """How many intervals each of ``width`` columns stands for."""
    return max(1, round(TREND_INTERVALS / max(1, width)))


def binned(values: Values, width: int, tick: int) -> list[float | None]:
    """The newest ``values`` in ``width`` columns, each the mean of those that are known.

    Which column an interval is in depends on its number alone: bars move on one column at a time
    and do not change on the way.

    Args:
        values: Of the intervals up to ``tick``.
        width: Columns.
        tick: The number of the newest one.
    """
    each = per_column(width)
    if each == 1:
        newest = list(values[-width:])
    else:
        begin = len(values) - 1 - tick % each - (width - 1) * each
        newest = []
        for at in range(begin, len(values), each):
            known = [v for v in values[max(0, at) : max(0, at + each)] if v is not None]
            newest.append(sum(known) / len(known) if known else None)
    return [*[None] * (width - len(newest)), *newest]


def length_text(points: Sequence[TrendPoint | None], width: int) -> str:
    """How long the trends are: ``60s``; "" where that is not known yet."""
    shown = points[-width * per_column(width) :]
    known = [point.interval_s for point in shown if point is not None]
    if len(known) < min(_USUAL, len(shown)) or not known:
        return ""
    usual = sorted(known)[len(known) // 2]  # one may be long, as when nothing was measured
    seconds = usual * len(shown)
    return f"{seconds:.{0 if seconds >= 1 else 1}f}s"


def render_trends(
    trends: Sequence[Trend],
    points: Sequence[TrendPoint | None],
    tick: int,
    size: tuple[int, int],
    glyphs: Glyphs,
) -> list[Line]:
    """A heading and the trends that fit, higher where there is room, with the highest value.

    The highest of the single intervals: a column may be the mean of some.  What was nothing all
    the time has none.

    Args:
        trends: In the order shown.
        points: The intervals that they are about.
        tick: The number of the newest.
        size: Columns and lines.
        glyphs: Characters to draw with.
    """
    width, height = size
    columns = max(1, min(TREND_INTERVALS, width - _LABEL - _PEAK))
    room = max(1, height - 1)
    trends = [trend for trend in trends if not _is_nothing(trend.values)] or trends
    kept = sorted(range(len(trends)), key=lambda at: trends[at].rank)[:room]
    shown = [trends[at] for at in sorted(kept)]
    each = max(1, min(4, room // max(1, len(shown))))
    head = Line().left(length_text(points, columns), _LABEL + columns, "dim")
    lines = [head.right("peak", _PEAK, "dim")]
    for trend in shown:
        values = binned(trend.values, columns, tick)
        bars = render_bars(values, each, glyphs, gap=True)
        for at, text in enumerate(bars):
            line = Line().left(trend.label if at == each - 1 else "", _LABEL, "dim")
            line.add(text, trend.style)
            if at == each - 1:
                shown_values = trend.values[-columns * per_column(columns) :]
                peak = max((v for v in shown_values if v is not None), default=None)
                line.right(trend.text(peak), _PEAK, "dim")
            lines.append(line)
    return lines


def _is_nothing(values: Values) -> bool:
    known = {value for value in values[-TREND_INTERVALS:] if value is not None}
    return known == {0.0}
