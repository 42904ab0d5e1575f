"""A layer's table: one line for each kind of operation, with its last minute."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.snapshot import OpStats
from ioh.sinks.cells import UNKNOWN, format_fixed, format_scaled
from ioh.tui.history import series
from ioh.tui.render.columns import Column, cells, fitting, of_stats, titles
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.panels import PanelView
from ioh.tui.render.trends import (
    STYLES,
    TREND_INTERVALS,
    TREND_STYLES,
    Values,
    binned,
    length_text,
    render_bars,
)
from ioh.tui.rows import LayerRow

_MIN_TREND = 12
_SLOWEST = 13  # columns of a time and a size
_TREND_FROM = 90  # columns from which the trend is worth a percentile
_MIN_LABEL = 12
_MAX_LABEL = 24


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


def render_layers(
    view: PanelView, rows: Sequence[LayerRow], width: int, hidden: Sequence[LayerRow] = ()
) -> ScreenFrame:
    """A heading and a line for each row, a click chooses the row's op; ``hidden`` did not fit."""
    # Of hidden rows, too: as one of them comes into sight, the columns stay where they are.
    widest = max((len(_label(row)) for row in (*rows, *hidden)), default=0)
    needed = sum(c.width + 1 for c in COLUMNS if c.rank == 0)
    label_width = max(_MIN_LABEL, min(_MAX_LABEL, widest, width - needed))
    columns = visible_columns(label_width, width)
    used = label_width + sum(c.width + 1 for c in columns)
    trend = min(TREND_INTERVALS, width - used - 2)
    points = view.points[-TREND_INTERVALS:]
    is_flow = all(row.note for row in rows if row.op)  # of which the notes say the rest
    missing = _missing(len(hidden), label_width)
    head = Line().left(missing, label_width, "dim" if hidden else "")
    head = titles(columns[:2] if is_flow else columns, head).to(used)
    if trend >= _MIN_TREND:
        head.add("  ").add(f"trend {length_text(points, trend)}", "head")
    frame = ScreenFrame([head.fitted(width)])
    for row in rows:
        line = _render_row(row, view, columns, label_width)
        if trend >= _MIN_TREND and row.op and line.width <= used:
            values: Values = series(points, row.key, "bytes_per_s")
            if not any(values):
                values = series(points, row.key, "ops_per_s")
            values = binned(values, trend, view.tick)
            bars = render_bars(values, 1, is_ascii=view.is_ascii, gap=True)[0]
            line.to(used).add("  ").add(bars, TREND_STYLES[row.direction])
        frame.add(line.fitted(width), (0, width, "choose", f"{row.layer}/{row.op}"))
    return frame


def _missing(count: int, width: int) -> str:
    """How many rows are missing, and what shows them, where the labels' heading would be."""
    text = f"+{count} row{'s' if count > 1 else ''}" if count else ""
    said = f"{text} (taller)"
    return said if text and len(said) <= width else text


def _label(row: LayerRow) -> str:
    mark = " └ " if row.is_part else " "
    return f"{row.direction or ' '}{mark}{row.label}"


def _render_row(
    row: LayerRow, view: PanelView, columns: Sequence[Column[LayerRow]], label_width: int
) -> Line:
    style = STYLES[row.direction]
    if row.op and row.key == view.state.chosen:
        style = "sel" if view.state.focus == "layers" else "sel2"
    line = Line().left(_label(row), label_width, style if row.op or row.is_part else "dim")
    if not row.op:
        return line.add(" ").add(row.note, "dim")
    if row.note:  # a flow: no latencies, so their place says what it has
        return cells(columns[:2], row, line).add("  ").add(row.note)
    return cells(columns, row, line, "dim" if row.stats.count == 0 else "")


def fitted_rows(
    rows: Sequence[LayerRow], chosen: tuple[str, str], room: int
) -> tuple[list[LayerRow], list[LayerRow]]:
    """The lines for ``room`` of them, the chosen one always among them, and those left out.

    Parts go first, then what is neither read nor write; reads and writes go last, and then those
    about the chosen line are shown.
    """
    room = max(1, room)
    kept = list(rows)
    # Idle parts first; in each kind the last line first.
    order = sorted(range(len(rows)), key=lambda at: (_usefulness(rows[at]), -at))
    for row in (rows[at] for at in order):
        if len(kept) <= room or _usefulness(row) == _MAIN:
            break
        if not row.op or row.key != chosen:
            kept.remove(row)
    at = next((at for at, row in enumerate(kept) if row.op and row.key == chosen), 0)
    first = max(0, min(at - room // 2, len(kept) - room))
    shown = kept[first : first + room]
    return shown, [row for row in rows if row not in shown]


_IDLE_PART, _PART, _BESIDE, _MAIN = range(4)


def _usefulness(row: LayerRow) -> int:
    if row.is_part:
        return _PART if row.stats.count or not row.op else _IDLE_PART
    return _MAIN if row.direction else _BESIDE
