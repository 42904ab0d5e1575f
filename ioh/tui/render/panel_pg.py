"""The panel of a PostgreSQL server: commits, reads and log; statements, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import format_ms, format_scaled
from ioh.tui.history import Measure, series
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panel import Trend, add_letter, begin_title, blocks, megabytes
from ioh.tui.render.panels import PanelView, table_spec
from ioh.tui.render.top import render_top
from ioh.tui.rows import cached_share
from ioh.tui.state import TableState

_WAITS = "wait"
# Of each op: what it is called, what is shown of it, its unit and its colour.
_SHOWN: tuple[tuple[str, str, Measure, str, Callable[[Value], str], str], ...] = (
    ("commit", "commit", "ops_per_s", "/s", format_scaled, "trend_o"),
    ("data_read", "read", "bytes_per_s", "MB/s", megabytes, "trend_r"),
    ("log_write", "log", "bytes_per_s", "MB/s", megabytes, "trend_w"),
    ("log_sync", "sync", "latency_us", "ms", format_ms, "trend_o"),
)


def title(view: PanelView, layer: LayerSnapshot, width: int) -> Line:
    """Commits, blocks read, log written and the mean sync; what of the blocks was cached."""
    line = begin_title(view, layer)
    for at, (op, word, measure, unit, text, _) in enumerate(_SHOWN):
        value = getattr(layer.ops.get(op, OpStats()), measure)
        added = add_letter(view, Line(), (layer.spec.name, op), word, is_first=not at)
        added.right(text(value), 6, "strong").add(f" {unit} ".replace(" /", "/"), "dim")
        if line.width + added.width > width - 3:
            break
        line.extend(added)
    note = f" cached {share} " if (share := cached_share(layer)) else ""
    if note and line.width + len(note) + 2 <= width - 3:
        line.add("──", "rule").add(note, "dim")
    return line


def content(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """Trends, what sessions wait for, and the breakdown that was chosen; the last two if narrow."""
    trends = [
        Trend(f"{word}{unit}" if unit == "/s" else f"{word} {unit}", style, values, text, rank)
        for rank, (op, word, measure, unit, text, style) in enumerate(_SHOWN)
        for values in [series(view.points, (layer.spec.name, op), measure)]
    ]
    return blocks(
        view,
        layer,
        (width, height),
        trends,
        lambda columns: _beside(view, layer, columns, height),
        table_from=0,
    )


def _beside(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """The waits; the first breakdown where they are the one that was chosen."""
    chosen = table_spec(layer, view.state.table_of(layer.spec.name))
    spec = next((t for t in layer.spec.tables if t.name == _WAITS and t is not chosen), None)
    spec = spec or layer.spec.tables[0]
    # With the number alone that ranks it.
    ranked = tuple(column for column in spec.columns if column.derived_name in spec.sort_by)
    rows = layer.tables.get(spec.name, ())
    frame = render_top(replace(spec, columns=ranked), rows, TableState(), width, height)
    return ScreenFrame(frame.lines)
