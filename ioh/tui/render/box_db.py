"""The boxes of databases: statements and commits, the time of each step, waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ioh.model.in_progress import oldest_us
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import format_duration
from ioh.sinks.waits import waiting_text
from ioh.terminal.line import Line
from ioh.tui.history import Measure
from ioh.tui.render.box import SIZES, TEXTS, Box, Trend, axis_line, op_piece, trend_of
from ioh.tui.render.box_ops import ops_title, ops_trends
from ioh.tui.render.breakdown import render_top
from ioh.tui.render.histogram import Axis, histogram_of, shaded
from ioh.tui.render.who import table_spec
from ioh.tui.render.zoom import LayersView
from ioh.tui.rows import cached_share
from ioh.tui.state import TableState

# Ops with a line, the most important first, with a short word.
_STEPS = {
    "statement": ("stmt", "other"),
    "commit": ("commit", "other"),
    "log_sync": ("sync", "write"),
    "data_read": ("read", "read"),
    "lock_wait": ("lock", "other"),
    "log_write": ("log", "write"),
    "data_write": ("write", "write"),
    "lwlock_wait": ("lwlock", "other"),
}
# Only shown while they are in progress.
_OTHERS = {"standby_wait": ("standby", "other"), "checkpoint": ("ckpt", "write")}
_WAITS = "wait"
# Ops of PostgreSQL's own views: short word, number shown, unit, colour.
_SHOWN: tuple[tuple[str, str, Measure, str, str], ...] = (
    ("commit", "commit", "ops_per_s", "/s", "trend_o"),
    ("data_read", "read", "bytes_per_s", " MB/s", "trend_r"),
    ("log_write", "log", "bytes_per_s", " MB/s", "trend_w"),
    ("log_sync", "sync", "latency_us", " ms", "trend_o"),
)


def _steps(
    view: LayersView, layer: LayerSnapshot, axis: Axis, columns: int, height: int
) -> list[Line]:
    """The latencies of each kind of operation; first those of which none has ended."""
    del view, columns
    waiting = list(waiting_lines(layer))
    lines = [*waiting, axis_line(axis)]
    for op, (word, style) in _STEPS.items():
        stats = layer.ops.get(op)
        hist = histogram_of(layer, stats) if stats is not None and stats.count else None
        if hist is not None and len(lines) < height:
            counts = hist.by_latency()
            line = Line().left(word, SIZES - 1, style).add(" ")
            lines.append(shaded(line, counts, axis, style, largest=max(counts, default=0)))
    if waiting:
        return lines
    return lines if len(lines) > 1 else [*lines, Line(" nothing in this interval", "dim")]


def waiting_lines(layer: LayerSnapshot) -> Iterator[Line]:
    """``lock   in-fl 5  oldest 12.0 s``, by kind of operation."""
    for op, (word, style) in {**_STEPS, **_OTHERS}.items():
        if oldest_us(layer, op) is not None and (text := waiting_text(layer, op)):
            yield Line().left(word, SIZES - 1, style).add(f" {text}")


def _pg_title(view: LayersView, layer: LayerSnapshot) -> list[Line]:
    """Commits, blocks read, log written, the mean sync, and the share of cached blocks."""
    pieces = []
    for op, word, measure, unit, _ in _SHOWN:
        value = getattr(layer.ops.get(op, OpStats()), measure)
        text = f"{TEXTS[measure](value)}{unit}"
        text = format_duration(value) if measure == "latency_us" else text
        pieces.append(op_piece(view, (layer.spec.name, op), word, (text, "strong")))
    if share := cached_share(layer):
        pieces.append(Line(f"cached {share}", "dim"))
    return pieces


def _pg_trends(view: LayersView, layer: LayerSnapshot) -> list[Trend]:
    return [
        trend_of(view, (layer.spec.name, op), measure, f"{word}{unit}", rank, style)
        for rank, (op, word, measure, unit, style) in enumerate(_SHOWN)
    ]


def _waits(
    view: LayersView, layer: LayerSnapshot, axis: Axis, columns: int, height: int
) -> list[Line]:
    """The sessions' waits; the first breakdown if the table shows the waits already."""
    del axis
    chosen = table_spec(layer, view.state)
    spec = next((t for t in layer.spec.tables if t.name == _WAITS and t is not chosen), None)
    spec = spec or layer.spec.tables[0]
    # Only with the number that ranks it.
    ranked = tuple(column for column in spec.columns if column.derived_name in spec.sort_by)
    rows = layer.tables.get(spec.name, ())
    return render_top(replace(spec, columns=ranked), rows, TableState(), columns, height).lines


DB = Box(ops_title, ops_trends, _steps)
PG = Box(_pg_title, _pg_trends, _waits)
