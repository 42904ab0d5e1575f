"""A layer's table: one line for each kind of operation, with its last minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ioh.model.snapshot import OpStats
from ioh.sinks.cells import UNKNOWN, format_fixed, format_scaled
from ioh.tui.history import TrendPoint, series
from ioh.tui.render.columns import Column, cells, fitting, of_stats, titles
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.spark import render_bars
from ioh.tui.render.trends import STYLES, TREND_INTERVALS, TREND_STYLES, binned, length_text
from ioh.tui.rows import LayerRow

_MIN_TREND = 12
_SLOWEST = 13  # columns of a time and a size
_TREND_FROM = 90  # columns from which the trend is worth a percentile
_MIN_LABEL = 12
_MAX_LABEL = 24


@dataclass(frozen=True, slots=True)
class LayersView:
    """What the table shows beside its rows.

    Shape:
        ``points`` are the last TREND_INTERVALS intervals; ``chosen`` is the key of the row that
        the other panels show; ``has_focus`` whether keys move it; ``hidden`` are rows that did
        not fit.
    """

    points: Sequence[TrendPoint | None]
    chosen: tuple[str, str]
    has_focus: bool
    glyphs: Glyphs
    hidden: Sequence[LayerRow] = ()


def _ms(value_us: float | None) -> str:
    return format_fixed(None if value_us is None else value_us / 1e3, 6, 3)


def _rate(stats: OpStats) -> str:
    rate = stats.ops_per_s
    return format_fixed(rate, 7, 0 if rate is not None and rate >= 100 else 1)


def _megabytes(stats: OpStats) -> str:
    rate = stats.bytes_per_s
    return format_fixed(None if rate is None else rate / 1e6, 7, 3)


def _kilobytes(stats: OpStats) -> str:
    size = stats.avg_bytes
    return format_fixed(None if size is None else size / 1024, 6, 1)


def _slowest(stats: OpStats) -> str:
    """The slowest operation, and the size of that very one."""
    if stats.max_us is None or not stats.count:
        return UNKNOWN
    # Below 1K there is no letter, and the heading says KB; a sync has no size.
    unit = "B" if stats.max_bytes and stats.max_bytes < 1024 else ""
    size = "" if stats.max_bytes == 0 else f" ({format_scaled(stats.max_bytes, 1024)}{unit})"
    return format_fixed(stats.max_us / 1e3, min(6, _SLOWEST - len(size)), 3) + size


COLUMNS: tuple[Column[LayerRow], ...] = (
    Column("MB/s", 7, of_stats(_megabytes), style="strong"),
    Column("ops/s", 7, of_stats(_rate)),
    Column("avg KB", 6, of_stats(_kilobytes), rank=2),
    Column("avg ms", 6, of_stats(lambda s: _ms(s.latency_us)), style="strong"),
    Column("queue", 6, of_stats(lambda s: _ms(s.queue_us)), rank=5),
    Column("service", 7, of_stats(lambda s: _ms(s.service_us)), rank=5),
    Column("p50", 6, of_stats(lambda s: _ms(s.p50_us)), rank=6),
    Column("p95", 6, of_stats(lambda s: _ms(s.p95_us)), rank=8),
    Column("p99", 6, of_stats(lambda s: _ms(s.p99_us)), rank=1),
    Column("p99.9", 6, of_stats(lambda s: _ms(s.p999_us)), rank=10),
    Column("max ms (KB)", _SLOWEST, of_stats(_slowest), rank=4),
    Column("in-fl", 5, of_stats(lambda s: format_fixed(s.inflight, 5, 0)), rank=3),
    Column("avg-fl", 6, of_stats(lambda s: format_fixed(s.avg_inflight, 6, 2)), rank=9),
    Column("err/s", 5, of_stats(lambda s: format_fixed(s.errors_per_s, 5, 1)), rank=7),
)


def visible_columns(label_width: int, width: int) -> list[Column[LayerRow]]:
    """The columns that fit beside the labels and, on a wide terminal, a short trend."""
    trend = _MIN_TREND + 2 if width >= _TREND_FROM else 0
    return fitting(COLUMNS, width - label_width - trend)


def render_layers(rows: Sequence[LayerRow], view: LayersView, width: int, tick: int) -> ScreenFrame:
    """A heading and a line for each row; a click chooses the row's op."""
    # Of hidden rows, too: as one of them comes into sight, the columns stay where they are.
    widest = max((len(_label(row, view.glyphs)) for row in (*rows, *view.hidden)), default=0)
    needed = sum(c.width + 1 for c in COLUMNS if c.rank == 0)
    label_width = max(_MIN_LABEL, min(_MAX_LABEL, widest, width - needed))
    columns = visible_columns(label_width, width)
    used = label_width + sum(c.width + 1 for c in columns)
    trend = min(TREND_INTERVALS, width - used - 2)
    frame = ScreenFrame()
    hidden = _hidden(view, label_width)
    is_flow = all(row.note for row in rows if row.op)  # of which the notes say the rest
    head = Line().left(hidden, label_width, "dim" if hidden else "")
    head = titles(columns[:2] if is_flow else columns, head).to(used)
    if trend >= _MIN_TREND:
        head.add("  ").add(f"trend {length_text(view.points, trend)}", "head")
    frame.add(head.fitted(width))
    for row in rows:
        line = _render_row(row, view, columns, label_width)
        if trend >= _MIN_TREND and row.op and line.width <= used:
            line.to(used).add("  ").add(_trend(row, view, trend, tick), TREND_STYLES[row.direction])
        hit = (0, width, "choose", f"{row.layer}/{row.op}")
        frame.add(line.fitted(width), hit)
    return frame


def _hidden(view: LayersView, width: int) -> str:
    """How many rows are missing, and what shows them, where the labels' heading would be."""
    if not view.hidden:
        return ""
    text = f"+{len(view.hidden)} row{'s' if len(view.hidden) > 1 else ''}"
    said = f"{text} (taller)"
    return said if len(said) <= width else text


def _label(row: LayerRow, glyphs: Glyphs) -> str:
    mark = f" {glyphs.branch} " if row.is_part else " "
    return f"{row.direction or ' '}{mark}{row.label}"


def _render_row(
    row: LayerRow,
    view: LayersView,
    columns: Sequence[Column[LayerRow]],
    label_width: int,
) -> Line:
    is_chosen = row.key == view.chosen and bool(row.op)
    style = ("sel" if view.has_focus else "sel2") if is_chosen else STYLES[row.direction]
    label = _label(row, view.glyphs)
    line = Line().left(label, label_width, style if row.op or row.is_part else "dim")
    if not row.op:
        return line.add(" ").add(row.note, "dim")
    if row.note:  # a flow: no latencies, so their place says what it has
        cells(columns[:2], row, line)
        return line.add("  ").add(row.note)
    return cells(columns, row, line, "dim" if row.stats.count == 0 else "")


def _trend(row: LayerRow, view: LayersView, width: int, tick: int) -> str:
    values = series(view.points, row.key, "bytes_per_s")
    if not any(values):
        values = series(view.points, row.key, "ops_per_s")
    return render_bars(binned(values, width, tick), 1, view.glyphs, gap=True)[0]
