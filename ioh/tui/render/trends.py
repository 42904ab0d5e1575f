"""Bars: a layer's last minute in one line, and charts of it."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.sinks.cells import format_scaled
from ioh.tui.history import TrendPoint
from ioh.tui.render.glyphs import ASCII_BARS, BARS
from ioh.tui.render.line import Line

Values = Sequence[float | None]

TREND_INTERVALS = 60
STYLES = {"R": "read", "W": "write", "": "other"}
TREND_STYLES = {"R": "trend_r", "W": "trend_w", "": "trend_o"}
_USUAL = 4  # intervals from which the middle one is usual: the first ones are short
_SCALE = 8  # columns of a chart's numbers


def render_bars(
    values: Values, height: int, *, is_ascii: bool = False, gap: bool = False
) -> list[str]:
    """A bar for each value, ``height`` lines from the top, none where a value is not known.

    With ``gap`` the highest bar ends below its line's upper edge, apart from what is above.
    """
    highest = max((v for v in values if v is not None), default=0.0)
    bars = ASCII_BARS if is_ascii else BARS
    full = len(bars) - 1
    eighths = [0] * len(values)
    if highest > 0:  # divided first: 1 / highest may be more than a number can be
        most = height * full - gap
        eighths = [max(1, round(v / highest * most)) if v else 0 for v in values]
    return [
        "".join([bars[max(0, min(full, high - floor))] for high in eighths])
        for floor in range((height - 1) * full, -1, -full)
    ]


def render_chart(
    values: Values, width: int, height: int, style: str = "", *, is_ascii: bool = False
) -> list[Line]:
    """A bar chart of ``width`` columns, the newest value at the right, its scale at the left."""
    columns = max(1, width - _SCALE - 1)
    known = list(values[-columns:])
    shown: list[float | None] = [*[None] * (columns - len(known)), *known]
    highest = max((v for v in shown if v is not None), default=0.0)
    lines = []
    for row, text in enumerate(render_bars(shown, height, is_ascii=is_ascii)):
        label = format_scaled(highest) if row == 0 else ("0" if row == height - 1 else "")
        lines.append(Line().right(label, _SCALE, "dim").add(" ").add(text, style))
    return lines


def per_column(width: int) -> int:
    """How many intervals each of ``width`` columns stands for."""
    return max(1, round(TREND_INTERVALS / max(1, width)))


def binned(values: Values, width: int, tick: int) -> list[float | None]:
    """The newest ``values``, up to number ``tick``, in ``width`` columns: means of those known.

    Which column an interval is in depends on its number alone: bars move on one column at a time
    and do not change on the way.
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


def render_trend(values: Values, width: int, tick: int, *, is_ascii: bool) -> str:
    """The newest values as bars in one line."""
    return render_bars(binned(values, width, tick), 1, is_ascii=is_ascii, gap=True)[0]


def length_text(points: Sequence[TrendPoint | None], width: int) -> str:
    """How long the trends are: ``60s``; "" where that is not known yet."""
    shown = points[-width * per_column(width) :]
    known = [point.interval_s for point in shown if point is not None]
    if len(known) < min(_USUAL, len(shown)) or not known:
        return ""
    usual = sorted(known)[len(known) // 2]  # one may be long, as when nothing was measured
    seconds = usual * len(shown)
    return f"{seconds:.{0 if seconds >= 1 else 1}f}s"
