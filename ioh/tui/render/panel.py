"""What the panels of all layers share: the box, its numbers, and which panel a layer has.

A layer's panel is the module ``panel_NAME`` of this package where there is one; else that of all
flows or of all others.  It has ``title()`` and ``content()``, and nothing else names it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from ioh.model.metric import LayerSpec
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import ZERO, format_ms, format_scaled, format_short, safe_name
from ioh.sinks.rows import direction, is_flow
from ioh.tui.history import Measure, series
from ioh.tui.render.fan_out import fan_out
from ioh.tui.render.findings import reasons
from ioh.tui.render.line import Line, ScreenFrame, beside, clipped
from ioh.tui.render.panels import PanelView, breakdown_name, busiest
from ioh.tui.render.sizelat import SIZE_COLUMNS, Axis, axis_for
from ioh.tui.render.trends import STYLES, TREND_STYLES, Trend, render_trends

GAP = 2
SIDES = 4  # columns of the box's sides and of the space beside them
_NAME = 15  # columns of a layer's number and title
_LETTER = 3  # of an op's letter or word
_ALL, _PERCENTILE = 110, 90  # columns from which a title has the rate, too, and the percentile
SIZES = 3 + SIZE_COLUMNS  # of an op's letter, a size and a space
_TABLE_FROM, _MIN_TABLE = 90, 30
_MAX_TREND = 74


class Panel(Protocol):
    """One kind of panel."""

    def title(self, view: PanelView, layer: LayerSnapshot, width: int) -> Line:
        """The layer's numbers."""

    def content(
        self, view: PanelView, layer: LayerSnapshot, width: int, height: int
    ) -> ScreenFrame:
        """What is in the box, at most that large."""


def panel_of(spec: LayerSpec) -> Panel:
    """The panel of a layer: its own, or its kind's."""
    own = f"panel_{spec.name}"
    name = own if own in _modules() else ("panel_flow" if is_flow(spec) else "panel_ops")
    return cast("Panel", import_module(f"{__package__}.{name}"))


@cache
def _modules() -> frozenset[str]:
    package = import_module(__package__)
    return frozenset(module.name for module in pkgutil.iter_modules(package.__path__))


