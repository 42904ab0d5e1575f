"""The common parts of all layers' boxes: three blocks side by side, a title with numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import ZERO, format_ms, format_scaled, safe_name
from ioh.sinks.rows import direction
from ioh.tui.history import Measure, series
from ioh.tui.render.findings import reasons
from ioh.tui.render.histogram import SIZE_COLUMNS, Axis, axis_for
from ioh.tui.render.line import GAP, Line, ScreenFrame, beside
from ioh.tui.render.trends import (
    TREND_INTERVALS,
    TREND_STYLES,
    Values,
    binned,
    length_text,
    per_column,
    render_bars,
)
from ioh.tui.render.who import breakdown_rows
from ioh.tui.render.zoom import LayersView, op_style
from ioh.tui.rows import layer_number, megabytes

_NAME = 15  # columns of a layer's number and title
_LETTER = 3  # columns of an op's letter or word
_ALL, _PERCENTILE = 110, 90  # columns needed for the rate and for the percentile in a title
SIZES = 3 + SIZE_COLUMNS  # columns of an op's letter, a size and a space
TABLE_FROM, _MIN_TABLE = 90, 30
_MAX_TREND = 74
_LABEL, _PEAK = 9, 6  # of a trend


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
        ``title`` gets the box's width; ``middle`` the axis of all histograms, its columns and
        its lines; below ``table_from`` columns there is no table.
    """

    title: Callable[[LayersView, LayerSnapshot, int], Line]
    trends: Callable[[LayersView, LayerSnapshot], list[Trend]]
    middle: Callable[[LayersView, LayerSnapshot, Axis, int, int], list[Line]]
    table_from: int = TABLE_FROM


def axis_line(axis: Axis) -> Line:
    """The heading of a box's histogram."""
    return Line(" " * (SIZES - 4)).add(axis.heading(4), "dim")


def content_of(
    box: Box, view: LayersView, layer: LayerSnapshot, width: int, height: int
) -> ScreenFrame:
    """Trends, the box's middle and the busiest rows, side by side.

    A narrow box has no rows unless they have the focus.
    """
    is_asked = view.state.focus == "top" and view.state.chosen[0] == layer.spec.name
    has_table = bool(layer.spec.tables) and (width >= box.table_from or is_asked)
    # The same axis for all boxes of this width.
    room = min(width - SIZES, width // 2 if width < 60 else width)
    axis = axis_for(max(4, room), 1 + (width >= 150) + (width >= 230))
    left, center, right = _block_widths(width, axis, has_table=has_table)
    trends = _render_trends(box.trends(view, layer), view, left, height)
    middle = box.middle(view, layer, axis, center, height)
    pieces = [(ScreenFrame(trends), left), (ScreenFrame(middle), center)]
    if right:
        pieces.append((breakdown_rows(view, layer, right, height), right))
    made, width = ScreenFrame(), 0
    for piece, columns in pieces:
        if columns > 0:
            made = beside(made, width, piece) if width else piece
            width += columns + (GAP if width else 0)
    return made


def _block_widths(inner: int, axis: Axis, *, has_table: bool) -> tuple[int, int, int]:
    """Columns of the trends, the middle and the table; 0 or less: left out."""
    middle = min(inner, SIZES + axis.width)
    rest = inner - middle - GAP
    if inner < TABLE_FROM:
        return (0, middle, rest) if has_table else (rest, middle, 0)
    table = max(_MIN_TABLE, (rest - GAP) * 11 // 20)
    trends = min(_MAX_TREND, rest - GAP - table)
    return trends, middle, rest - GAP - trends


def _render_trends(
    trends: Sequence[Trend], view: LayersView, width: int, height: int
) -> list[Line]:
    """A heading and the trends that fit, higher if there is room, with the peak.

    A number that was always 0 has no trend.
    """
    columns = max(1, min(TREND_INTERVALS, width - _LABEL - _PEAK))
    room = max(1, height - 1)
    trends = [t for t in trends if {*t.values[-TREND_INTERVALS:]} - {None} != {0.0}] or trends
    kept = sorted(trends, key=lambda trend: trend.rank)[:room]
    shown = [trend for trend in trends if trend in kept]
    each = max(1, min(4, room // max(1, len(shown))))
    head = Line().left(length_text(view.points, columns), _LABEL + columns, "dim")
    lines = [head.right("peak", _PEAK, "dim")]
    for trend in shown:
        values = binned(trend.values, columns, view.tick)
        *upper, last = render_bars(values, each, gap=True)
        lines += [Line().left("", _LABEL, "dim").add(text, trend.style) for text in upper]
        line = Line().left(trend.label, _LABEL, "dim").add(last, trend.style)
        known = (v for v in trend.values[-columns * per_column(columns) :] if v is not None)
        lines.append(line.right(trend.text(max(known, default=None)), _PEAK, "dim"))
    return lines


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


def begin_title(view: LayersView, layer: LayerSnapshot) -> Line:
    """The layer's number (the key that zooms into it) and its title."""
    name = layer.spec.name
    line = Line(f" {layer_number(view.snapshot, name)} ", "key")
    line.add(f"{safe_name(layer.spec.title, _NAME - 4)} ", "title")
    for text, style in reasons(view.snapshot.findings, name)[:1]:  # the lower border has its title
        line.add(f"{text[1]} ", style)
    return line.add("─" * (_NAME - line.width), border_of(view, name))


def add_letter(
    view: LayersView, line: Line, key: tuple[str, str], letter: str, *, is_first: bool
) -> Line:
    """Append an op's letter or word to a title."""
    line.add("─" * (_LETTER - len(letter) + (not is_first)), border_of(view, key[0]))
    return line.add(" ").add(letter, op_style(view, key))


def add_rates(line: Line, stats: OpStats, width: int, *, has_bytes: bool = True) -> Line:
    """Append an op's throughput and, if there is room, its rate to a title."""
    if not has_bytes:
        return line.right(format_scaled(stats.ops_per_s), 6, "strong").add("/s", "dim")
    line.right(megabytes(stats.bytes_per_s), 6, "strong").add(" MB/s", "dim")
    if width >= _ALL:
        line.right(format_scaled(stats.ops_per_s), 6).add("/s", "dim")
    return line


def add_latency(line: Line, stats: OpStats, width: int) -> Line:
    """Append an op's mean time and, if there is room, a percentile to a title.

    Errors take the place of the last one of them.
    """
    if width >= _PERCENTILE or not stats.errors_per_s:
        line.right(format_ms(stats.latency_us), 7, "strong").add(" ms", "dim")
    if stats.errors_per_s:
        end = 5 + (width >= _PERCENTILE)  # as wide as what it replaces
        return line.right(format_scaled(stats.errors_per_s), end, "crit").add(" err/s", "crit")
    if width >= _PERCENTILE:
        line.add("  p99", "dim").right(format_ms(stats.p99_us), 6)
    return line.add(" ")


def add_numbers(line: Line, stats: OpStats, numbers: Line, border: str, waiting: str = "") -> Line:
    """Append an op's numbers to a title; if none has ended, what waits, or a dot."""
    if stats.count != 0 or stats.errors_per_s:
        return line.extend(numbers)
    if waiting:
        line.add(" ").add(waiting, "warn").add(" ")
        return line.add("─" * max(0, numbers.width - len(waiting) - 2), border)
    return line.right(ZERO, 6, "dim").add(" ").add("─" * (numbers.width - 7), border)


def border_of(view: LayersView, name: str) -> str:
    """The style of a box's border."""
    return "accent" if view.state.chosen[0] == name else "rule"
