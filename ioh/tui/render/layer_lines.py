"""The layers as lines, where there is no room for panels: reads and writes, a small histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import cut_to, format_ms, format_scaled
from ioh.sinks.rows import is_flow
from ioh.tui.history import series
from ioh.tui.render.columns import Column, cells, fitting, of_stats, titles
from ioh.tui.render.findings import reasons
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panel import megabytes
from ioh.tui.render.panel_flow import is_losing
from ioh.tui.render.panels import PanelView
from ioh.tui.render.sizelat import Axis, axis_for, histogram_of, shaded
from ioh.tui.render.trends import STYLES, TREND_STYLES, binned, length_text, render_bars
from ioh.tui.rows import LayerRow

_LABEL = 16  # columns of the number, the title, and the op's letter
_MIN_LABEL = 12
_MIN_TREND = 10
_MIN_AXIS = 8


COLUMNS: tuple[Column[LayerRow], ...] = (
    Column("MB/s", 5, of_stats(lambda s: megabytes(s.bytes_per_s)), style="strong"),
    Column("ops/s", 5, of_stats(lambda s: format_scaled(s.ops_per_s)), rank=2),
    Column("avg ms", 6, of_stats(lambda s: format_ms(s.latency_us)), style="strong"),
    Column("p99", 5, of_stats(lambda s: format_ms(s.p99_us)), rank=1),
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns there are, and how wide the others."""

    columns: Sequence[Column[LayerRow]]
    axis: Axis | None
    trend: int
    before_trend: int


def _layout(width: int) -> _Layout:
    columns = fitting(COLUMNS, width - _LABEL)
    room = width - _LABEL - sum(column.width + 1 for column in columns) - 2
    axis = axis_for(min(room, max(26, room // 2))) if room >= _MIN_AXIS else None
    trend = room - (axis.width + 1 if axis else 0)
    shown = min(60, trend) if trend >= _MIN_TREND else 0
    return _Layout(columns, axis, shown, width - trend)


def hidden_count(width: int) -> int:
    """How many of the columns that are never left out do not fit."""
    needed = [column for column in COLUMNS if column.rank == 0]
    return len(needed) - sum(1 for column in fitting(needed, width - _MIN_LABEL))


def render_layer_lines(view: PanelView, rows: Sequence[LayerRow], width: int) -> list[ScreenFrame]:
    """The heading, and a line for each row; a click chooses the row's op."""
    layout = _layout(width)
    head = titles(layout.columns, Line().to(_LABEL))
    if layout.axis:
        head.add(layout.axis.heading(2), "head")
    if layout.trend:
        text = f"MB/s {length_text(view.points, layout.trend)}"
        head.add(" ").add(cut_to(text, layout.trend), "head")
    pieces = [ScreenFrame([head.fitted(width)])]
    before = ""
    for row in rows:
        piece = ScreenFrame()
        line = _line(view, row, layout, is_first=row.layer != before)
        piece.add(line.fitted(width), (0, width, "choose", f"{row.layer}/{row.op}"))
        pieces.append(piece)
        before = row.layer
    return pieces


def _line(view: PanelView, row: LayerRow, layout: _Layout, *, is_first: bool) -> Line:
    line = _label(view, row, is_first=is_first)
    layer = view.snapshot.layers.get(row.layer)
    if not isinstance(layer, LayerSnapshot):
        return line
    axis = layout.axis
    if is_flow(layer.spec):  # no latencies, so their place says what it has
        cells(layout.columns[:2], row, line)
        style = "crit" if row.direction == "W" and is_losing(layer) else ""
        room = sum(c.width + 1 for c in layout.columns[2:]) + (axis.width + 2 if axis else 0)
        line.add("  ").left("" if row.stats.count == 0 else row.note, room - 2, style)
    elif row.stats.count == 0:
        cells(layout.columns[:1], row, line, "dim")
    else:
        cells(layout.columns, row, line)
        if axis:
            _histogram(view, row, line.add("  "), axis)
    if layout.trend:
        values = binned(series(view.points, row.key, "bytes_per_s"), layout.trend, view.tick)
        bars = render_bars(values, 1, is_ascii=view.is_ascii, gap=True)[0]
        line.to(layout.before_trend).add(bars, TREND_STYLES[row.direction])
    return line


def _histogram(view: PanelView, row: LayerRow, line: Line, axis: Axis) -> None:
    layer = view.snapshot.layers.get(row.layer)
    hist = histogram_of(layer, row.stats) if isinstance(layer, LayerSnapshot) else None
    if hist is None:
        line.add(" " * axis.width)
        return
    counts = hist.by_latency()
    shaded(line, counts, axis, STYLES[row.direction], largest=max(counts))


def _label(view: PanelView, row: LayerRow, *, is_first: bool) -> Line:
    """`` 2 nfs client  R``: the layer once, the op's letter in each line."""
    state, name = view.state, row.layer
    is_chosen = bool(row.op) and row.key == state.chosen
    style = ("sel" if state.focus == "layers" else "sel2") if is_chosen else STYLES[row.direction]
    spec = view.snapshot.specs.get(name)
    is_word = spec is not None and is_flow(spec)
    letter = row.op if is_word else (row.direction or row.op)
    line = Line()
    if is_first:
        number = next((at for at, each in enumerate(view.snapshot.specs, 1) if each == name), 0)
        title = spec.title if spec else name
        for text, kind in reasons(view.snapshot.findings, name)[:1]:
            line.add(text[1], kind)
        line.to(1).add(f"{number} ", "key")
        line.left(title, _LABEL - 4 - len(letter), "title")
    return line.to(_LABEL - 1 - len(letter)).add(letter, style).add(" ")
