"""The boxes of layers that serve operations, and of flows, which carry bytes in and out."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.hist import SizeLatencyHist
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import UNKNOWN, ZERO, format_duration, format_ms, format_scaled, safe_name
from ioh.sinks.rows import all_op, direction, is_of_all, main_stats
from ioh.sinks.waits import waiting_text
from ioh.terminal.line import Line, wrapped
from ioh.tui.history import Measure, fact_series
from ioh.tui.render.box import SIZES, Box, Trend, axis_line, op_piece, rate_and_mean, trend_of
from ioh.tui.render.histogram import (
    SIZE_COLUMNS,
    Axis,
    histogram_of,
    shaded,
    size_bytes,
    size_label,
    used_sizes,
)
from ioh.tui.render.trends import STYLES
from ioh.tui.render.zoom import LayersView
from ioh.tui.rows import cached_share, megabytes, percent, retrans_pct

RETRANS_PCT = 0.5  # as in the rule about retransmits
_WORD, _SHORT = 10, 6  # letters of an op that is neither a read nor a write; in a trend's label
_SHORTER = {"statement": "stmt"}
_MEASURES: tuple[tuple[Measure, str], ...] = (("bytes_per_s", " MB/s"), ("latency_us", " ms"))
_NO_BYTES: tuple[tuple[Measure, str], ...] = (("ops_per_s", "/s"), ("latency_us", " ms"))


def _word(op: str) -> str:
    """``R``, ``W``, or a word for another op."""
    return direction(op) or _SHORTER.get(op, op[:_WORD])


def ops_title(view: LayersView, layer: LayerSnapshot) -> list[Line]:
    """Reads and writes, and the share of cached reads.

    If no call waited for a lower layer, those that did not, with their kind.
    """
    name, pieces = layer.spec.name, []
    for op, stats in _main(layer):
        shown, has_bytes = _shown(layer, op, stats), _has_bytes(layer, op)
        numbers = rate_and_mean(layer.ops.get(shown, stats), has_bytes=has_bytes)
        if shown != op:
            numbers.append(("cached" if direction(op) == "R" else "buffered", "dim"))
        elif stats.count == 0 and not stats.errors_per_s:
            waiting = waiting_text(layer, op)
            numbers = [(waiting, "warn")] if waiting else [(ZERO, "dim")]
        pieces.append(op_piece(view, (name, op), _word(op), *numbers))
    if share := cached_share(layer):
        pieces.append(Line(f"cached {share}", "dim"))
    if layer.source == "proc":
        pieces.append(Line("from /proc", "dim"))
    return pieces


def ops_trends(view: LayersView, layer: LayerSnapshot) -> list[Trend]:
    """Throughput or rate, and mean time, of each: of the calls that the title tells of."""
    trends = []
    for op, stats in _main(layer):
        key, where = (layer.spec.name, _shown(layer, op, stats)), direction(op)
        every = "all " * is_of_all(layer, key[1])
        for rank, (measure, unit) in enumerate(_MEASURES if _has_bytes(layer, op) else _NO_BYTES):
            label = f"{every}{_word(op)[:_SHORT]}{unit}"
            trends.append(trend_of(view, key, measure, label, 2 * rank + (where == "W")))
    return trends


def _shown(layer: LayerSnapshot, op: str, stats: OpStats) -> str:
    """An op of main_stats(); that of all calls if there were some and none waited."""
    if stats.count or stats.errors_per_s or waiting_text(layer, op):
        return op
    return all_op(op) if layer.ops.get(all_op(op), stats).count else op


def _has_bytes(layer: LayerSnapshot, op: str) -> bool:
    """Whether an op moves bytes; a statement is neither a read nor a write."""
    return layer.spec.has_bytes and bool(direction(op))


def _main(layer: LayerSnapshot) -> Sequence[tuple[str, OpStats]]:
    """The layer's reads and writes, or its first two ops if it has neither."""
    found = main_stats(layer.spec, layer.ops)
    return found or [(op, layer.ops.get(op, OpStats())) for op in layer.spec.ops[:2]]


