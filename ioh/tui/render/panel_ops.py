"""The panel of a layer that serves operations: trends, size × latency, and who causes them."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.hist import SizeLatencyHist
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import safe_name
from ioh.sinks.rows import direction, main_stats
from ioh.tui.history import Measure
from ioh.tui.render.line import Line, ScreenFrame, wrapped
from ioh.tui.render.panel import (
    SIZES,
    add_latency,
    add_letter,
    add_numbers,
    add_rates,
    axis_of,
    begin_title,
    blocks,
    border_of,
    trend_of,
)
from ioh.tui.render.panels import PanelView
from ioh.tui.render.sizelat import SIZE_COLUMNS, histogram_of, shaded, size_label, used_sizes
from ioh.tui.render.trends import STYLES
from ioh.tui.rows import cached_share

_MEASURES: tuple[tuple[Measure, str], ...] = (("bytes_per_s", "MB/s"), ("latency_us", "ms"))


def title(view: PanelView, layer: LayerSnapshot, width: int) -> Line:
    """Reads and writes, and what of the reads was cached."""
    line = begin_title(view, layer)
    name = layer.spec.name
    for at, (op, stats) in enumerate(_main(layer)):
        add_letter(view, line, (name, op), direction(op) or op[:3], is_first=not at)
        numbers = add_latency(add_rates(Line(), stats, width), stats, width)
        add_numbers(line, stats, numbers, border_of(view, name))
    notes = [f"cached {share}"] if (share := cached_share(layer)) else []
    notes += ["from /proc"] if layer.source == "proc" else []
    for note in notes:
        if line.width + len(note) + 5 <= width - 3:
            line.add("──", "rule").add(f" {note} ", "dim")
    return line


def content(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """Trends, histogram and table side by side, as many of them as fit."""
    trends = []
    for op, _ in _main(layer):
        key, where = (layer.spec.name, op), direction(op)
        for rank, (measure, unit) in enumerate(_MEASURES):
            label = f"{where or op} {unit}"
            trends.append(trend_of(view, key, measure, label, 2 * rank + (where == "W")))
    histogram = ScreenFrame(_histogram(view, layer, width, height))
    return blocks(view, layer, (width, height), trends, lambda _: histogram)


def _main(layer: LayerSnapshot) -> Sequence[tuple[str, OpStats]]:
    """The layer's reads and writes, or all its ops where it has neither."""
    found = main_stats(layer.spec, layer.ops)
    return found or [(op, layer.ops.get(op, OpStats())) for op in layer.spec.ops[:2]]


def _histogram(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    axis = axis_of(width)
    known = {op: hist for op, stats in _main(layer) if (hist := histogram_of(layer, stats))}
    is_whole = len(known) == len(_main(layer))
    if not is_whole and not any(hist.total for hist in known.values()):
        return _no_histogram(view, layer, SIZES + axis.width + 1, height)
    kept, hidden = _busiest_sizes(known, height - 1)
    more = f"+{hidden}" if hidden else ""
    lines = [Line().left(more, SIZES - 4, "dim").add(axis.heading(4), "dim")]
    for op, size in kept:
        where = direction(op)
        line = Line().left(where, 2, STYLES[where]).right(size_label(size), SIZE_COLUMNS).add(" ")
        largest = max(known[op].counts, default=0)
        row = known[op].row(size)
        lines.append(shaded(line, row, axis, STYLES[where], largest=largest))
    return lines


def _busiest_sizes(
    hists: dict[str, SizeLatencyHist], room: int
) -> tuple[list[tuple[str, int]], int]:
    """The sizes of each op that fit, and how many did not; each op's busiest one always."""
    found = []
    for at, (op, hist) in enumerate(hists.items()):
        totals = [(sum(hist.row(size)), size) for size in used_sizes(hist)]
        best = max(totals, default=(0, 0))
        found += [((size != best[1], -total), at, size, op) for total, size in totals]
    kept = sorted(sorted(found)[: max(0, room)], key=lambda entry: entry[1:3])
    return [(op, size) for _, _, size, op in kept], len(found) - len(kept)


def _no_histogram(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    """Why there are no latencies."""
    text = "no latencies by size from /proc" if layer.source == "proc" else ""
    if view.state.narrow is not None:
        text = f"latencies by size are not kept for each {view.state.narrow.kind}"
    return wrapped(safe_name(text or "no latencies by size"), width, "dim")[:height]
