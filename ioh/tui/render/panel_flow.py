"""The panel of a layer that carries bytes in and out: round trips, and what was sent again."""

from __future__ import annotations

from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import format_ms, format_scaled, format_short, safe_name
from ioh.sinks.rows import main_stats
from ioh.tui.history import fact_series
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panel import (
    SIZES,
    add_letter,
    add_numbers,
    add_rates,
    axis_of,
    begin_title,
    blocks,
    megabytes,
    trends_of,
)
from ioh.tui.render.panels import PanelView
from ioh.tui.render.sizelat import shaded
from ioh.tui.render.trends import Trend

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
        add_numbers(view, line, layer, stats, numbers)
    return line


def _percent(value: float | None) -> str:
    return "0%" if value == 0 else format_short(value) + "%" * (value is not None)


def content(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """Trends, connections by round-trip time and retransmits, and the busiest of a breakdown."""
    name = layer.spec.name
    trends: list[Trend] = []
    for op, _ in main_stats(layer.spec, layer.ops):
        trends += trends_of(view, (name, op), op, ("bytes_per_s",))
    again = fact_series(view.points, (name, "retrans_pct"))
    style = "crit" if is_losing(layer) else "warn"
    trends.append(Trend("retr %", style, again, format_short, 1))
    rtt = fact_series(view.points, (name, "srtt_us"))
    trends.append(Trend("rtt ms", "trend_o", rtt, format_ms, 2))
    middle = ScreenFrame(_middle(view, layer, width))
    return blocks(view, layer, (width, height), trends, lambda _: middle)


def _middle(view: PanelView, layer: LayerSnapshot, width: int) -> list[Line]:
    """Connections by round-trip time on the axis of the other panels, then what was sent again."""
    axis = axis_of(width)
    lines = [Line(" " * (SIZES - 4)).add(axis.heading(4), "dim")]
    for spec in layer.spec.gauge_hists:
        counts = layer.gauge_hists.get(spec.name) or ()
        line = Line().left(safe_name(spec.title), SIZES, "dim")
        if any(counts):
            shaded(line, counts, axis, view.glyphs, "other", largest=max(counts))
        lines.append(line)
    metrics, style = layer.metrics, "crit" if is_losing(layer) else ""
    line = Line().left("retrans", SIZES, style or "dim")
    if not metrics.get("retrans_segs_per_s"):
        line.add("-" if metrics.get("retrans_pct") is None else "none", "dim")
    else:
        line.add(_percent(metrics.get("retrans_pct")), style)
        line.add(f"  {format_scaled(metrics.get('retrans_segs_per_s'))}/s", style)
        line.add(f"  {megabytes(metrics.get('retrans_bytes_per_s'))} MB/s", style)
    lines.append(line)
    line = Line().left("min rtt", SIZES, "dim")
    unit = "" if metrics.get("min_rtt_us") is None else " ms"
    lines.append(line.add(f"{format_ms(metrics.get('min_rtt_us'))}{unit}", "dim"))
    return lines