def _histogram(
    view: LayersView, layer: LayerSnapshot, axis: Axis, columns: int, height: int
) -> list[Line]:
    """Size × latency of all reads and writes, or the reason why it is unknown."""
    every = ((op, layer.ops.get(all_op(op), stats)) for op, stats in _main(layer))
    known = {op: hist for op, stats in every if (hist := histogram_of(layer, stats))}
    if len(known) < len(_main(layer)) and not any(hist.total for hist in known.values()):
        text = "no latencies by size from /proc" if layer.source == "proc" else ""
        if view.state.narrow is not None:
            text = f"no latencies by size per {view.state.narrow.kind}"
        return wrapped(safe_name(text or "no latencies by size"), columns + 1, "dim")[:height]
    kept, hidden = _busiest_sizes(known, height - 1)
    more = f"+{hidden}" if hidden else ""
    lines = [Line().left(more, SIZES - 4, "dim").add(axis.heading(4), "dim")]
    for op, size in kept:
        where = direction(op)
        line = Line().left(_word(op), SIZES, STYLES[where])
        if layer.spec.has_bytes:
            line = (
                Line().left(where, 2, STYLES[where]).right(size_label(size), SIZE_COLUMNS).add(" ")
            )
        largest = max(known[op].counts, default=0)
        row = known[op].row(size)
        lines.append(shaded(line, row, axis, STYLES[where], largest=largest))
    return lines


def _busiest_sizes(
    hists: dict[str, SizeLatencyHist], room: int
) -> tuple[list[tuple[str, int]], int]:
    """The sizes that fit, and the number of those left out.

    First each op's size with most bytes and the one with most calls, then the others by bytes.
    """
    ranked = []
    for at, (op, hist) in enumerate(hists.items()):
        calls = {size: sum(hist.row(size)) for size in used_sizes(hist)}
        moved = {size: count * size_bytes(size) for size, count in calls.items()}
        first = {max(each, key=lambda size: each[size]) for each in (moved, calls) if each}
        ranked += [((size not in first, -moved[size]), at, size, op) for size in calls]
    kept = sorted(sorted(ranked)[: max(0, room)], key=lambda entry: entry[1:3])
    return [(op, size) for _, _, size, op in kept], len(ranked) - len(kept)


def is_losing(layer: LayerSnapshot) -> bool:
    """Whether there are more retransmits than in a healthy network."""
    return (retrans_pct(layer) or 0.0) >= RETRANS_PCT


def _flow_title(view: LayersView, layer: LayerSnapshot) -> list[Line]:
    """Input, output, round trips and retransmits."""
    name, metrics = layer.spec.name, layer.metrics
    pieces = [
        op_piece(view, (name, op), op[:3], (megabytes(stats.bytes_per_s), "strong"))
        for op, stats in main_stats(layer.spec, layer.ops)
    ]
    style = "crit" if is_losing(layer) else "dim"
    pieces.append(Line("rtt ", "dim").add(format_duration(metrics.get("srtt_us")), "strong"))
    return [*pieces, Line(f"{percent(retrans_pct(layer))} retrans", style)]


def _flow_trends(view: LayersView, layer: LayerSnapshot) -> list[Trend]:
    name, style = layer.spec.name, "crit" if is_losing(layer) else "trend_o"
    ops = [op for op, _ in main_stats(layer.spec, layer.ops)]
    again = fact_series(view.points, (name, "retrans_pct"))
    rtt = fact_series(view.points, (name, "srtt_us"))
    return [
        *(
            trend_of(view, (name, op), "bytes_per_s", f"{op} MB/s", rank=direction(op) == "W")
            for op in ops
        ),
        Trend("retr %", style, again, _share, 1),
        Trend("rtt ms", "trend_o", rtt, format_ms, 2),
    ]


def _share(value: Value) -> str:
    """A share in percent; ``.`` would look like a point of the trend."""
    return "0" if value == 0 else format_scaled(value)


def _connections(
    view: LayersView, layer: LayerSnapshot, axis: Axis, columns: int, height: int
) -> list[Line]:
    """Connections by round-trip time, then retransmits."""
    del view, columns, height
    lines = [axis_line(axis)]
    for spec in layer.spec.gauge_hists:
        counts = layer.gauge_hists.get(spec.name) or ()
        line = Line().left(safe_name(spec.title), SIZES, "dim")
        if any(counts):
            shaded(line, counts, axis, "other", largest=max(counts))
        lines.append(line)
    metrics, style = layer.metrics, "crit" if is_losing(layer) else ""
    share_pct, segments = retrans_pct(layer), metrics.get("retrans_segs_per_s")
    line = Line().left("retrans", SIZES, style or "dim")
    if segments:
        megabytes_per_s = megabytes(metrics.get("retrans_bytes_per_s"))
        text = f"{percent(share_pct)}  {format_scaled(segments)}/s  {megabytes_per_s} MB/s"
        lines.append(line.add(text, style))
    else:
        lines.append(line.add(UNKNOWN if share_pct is None else "0", "dim"))
    shortest_us = metrics.get("min_rtt_us")
    return [*lines, Line().left("min rtt", SIZES, "dim").add(format_duration(shortest_us), "dim")]


OPS = Box(ops_title, ops_trends, _histogram)
FLOW = Box(_flow_title, _flow_trends, _connections)
