"""The panel of databases: statements and commits, how long each step takes, what is waited for."""

from __future__ import annotations

from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import format_scaled
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panel import (
    SIZES,
    add_latency,
    add_letter,
    axis_line,
    axis_of,
    begin_title,
    blocks,
    trend_of,
)
from ioh.tui.render.panels import PanelView
from ioh.tui.render.sizelat import histogram_of, shaded

# What has a line, the most wanted first, by a word that fits beside it.
_STEPS = {
    "statement": ("stmt", "other"),
    "commit": ("commit", "other"),
    "log_sync": ("sync", "write"),
    "data_read": ("read", "read"),
    "lock_wait": ("lock", "warn"),
    "log_write": ("log", "write"),
    "data_write": ("write", "write"),
    "lwlock_wait": ("lwlock", "warn"),
}
_MAIN = (("statement", "statements", "stmt"), ("commit", "commits", "commit"))


def title(view: PanelView, layer: LayerSnapshot, width: int) -> Line:
    """Statements and commits: how many, how long."""
    line = begin_title(view, layer)
    for at, (op, word, short) in enumerate(_MAIN):
        stats = layer.ops.get(op, OpStats())
        name = word if width >= 90 else short
        add_letter(view, line, (layer.spec.name, op), name, is_first=not at)
        line.right(format_scaled(stats.ops_per_s), 6, "strong").add("/s", "dim")
        add_latency(line, stats, width)
    return line


def content(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """Trends, the steps' latencies on the axis of all panels, and what is waited for."""
    trends = []
    for rank, (op, _, short) in enumerate(_MAIN):
        key = (layer.spec.name, op)
        trends.append(trend_of(view, key, "ops_per_s", f"{short}/s", rank))
        trends.append(trend_of(view, key, "latency_us", f"{short} ms", 2 + rank))
    steps = ScreenFrame(_steps(layer, width, height))
    return blocks(view, layer, (width, height), trends, lambda _: steps)


def _steps(layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    """A line for each kind of operation that happened."""
    axis = axis_of(width)
    lines = [axis_line(axis)]
    for op, (word, style) in _STEPS.items():
        stats = layer.ops.get(op)
        hist = histogram_of(layer, stats) if stats is not None and stats.count else None
        if hist is not None and len(lines) < height:
            counts = hist.by_latency()
            line = Line().left(word, SIZES - 1, style).add(" ")
            lines.append(shaded(line, counts, axis, style, largest=max(counts, default=0)))
    return lines if len(lines) > 1 else [*lines, Line(" nothing in this interval", "dim")]
