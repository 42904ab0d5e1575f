"""The panel of a layer that carries bytes in and out: round trips, and what was sent again."""

from __future__ import annotations

from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import format_ms, format_scaled, format_short, safe_name
from ioh.sinks.rows import direction, main_stats
from ioh.tui.history import fact_series
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panel import (
    SIZES,
    Trend,
    add_letter,
    add_numbers,
    add_rates,
    axis_line,
    axis_of,
    begin_title,
    blocks,
    border_of,
    megabytes,
    trend_of,
)
from ioh.tui.render.panels import PanelView
from ioh.tui.render.sizelat import shaded

RETRANS_PCT = 0.5  # as the rule about them has it


def is_losing(layer: LayerSnapshot) -> bool:
    """Whether more is sent again than a healthy network needs."""
    return (layer.metrics.get("retrans_pct") or 0.0) >= RETRANS_PCT


def title(view: PanelView, layer: LayerSnapshot, width: int) -> Line:
    """What came in and went out, round trips and retransmits; under the other panels' numbers."""
    line = begin_title(view, layer)
    metrics = layer.metrics
    for at, (op, stats) in enumerate(main_stats(layer.spec, layer.ops)):
        add_letter(view, line, (layer.spec.name, op), op[:3], is_first=not at)
        numbers = add_rates(Line(), stats, width)
        if at == 0:
            numbers.right(format_ms(metrics.get("srtt_us")), 7, "strong").add(" ms", "dim")
            numbers.add(f"  {'rtt':<10}" if width >= 90 else " ", "dim")
        else:
            style = "crit" if is_losing(layer) else "dim"
            numbers.right(_percent(metrics.get("retrans_pct")), 7, style).add(" retrans ", style)
        add_numbers(line, stats, numbers, border_of(view, layer.spec.name))
    return line


def _percent(value: float | None) -> str:
    return "0%" if value == 0 else format_short(value) + "%" * (value is not None)


def content(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """Trends, connections by round-trip time and retransmits, and the busiest of a breakdown."""
    name = layer.spec.name
    trends = [
        trend_of(view, (name, op), "bytes_per_s", f"{op} MB/s", rank=int(direction(op) == "W"))
        for op, _ in main_stats(layer.spec, layer.ops)
    ]
    again = fact_series(view.points, (name, "retrans_pct"))
    style = "crit" if is_losing(layer) else "warn"
    trends.append(Trend("retr %", style, again, format_short, 1))
    rtt = fact_series(view.points, (name, "srtt_us"))
    trends.append(Trend("rtt ms", "trend_o", rtt, format_ms, 2))
    middle = ScreenFrame(_middle(layer, width))
    return blocks(view, layer, (width, height), trends, lambda _: middle)


def _middle(layer: LayerSnapshot, width: int) -> list[Line]:
    """Connections by round-trip time on the axis of the other panels, then what was sent again."""
    axis = axis_of(width)
    lines = [axis_line(axis)]
    for spec in layer.spec.gauge_hists:
        counts = layer.gauge_hists.get(spec.name) or ()
        line = Line().left(safe_name(spec.title), SIZES, "dim")
        if any(counts):
            shaded(line, counts, axis, "other", largest=max(counts))
        lines.append(line)
    metrics, style = layer.metrics, "crit" if is_losing(layer) else ""
    share_pct, segments = metrics.get("retrans_pct"), metrics.get("retrans_segs_per_s")
    line = Line().left("retrans", SIZES, style or "dim")
    if segments:
        megabytes_per_s = megabytes(metrics.get("retrans_bytes_per_s"))
        text = f"{_percent(share_pct)}  {format_scaled(segments)}/s  {megabytes_per_s} MB/s"
        lines.append(line.add(text, style))
    else:
        lines.append(line.add("-" if share_pct is None else "none", "dim"))
    shortest_us = metrics.get("min_rtt_us")
    text = f"{format_ms(shortest_us)}{'' if shortest_us is None else ' ms'}"
    return [*lines, Line().left("min rtt", SIZES, "dim").add(text, "dim")]
