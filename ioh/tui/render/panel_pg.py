"""The panel of a PostgreSQL server: commits, reads and log; statements, and what they wait for."""

from __future__ import annotations

from dataclasses import replace

from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.tui.history import Measure
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panel import TEXTS, add_letter, begin_title, blocks, trend_of
from ioh.tui.render.panels import PanelView, table_spec
from ioh.tui.render.top import render_top
from ioh.tui.rows import cached_share
from ioh.tui.state import TableState

_WAITS = "wait"
# Of each op: what it is called, what is shown of it, its unit and its colour.
_SHOWN: tuple[tuple[str, str, Measure, str, str], ...] = (
    ("commit", "commit", "ops_per_s", "/s", "trend_o"),
    ("data_read", "read", "bytes_per_s", " MB/s", "trend_r"),
    ("log_write", "log", "bytes_per_s", " MB/s", "trend_w"),
    ("log_sync", "sync", "latency_us", " ms", "trend_o"),
)


def title(view: PanelView, layer: LayerSnapshot, width: int) -> Line:
    """Commits, blocks read, log written and the mean sync; what of the blocks was cached."""
    line = begin_title(view, layer)
    for at, (op, word, measure, unit, _) in enumerate(_SHOWN):
        value = getattr(layer.ops.get(op, OpStats()), measure)
        added = add_letter(view, Line(), (layer.spec.name, op), word, is_first=not at)
        added.right(TEXTS[measure](value), 6, "strong").add(f"{unit} ", "dim")
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
        trend_of(view, (layer.spec.name, op), measure, f"{word}{unit}", rank, style)
        for rank, (op, word, measure, unit, style) in enumerate(_SHOWN)
    ]

    def beside(columns: int) -> ScreenFrame:
        return _beside(view, layer, columns, height)

    return blocks(view, layer, (width, height), trends, beside, table_from=0)


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