def axis_of(inner: int) -> Axis:
    """The latency axis of every panel ``inner`` columns wide."""
    widest = 1 + (inner >= 150) + (inner >= 230)
    return axis_for(max(4, min(inner - SIZES, inner // 2 if inner < 60 else inner)), widest)


def block_widths(inner: int, *, has_table: bool) -> tuple[int, int, int]:
    """Columns of the trends, of the histogram and of the table, 0 for one left out."""
    histogram = min(inner, SIZES + axis_of(inner).width)
    rest = inner - histogram - GAP
    if inner < _TABLE_FROM:
        return (0, histogram, rest) if has_table else (rest, histogram, 0)
    table = max(_MIN_TABLE, (rest - GAP) * 11 // 20)
    trends = min(_MAX_TREND, rest - GAP - table)
    return trends, histogram, rest - GAP - trends


def blocks(  # noqa: PLR0913
    view: PanelView,
    layer: LayerSnapshot,
    size: tuple[int, int],
    trends: Sequence[Trend],
    middle: Callable[[int], ScreenFrame],
    *,
    table_from: int = _TABLE_FROM,
) -> ScreenFrame:
    """Trends, what the ``middle`` makes of its columns, and the busiest rows, side by side.

    The rows are left out below ``table_from`` columns, unless they are walked; what has no
    column always is.
    """
    width, height = size
    is_asked = view.state.focus == "top" and view.state.chosen[0] == layer.spec.name
    has_table = bool(layer.spec.tables) and (width >= table_from or is_asked)
    left, center, right = block_widths(width, has_table=has_table)
    lines = render_trends(trends, view.points, view.tick, (left, height), view.glyphs)
    pieces = [(ScreenFrame(lines), left), (middle(center), center)]
    if right:
        pieces.append((busiest(view, layer, right, height), right))
    made, width = ScreenFrame(), 0
    for piece, columns in pieces:
        if columns > 0:
            made = beside(made, width, piece, GAP) if width else piece
            width += columns + (GAP if width else 0)
    return made


def trends_of(
    view: PanelView, key: tuple[str, str], label: str, measures: Sequence[Measure]
) -> list[Trend]:
    """An op's trends: ``R MB/s``, ``R ms``."""
    where = direction(key[1])
    made = []
    for rank, measure in enumerate(measures):
        unit, text = _TEXTS[measure]
        values = series(view.points, key, measure)
        rank_ = rank * 2 + (where == "W")
        made.append(Trend(f"{label} {unit}", TREND_STYLES[where], values, text, rank_))
    return made


def megabytes(bytes_per_s: Value) -> str:
    """A throughput in at most five columns, in 1,000,000 bytes a second."""
    return format_short(bytes_per_s / 1e6 if bytes_per_s else bytes_per_s)


_TEXTS: dict[Measure, tuple[str, Callable[[Value], str]]] = {
    "bytes_per_s": ("MB/s", megabytes),
    "ops_per_s": ("ops/s", format_scaled),
    "latency_us": ("ms", format_ms),
}


def begin_title(view: PanelView, layer: LayerSnapshot) -> Line:
    """The layer's number, as the key that zooms into it, and its title."""
    numbers = {name: at for at, name in enumerate(view.snapshot.specs, 1)}
    name = layer.spec.name
    line = Line(f" {numbers.get(name, '')} ", "key")
    line.add(f"{safe_name(layer.spec.title, _NAME - 4)} ", "title")
    for text, style in reasons(view.snapshot.findings, name)[:1]:  # the lower border says which
        line.add(f"{text[1]} ", style)
    return line.add(view.glyphs.rule * (_NAME - line.width), _border(view, name))


def add_letter(
    view: PanelView, line: Line, key: tuple[str, str], letter: str, *, is_first: bool
) -> Line:
    """An op's letter or word, marked where it is the one chosen, appended to a title."""
    is_chosen = view.state.chosen == key
    chosen = "sel" if view.state.focus == "layers" else "sel2"
    length = _LETTER - len(letter) + (0 if is_first else 1)
    line.add(view.glyphs.rule * length, _border(view, key[0])).add(" ")
    return line.add(letter, chosen if is_chosen else STYLES[direction(key[1])])


def add_rates(line: Line, stats: OpStats, width: int) -> Line:
    """An op's throughput and, where there is room, its rate, appended to a title."""
    line.right(megabytes(stats.bytes_per_s), 6, "strong").add(" MB/s", "dim")
    if width >= _ALL:
        line.right(format_scaled(stats.ops_per_s), 6).add("/s", "dim")
    return line


def op_title(line: Line, stats: OpStats, width: int) -> Line:
    """An op's numbers, appended to a title; the same columns in each panel."""
    add_rates(line, stats, width)
    line.right(format_ms(stats.latency_us), 7, "strong").add(" ms", "dim")
    if width >= _PERCENTILE:
        line.add("  p99", "dim").right(format_ms(stats.p99_us), 6)
    return line.add(" ")


def add_numbers(
    view: PanelView, line: Line, layer: LayerSnapshot, stats: OpStats, numbers: Line
) -> Line:
    """An op's numbers, appended to a title; of one that did not occur a dot alone."""
    if stats.count != 0:
        return line.extend(numbers)
    line.right(ZERO, 6, "dim").add(" ")
    rule = view.glyphs.rule * (numbers.width - 7)
    return line.add(rule, _border(view, layer.spec.name))


def _border(view: PanelView, name: str) -> str:
    return "accent" if view.state.chosen[0] == name else "rule"


def boxed(
    view: PanelView, layer: LayerSnapshot, below: LayerSnapshot | None, width: int, height: int
) -> ScreenFrame:
    """A layer's panel with its box; its operations become those of the layer ``below``."""
    style, glyphs = _border(view, layer.spec.name), view.glyphs
    panel = panel_of(layer.spec)
    top_left, top_right, _, _, side = tuple(glyphs.box)
    frame = ScreenFrame()
    title = Line(top_left + glyphs.rule, style).extend(panel.title(view, layer, width))
    title = title if title.width < width else title.fitted(width - 1)
    title.add(glyphs.rule * (width - 1 - title.width), style).add(top_right, style)
    frame.add(title)
    content = clipped(panel.content(view, layer, width - SIDES, height - 2), height - 2)
    for inside in content.lines:
        line = Line(side, style).add(" ").extend(inside.fitted(width - SIDES))
        frame.add(line.add(" ").add(side, style))
    frame.hits += [hit.moved(SIDES // 2, 1) for hit in content.hits]
    frame.below(_last(view, layer, below, width))
    return frame


def _last(
    view: PanelView, layer: LayerSnapshot, below: LayerSnapshot | None, width: int
) -> ScreenFrame:
    """The lower border: what calls became, and what the rows above it are."""
    style, glyphs = _border(view, layer.spec.name), view.glyphs
    _, _, left, right, _ = tuple(glyphs.box)
    named = Line()
    for text, kind in breakdown_name(view, layer) if width >= _TABLE_FROM else ():
        named.add(text, kind)
    line = Line(left + glyphs.rule, style)
    for text, kind in fan_out(view.snapshot, layer, below, width - named.width - 6):
        line.add(text, kind)
    is_found = bool(reasons(view.snapshot.findings, layer.spec.name))
    hits: list[tuple[int, int, str, str]] = [(2, line.width, "findings", "")] if is_found else []
    line.add(glyphs.rule * (width - 2 - line.width - named.width), style)
    start = line.width
    line.extend(named).add(glyphs.rule * (width - 1 - start - named.width), style)
    frame = ScreenFrame()
    is_chosen = view.state.chosen[0] == layer.spec.name
    hits += [(start, start + named.width, "table", "")] if is_chosen and named.width else []
    frame.add(line.add(right, style).fitted(width), *hits)
    return frame
