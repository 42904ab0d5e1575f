"""One layer: a line for each kind of operation, then its own numbers and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ioh.model.metric import MetricSpec
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats
from ioh.sinks.cells import UNKNOWN, format_ms, format_scaled, safe_name
from ioh.sinks.rows import is_flow
from ioh.terminal.line import Line, ScreenFrame, wrapped
from ioh.tui.history import series
from ioh.tui.render.op_columns import ERRORS, Column, cells, fitting, titles, width_of, with_errors
from ioh.tui.render.trends import TREND_INTERVALS, TREND_STYLES, length_text, render_braille
from ioh.tui.render.zoom import LayersView, op_style
from ioh.tui.rows import LayerRow, flow_facts, layer_rows, megabytes, metric_text, metric_title

_MIN_TREND = 12
_SLOWEST = 13  # columns of a time and a size
_TREND_FROM = 90  # from this width the trend matters more than a percentile
_MIN_LABEL = 12
_MAX_LABEL = 24
# Gauges that are limits of the layer, not its activity.
_LIMIT_PREFIXES = ("max_", "rsize", "wsize", "speed_", "read_ahead", "chunk", "slots", "nconnect")
_LIMIT_SUFFIXES = ("_limit", "_limit_bytes")
_MAX_LIMITED = 3


def _slowest(stats: OpStats) -> str:
    """The slowest operation and its size."""
    if stats.max_us is None or not stats.count:
        return UNKNOWN
    size = f" ({format_scaled(stats.max_bytes, 1024)})" if stats.max_bytes != 0 else ""  # a sync's
    return format_ms(stats.max_us) + size


COLUMNS = (
    Column("MB/s", 5, lambda s: megabytes(s.bytes_per_s), style="strong"),
    Column("ops/s", 5, lambda s: format_scaled(s.ops_per_s)),
    Column("size", 5, lambda s: format_scaled(s.avg_bytes, 1024), rank=2),
    Column("avg ms", 6, lambda s: format_ms(s.latency_us), style="strong"),
    Column("queue", 5, lambda s: format_ms(s.queue_us), rank=5),
    Column("service", 7, lambda s: format_ms(s.service_us), rank=5),
    Column("p50", 5, lambda s: format_ms(s.p50_us), rank=6),
    Column("p95", 5, lambda s: format_ms(s.p95_us), rank=8),
    Column("p99", 5, lambda s: format_ms(s.p99_us), rank=1),
    Column("p99.9", 5, lambda s: format_ms(s.p999_us), rank=10),
    Column("max ms (size)", _SLOWEST, _slowest, rank=4),
    Column("in-fl", 5, lambda s: format_scaled(s.inflight), rank=3),
    Column("avg-fl", 6, lambda s: format_scaled(s.avg_inflight), rank=9),
    Column("err/s", 5, ERRORS.cell, rank=7),
)
_NEEDED = [column for column in COLUMNS if column.rank == 0]


def render_ops(view: LayersView, layer: LayerSnapshot, width: int, room: int) -> ScreenFrame:
    """A heading and a line for each op, at most ``room`` of them; a click chooses the op."""
    every = layer_rows(view.snapshot, only=layer.spec.name)
    rows = fitted_rows(every, view.state.chosen, room)
    hidden = len(every) - len(rows)
    # Hidden rows count too: columns do not move when one becomes visible.
    widest = max((len(_label(row)) for row in every), default=0)
    label_width = max(_MIN_LABEL, min(_MAX_LABEL, widest, width - width_of(_NEEDED)))
    least = _MIN_TREND + 2 if width >= _TREND_FROM else 0
    numbers = with_errors(COLUMNS, [row.stats for row in every])
    columns = fitting(numbers, width - label_width - least)
    used = label_width + width_of(columns)
    trend = min(TREND_INTERVALS // 2, width - used - 2)
    points = view.points[-TREND_INTERVALS:]
    missing = f"+{hidden} row{'s' if hidden > 1 else ''}" if hidden else ""
    if hidden and len(missing) + 7 <= label_width:
        missing += " hidden"
    head = Line().left(missing, label_width, "dim" if hidden else "")
    head = titles(columns[:2] if is_flow(layer.spec) else columns, head).to(used)
    if trend >= _MIN_TREND:
        head.add("  ").add(f"trend {length_text(points, 2 * trend)}", "head")
    frame = ScreenFrame([head.fitted(width)])
    for row in rows:
        line = _render_row(row, view, layer, columns, label_width)
        if trend >= _MIN_TREND and line.width <= used:
            values = series(points, row.key, "bytes_per_s")
            if not any(values):
                values = series(points, row.key, "ops_per_s")
            bars = render_braille(values, trend, view.tick)
            line.to(used).add("  ").add(bars, TREND_STYLES[row.direction])
        frame.add(line.fitted(width), (0, width, "choose", f"{row.layer}/{row.op}"))
    return frame


def _label(row: LayerRow) -> str:
    mark = " └ " if row.is_part else " "
    return f"{row.direction or ' '}{mark}{row.label}"


def _render_row(
    row: LayerRow,
    view: LayersView,
    layer: LayerSnapshot,
    columns: Sequence[Column],
    label_width: int,
) -> Line:
    line = Line().left(_label(row), label_width, op_style(view, row.key))
    if is_flow(layer.spec):  # no latencies, show its other numbers there
        facts = "  ".join(flow_facts(layer, row.direction))
        return cells(columns[:2], row.stats, line).add("  ").add(facts)
    return cells(columns, row.stats, line, "dim" if row.stats.count == 0 else "")


def fitted_rows(rows: Sequence[LayerRow], chosen: tuple[str, str], room: int) -> Sequence[LayerRow]:
    """The rows that fit ``room`` lines, always with the chosen one.

    Parts are left out first, the idle ones before others, then rows that are neither reads nor
    writes; of each kind the last row first.
    """

    def order(at: int) -> tuple[bool, bool, bool, bool, int]:
        row = rows[at]
        is_idle = row.is_part and not row.stats.count
        return row.key != chosen, is_idle, row.is_part, not row.direction, at

    return [rows[at] for at in sorted(sorted(range(len(rows)), key=order)[: max(1, room)])]


def render_facts(layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    """At most ``height`` lines: the layer's own numbers that are not zero, then its limits."""
    items = _texts(layer.spec.metrics, layer.metrics)
    limits = list(_limits(layer))
    lines = _joined("", items, width)[: height - bool(limits)]
    return (lines + _joined("  limits ", limits, width))[:height]


