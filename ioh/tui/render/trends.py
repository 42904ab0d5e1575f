"""Bars: trends of one or a few lines, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ioh.sinks.cells import format_scaled
from ioh.terminal.line import Line
from ioh.tui.history import TrendPoint
from ioh.tui.render.glyphs import BARS, BRAILLE

T = TypeVar("T")
Values = Sequence[float | None]

TREND_INTERVALS = 60
STYLES = {"R": "read", "W": "write", "": "other"}
TREND_STYLES = {"R": "trend_r", "W": "trend_w", "": "trend_o"}
_SCALE = 8  # columns of a chart's numbers


def render_bars(values: Values, height: int) -> list[str]:
    """A bar for each value in ``height`` lines, top first; no bar for an unknown value."""
    highest = max((v for v in values if v is not None), default=0.0)
    full = len(BARS) - 1
    eighths = [0] * len(values)
    if highest > 0:  # divide first: 1 / highest may overflow
        eighths = [max(1, round(v / highest * height * full)) if v else 0 for v in values]
    return [
        "".join([BARS[max(0, min(full, high - floor))] for high in eighths])
        for floor in range((height - 1) * full, -1, -full)
    ]


def render_chart(values: Values, width: int, height: int, style: str = "") -> list[Line]:
    """A bar chart of ``width`` columns, newest value at the right, scale at the left."""
    shown = newest(values, max(1, width - _SCALE - 1))
    highest = max((v for v in shown if v is not None), default=0.0)
    lines = []
    for row, text in enumerate(render_bars(shown, height)):
        label = format_scaled(highest) if highest and row == 0 else "0" * (row == height - 1)
        lines.append(Line().right(label, _SCALE, "dim").add(" ").add(text, style))
    return lines


def per_column(width: int) -> int:
    """How many intervals each of ``width`` columns has."""
    return max(1, round(TREND_INTERVALS / max(1, width)))


def newest(values: Sequence[T | None], count: int) -> list[T | None]:
    """The last ``count`` values, with None for the missing ones before them."""
    known = values[-count:]
    return [*[None] * (count - len(known)), *known]


def binned(values: Values, width: int, tick: int, *, group: int = 1) -> list[float | None]:
    """The newest ``values``, up to number ``tick``, in ``width`` bars: the largest of each.

    An interval's bar depends only on its number: bars move by ``group`` and do not change.
    """
    each = per_column(width)
    end = len(values) + each * group - 1 - tick % (each * group)
    if each == 1:
        known = values[max(0, end - width) : end]
        missing: list[float | None] = [None] * (end - len(values))
        return [*newest(known, width - len(missing)), *missing]
    ranges = (values[max(0, at) : max(0, at + each)] for at in range(end - width * each, end, each))
    return [max((v for v in part if v is not None), default=None) for part in ranges]


def render_braille(values: Values, width: int, tick: int) -> str:
    """The newest values in one line, two bars of four levels a character; none if unknown."""
    bars = binned(values, 2 * width, tick, group=2)
    highest = max((v for v in bars if v is not None), default=0.0)
    full = len(BRAILLE) - 1
    levels = [max(1, round(v / highest * full)) if v else 0 for v in bars]
    pairs = zip(levels[::2], levels[1::2], strict=True)
    return "".join([BRAILLE[left][right] for left, right in pairs])


def first_known(points: Sequence[TrendPoint | None]) -> int:
    """The place of the first known interval of the trends, from the end: -60 of a whole minute."""
    shown = points[-TREND_INTERVALS:]
    return next((at - len(shown) for at, x in enumerate(shown) if x is not None), -1)


def watched_s(lengths_s: Sequence[float | None]) -> list[float]:
    """The lengths since the first known one; an unknown one, in a gap, is as long as is usual."""
    first = next((at for at, x in enumerate(lengths_s) if x is not None), len(lengths_s))
    known = sorted(x for x in lengths_s if x is not None)
    return [known[len(known) // 2] if x is None else x for x in lengths_s[first:]]


def length_text(points: Sequence[TrendPoint | None], width: int) -> str:
    """The time since the first known interval began: ``60s``; "" if there is none."""
    shown = points[-width * per_column(width) :]
    seconds = sum(watched_s([None if x is None else x.interval_s for x in shown]))
    return f"{seconds:.{0 if seconds >= 1 else 1}f}s" if seconds else ""
