"""The layers as lines if panels do not fit: reads and writes, a small histogram."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import cut_to, format_ms, format_scaled
from ioh.sinks.rows import beside_text, is_flow
from ioh.sinks.waits import waiting_text
from ioh.tui.history import series
from ioh.tui.render.box_ops import is_losing
from ioh.tui.render.findings import reasons
from ioh.tui.render.histogram import Axis, axis_for, histogram_of, shaded
from ioh.tui.render.line import Line
from ioh.tui.render.op_columns import Column, cells, fitting, titles, width_of, with_errors
from ioh.tui.render.trends import STYLES, TREND_INTERVALS, TREND_STYLES, length_text, render_trend
from ioh.tui.render.zoom import LayersView, op_style
from ioh.tui.rows import LayerRow, layer_number, megabytes

_LABEL = 16  # columns of the number, the title and the op's letter
_MIN_LABEL = 12
_MIN_TREND = 10
_MIN_AXIS = 8

COLUMNS = (
    Column("MB/s", 5, lambda s: megabytes(s.bytes_per_s), style="strong"),
    Column("ops/s", 5, lambda s: format_scaled(s.ops_per_s), rank=2),
    Column("avg ms", 6, lambda s: format_ms(s.latency_us), style="strong"),
    Column("p99", 5, lambda s: format_ms(s.p99_us), rank=1),
)


def hidden_count(width: int) -> int:
    """How many of the necessary columns do not fit."""
    needed = [column for column in COLUMNS if column.rank == 0]
    return len(needed) - len(fitting(needed, width - _MIN_LABEL))


def render_layer_lines(view: LayersView, rows: Sequence[LayerRow], width: int) -> list[Line]:
    """The heading and a line for each row."""
    columns = fitting(with_errors(COLUMNS, (row.stats for row in rows)), width - _LABEL)
    room = width - _LABEL - width_of(columns) - 2
    axis = axis_for(min(room, max(26, room // 2))) if room >= _MIN_AXIS else None
    room -= axis.width + 1 if axis else 0
    trend = min(TREND_INTERVALS, room) if room >= _MIN_TREND else 0
    head = titles(columns, Line().to(_LABEL))
    if axis:
        head.add(axis.heading(2), "head")
    if trend:
        head.add(" ").add(cut_to(f"MB/s {length_text(view.points, trend)}", trend), "head")
    lines = [head]
    before = ""
    for row in rows:
        line = _label(view, row, is_first=row.layer != before)
        layer = view.snapshot.layers.get(row.layer)
        if isinstance(layer, LayerSnapshot):
            _add_numbers(line, layer, row, columns, axis)
            if trend:
                values = series(view.points, row.key, "bytes_per_s")
                bars = render_trend(values, trend, view.tick)
                line.to(width - room).add(bars, TREND_STYLES[row.direction])
        lines.append(line)
        before = row.layer
    return lines


def _add_numbers(
    line: Line, layer: LayerSnapshot, row: LayerRow, columns: Sequence[Column], axis: Axis | None
) -> None:
    if is_flow(layer.spec):  # no latencies: show its other numbers there
        cells(columns[:2], row.stats, line)
        style = "crit" if row.direction == "W" and is_losing(layer) else ""
        room = width_of(columns[2:]) + (axis.width + 2 if axis else 0)
        line.add("  ").left("" if row.stats.count == 0 else row.note, room - 2, style)
    elif (waiting := waiting_text(layer, row.op)) and not row.stats.errors_per_s:
        line.add("  ").add(waiting, "warn")
    elif row.stats.count == 0 and not row.stats.errors_per_s:
        cells(columns[:1], row.stats, line, "dim")
        line.add("  ").add(beside_text(layer.spec, layer.ops, row.op), "dim")
    else:
        cells(columns, row.stats, line)
        hist = histogram_of(layer, row.stats)
        if axis and hist:
            counts = hist.by_latency()
            shaded(line.add("  "), counts, axis, STYLES[row.direction], largest=max(counts))


def _label(view: LayersView, row: LayerRow, *, is_first: bool) -> Line:
    """`` 2 nfs client  R``: the layer's name on its first line, the op's letter on each."""
    name = row.layer
    spec = view.snapshot.specs[name]
    letter = row.op if is_flow(spec) else (row.direction or row.op)
    line = Line()
    if is_first:
        for text, kind in reasons(view.snapshot.findings, name)[:1]:
            line.add(text[1], kind)
        line.to(1).add(f"{layer_number(view.snapshot, name)} ", "key")
        line.left(spec.title, _LABEL - 4 - len(letter), "title")
    return line.to(_LABEL - 1 - len(letter)).add(letter, op_style(view, row.key)).add(" ")