def render_notes(layer: LayerSnapshot, width: int, height: int) -> list[Line]:
    """At most ``height`` lines: what the layer does not measure; for /proc the panels have it."""
    notes = layer.notes if layer.source != "proc" else ()
    lines = [wrapped(safe_name(note, 1000), width - 1, "dim", 2) for note in notes]
    return list(chain.from_iterable(lines))[:height]


def _limits(layer: LayerSnapshot) -> Iterator[str]:
    """The limits in the first rows of each breakdown."""
    for table in layer.spec.tables:
        columns = [column for column in table.columns if _is_limit(column)]
        for row in layer.tables.get(table.name, ())[:_MAX_LIMITED] if columns else ():
            if shown := _texts(columns, row.values):
                yield f"{safe_name(row.key[0], 24)}: {' '.join(shown)}"


def _texts(specs: Iterable[MetricSpec], values: Mapping[str, Value]) -> list[str]:
    """Title and number of each spec with a title and a number that is not 0."""
    known = ((spec, values.get(spec.derived_name)) for spec in specs if spec.title)
    return [f"{metric_title(spec)} {metric_text(spec, value)}" for spec, value in known if value]


def _is_limit(column: MetricSpec) -> bool:
    name = column.derived_name
    return column.kind == "gauge" and (
        name.startswith(_LIMIT_PREFIXES) or name.endswith(_LIMIT_SUFFIXES)
    )


def _joined(head: str, items: list[str], width: int) -> list[Line]:
    lines: list[Line] = []
    for item in items:
        if not lines or lines[-1].width + len(item) + 2 > width:
            lines.append(Line(head, "dim"))
        lines[-1].add("  ").add(item)
    return lines
