"""The common parts of all layers' boxes: a title with numbers, a middle, trends, a lower border."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import format_duration, format_ms, format_scaled, safe_name
from ioh.sinks.rows import direction
from ioh.terminal.line import Line, ScreenFrame, Span
from ioh.tui.history import Measure, series
from ioh.tui.render.fan_out import fan_out
from ioh.tui.render.findings import reasons
from ioh.tui.render.histogram import SIZE_COLUMNS, Axis, axis_for
from ioh.tui.render.trends import (
    TREND_INTERVALS,
    TREND_STYLES,
    Values,
    first_known,
    length_text,
    render_braille,
)
from ioh.tui.render.zoom import LayersView, op_style
from ioh.tui.rows import layer_number, megabytes

SIDES = 4  # columns of a box's sides, each with a space
SIZES = 3 + SIZE_COLUMNS  # columns of an op's letter, a size and a space
_LABEL, _THEN, _NOW, _PEAK = 7, 6, 6, 8  # columns of a trend's name and numbers
_MIN_MIDDLE = 3  # lines


class Trend(NamedTuple):
    """One number over time; the largest ``rank`` is left out first."""

    label: str
    style: str
    values: Values
    text: Callable[[Value], str]
    rank: int = 0


class Box(NamedTuple):
    """How to draw layers of one kind.

    Shape:
        ``title`` yields the numbers of each op, the first that fit are shown; ``middle`` gets the
        axis of its histogram, its columns and its lines.
    """

    title: Callable[[LayersView, LayerSnapshot], Sequence[Line]]
    trends: Callable[[LayersView, LayerSnapshot], list[Trend]]
    middle: Callable[[LayersView, LayerSnapshot, Axis, int, int], list[Line]]


def axis_line(axis: Axis) -> Line:
    """The heading of a box's histogram."""
    return Line(" " * (SIZES - 4)).add(axis.heading(4), "dim")


def boxed(  # noqa: PLR0913, PLR0917
    box: Box,
    view: LayersView,
    layer: LayerSnapshot,
    trends: Sequence[Trend],
    width: int,
    height: int,
) -> ScreenFrame:
    """A layer's box with trends_of() it."""
    style, inner = border_of(view, layer.spec.name), width - SIDES
    count = min(len(trends) + 1, max(1, height - 2 - _MIN_MIDDLE))
    axis = axis_for(max(4, inner - SIZES))
    lines = box.middle(view, layer, axis, inner, height - 2 - count)[: height - 2 - count]
    spare = max(0, height - 2 - len(lines))
    has_head = spare > min(len(trends), _MIN_MIDDLE - 1)  # rather than a third trend
    lines += render_trend_lines(trends, view, inner, spare, has_head=has_head)
    lines += [Line() for _ in range(height - 2 - len(lines))]
    frame = ScreenFrame([_title(box, view, layer, width)])
    for line in lines:
        frame.add(Line("│", style).add(" ").extend(line.fitted(inner)).add(" ").add("│", style))
    frame.add(_lower_border(view, layer, width))
    return frame


def _title(box: Box, view: LayersView, layer: LayerSnapshot, width: int) -> Line:
    """``╭ 5 block ─ R 158  2.37 ms ─ W 7.19  3.54 ms ──╮``."""
    name = layer.spec.name
    style, line = border_of(view, name), Line("╭", border_of(view, name))
    line.add(f" {layer_number(view.snapshot, name)} ", "key").add(
        f"{safe_name(layer.spec.title)} ", "title"
    )
    for text, kind in reasons(view.snapshot.findings, name)[:1]:  # the lower border has its title
        line.add(f"{text[1]} ", kind)
    for piece in box.title(view, layer):
        if line.width + piece.width + 4 > width:
            break
        line.add("─ ", style).extend(piece).add(" ")
    return (
        line.fitted(min(line.width, width - 1))
        .add("─" * (width - 1 - line.width), style)
        .add("╮", style)
    )


def _lower_border(view: LayersView, layer: LayerSnapshot, width: int) -> Line:
    """Findings, and operations in the next layer."""
    style, line = border_of(view, layer.spec.name), Line("╰", border_of(view, layer.spec.name))
    line.add_all(fan_out(view.snapshot, layer, width - 3))
    return line.add("─" * (width - 1 - line.width), style).add("╯", style).fitted(width)


def render_trend_lines(
    trends: Sequence[Trend],
    view: LayersView,
    width: int,
    height: int,
    *,
    has_head: bool = False,
) -> list[Line]:
    """A line each for the trends that fit; with ``has_head`` above them what the columns are.

    The value when the trend begins, if the heading tells that time, a minute in braille, the value
    now, the peak.
    """
    kept = sorted(trends, key=lambda trend: trend.rank)[: max(0, height - has_head)]
    kept = [each for each in trends if each in kept]
    has_peak = width >= 50  # columns
    label = max([_LABEL, *(len(each.label) + 1 for each in kept)])
    columns = max(1, min(TREND_INTERVALS // 2, width - label - _THEN - _NOW - _PEAK * has_peak))
    begin, lines = first_known(view.points), list[Line]()
    if has_head:
        length = length_text(view.points, TREND_INTERVALS)
        head = Line().right(length and f"{length} ago", label + _THEN - 1, "head")
        head.to(label + _THEN + columns).right("now", _NOW, "head")
        lines.append(head.right("peak", _PEAK, "head") if has_peak else head)
    for trend in kept:
        values = trend.values[-TREND_INTERVALS:]
        then = trend.text(values[begin]) if has_head and -len(values) <= begin < -1 else ""
        line = Line().left(trend.label, label, "dim").right(then, _THEN - 1, "dim").add(" ")
        line.add(render_braille(trend.values, columns, view.tick), trend.style)
        line.right(trend.text(values[-1] if values else None), _NOW, "strong")
        if has_peak:
            highest = max((value for value in values if value is not None), default=None)
            line.right(trend.text(highest), _PEAK, "dim")
        lines.append(line)
    return lines


def trends_of(box: Box, view: LayersView, layer: LayerSnapshot) -> list[Trend]:
    """A box's trends, without those that were always 0, unless all were."""
    trends = box.trends(view, layer)
    return [t for t in trends if {*t.values[-TREND_INTERVALS:]} - {None} != {0.0}] or trends


TEXTS: dict[Measure, Callable[[Value], str]] = {
    "bytes_per_s": megabytes,
    "ops_per_s": format_scaled,
    "latency_us": format_ms,
}


def trend_of(  # noqa: PLR0913, PLR0917 (one argument per thing that differs)
    view: LayersView, key: tuple[str, str], measure: Measure, label: str, rank: int, style: str = ""
) -> Trend:
    """One number of one op over time."""
    where = direction(key[1])
    values = series(view.points, key, measure)
    return Trend(label, style or TREND_STYLES[where], values, TEXTS[measure], rank)


def op_piece(view: LayersView, key: tuple[str, str], word: str, *numbers: Span) -> Line:
    """An op's letter or word and its numbers, for a title."""
    line = Line(word, op_style(view, key))
    for text, style in numbers:
        line.add(" ").add(text, style)
    return line


def rate_and_mean(stats: OpStats, *, has_bytes: bool = True) -> list[Span]:
    """MB/s or a rate, and the mean time or what failed."""
    rate = megabytes(stats.bytes_per_s) if has_bytes else f"{format_scaled(stats.ops_per_s)}/s"
    if stats.errors_per_s:
        return [(rate, "strong"), (f"{format_scaled(stats.errors_per_s)} err/s", "crit")]
    return [(rate, "strong"), (format_duration(stats.latency_us), "strong")]


def border_of(view: LayersView, name: str) -> str:
    """The style of a box's border."""
    return "accent" if view.state.chosen[0] == name else "rule"
