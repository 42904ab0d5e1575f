"""The panels below the layers: the chosen op's table, heat map or graph, and the breakdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ioh.model.hist import LATENCY_BUCKETS
from ioh.model.metric import TableSpec
from ioh.model.printable import printable
from ioh.model.sample import OTHERS, Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.sinks.cells import cut_to, display_width, safe_name
from ioh.sinks.rows import direction, is_flow
from ioh.tui.history import Measure, TrendPoint, latencies, series
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.heat import render_heat_map
from ioh.tui.render.line import Line, ScreenFrame, Span, heading
from ioh.tui.render.sizelat import column_label, hidden_sizes, histogram_of, render_size_latency
from ioh.tui.render.spark import render_chart
from ioh.tui.render.top import TopView, chosen_rows, render_top
from ioh.tui.render.trends import STYLES, TREND_STYLES
from ioh.tui.state import Narrow, TableState, ViewState

_FILTER = 20  # columns of a filter's text in a heading
SIDE_BY_SIDE = 100  # columns from which two panels stand beside each other

# Narrowing by the probes themselves keeps everything, at the next start.
_OPTIONS = {"process": "--pid", "device": "--device", "port": "--port"}
_TITLES = {
    "hist": "latency by size, counts",
    "heat": "latency over time",
    "graph": "throughput and rate over time",
}


@dataclass(frozen=True, slots=True)
class PanelView:
    """What every panel draws from; ``tick`` numbers the newest of the points."""

    state: ViewState
    snapshot: Snapshot
    points: Sequence[TrendPoint | None]
    glyphs: Glyphs
    tick: int = 0


def shown_layer(view: PanelView) -> LayerSnapshot | None:
    """The layer that the panels are about; None where it is not there."""
    layer = view.snapshot.layers.get(view.state.layer or view.state.chosen[0])
    return layer if isinstance(layer, LayerSnapshot) else None


def table_spec(layer: LayerSnapshot, table: TableState) -> TableSpec | None:
    """The breakdown shown: the one asked for, or the layer's first."""
    tables = layer.spec.tables
    return next((t for t in tables if t.name == table.name), tables[0] if tables else None)


def chosen_title(view: PanelView) -> str:
    """``block read``."""
    layer = shown_layer(view)
    op = view.state.chosen[1]
    return f"{safe_name(layer.spec.title)} {op.replace('_', ' ')}" if layer else ""


def panel(view: PanelView, width: int, height: int, kind: str = "") -> ScreenFrame:
    """The table, heat map or graph of the chosen op, with its heading."""
    kind = kind or view.state.panel
    frame = ScreenFrame()
    layer = shown_layer(view)
    is_rtt = kind == "hist" and layer is not None and is_flow(layer.spec)
    what = "connections by round-trip time" if is_rtt else _TITLES[kind]
    spans: list[Span] = [(chosen_title(view), "title"), (f"  {what}", "dim")]
    if kind == "hist" and layer is not None:
        stats = layer.ops.get(view.state.chosen[1], OpStats())
        if _has_no_bytes(stats):
            spans[1] = ("  latency, counts", "dim")
        hidden = hidden_sizes(stats.size_lat, height - 1)
        spans += [(f"  +{hidden} sizes", "warn")] if hidden else []
    frame.add(heading(spans, width, view.glyphs.rule))
    for line in _body(view, layer, kind, width, height - 1):
        frame.add(line.fitted(width))
    return frame


def _body(
    view: PanelView, layer: LayerSnapshot | None, kind: str, width: int, height: int
) -> Iterator[Line]:
    if layer is None:
        yield from _not_there(view, width)
        return
    stats = layer.ops.get(view.state.chosen[1], OpStats())
    is_kept = stats.size_lat is not None or view.state.narrow is None
    if kind == "hist":
        if is_flow(layer.spec):
            yield from _gauges(layer, width, view.glyphs)
            return
        if view.state.narrow is not None and not is_kept:
            yield from _not_kept(view.state.narrow, width)
            return
        yield from _size_latency(view, layer, stats, width, height)
    elif kind == "heat":
        intervals = latencies(view.points, view.state.chosen)
        if view.state.narrow is not None and not is_kept and not any(intervals):
            yield from _not_kept(view.state.narrow, width)
            return
        lengths_s = [None if point is None else point.interval_s for point in view.points]
        yield from render_heat_map(intervals, width, height, view.glyphs, lengths_s)
    else:
        yield from _graphs(view, width, height)


def _has_no_bytes(stats: OpStats) -> bool:
    """Whether what ended moved nothing, such as syncs and statements."""
    return bool(stats.count) and stats.bytes == 0


def _size_latency(
    view: PanelView, layer: LayerSnapshot, stats: OpStats, width: int, height: int
) -> Iterator[Line]:
    style = STYLES[direction(view.state.chosen[1])]
    hist = histogram_of(layer, stats)
    has_bytes = not _has_no_bytes(stats)
    yield from render_size_latency(hist, width, height, view.glyphs, style, has_bytes=has_bytes)
    if hist is None and layer.source == "proc":  # others' notes stand above
        for note in layer.notes:
            for part in textwrap.wrap(safe_name(note), max(20, width - 4)):
                yield Line("  ").add(part, "dim")


def _not_there(view: PanelView, width: int) -> Iterator[Line]:
    """Why a layer has nothing to show, in its own words."""
    name = view.state.layer or view.state.chosen[0]
    layer = view.snapshot.layers.get(name)
    text = "nothing to show: choose an active layer"
    if isinstance(layer, Unavailable):
        spec = view.snapshot.specs.get(name)
        text = f"{spec.title if spec else name} is inactive: {layer.reason}"
        text += f"; {layer.hint}" if layer.hint else ""
    for part in textwrap.wrap(safe_name(text, 1000), max(20, width - 2)):
        yield Line(" ").add(part, "dim")


def _not_kept(narrow: Narrow, width: int) -> Iterator[Line]:
    """Why there is no histogram of one row, and how to get one."""
    texts = [f"percentiles and latencies are not kept for each {narrow.kind}"]
    if narrow.kind in _OPTIONS and narrow.key[0] != OTHERS:
        option = f"{_OPTIONS[narrow.kind]} {printable(narrow.key[0], 40)}"
        texts.append(f"ioh {option} keeps them, also in a recording")
    for text in texts:
        for part in textwrap.wrap(text, max(20, width - 2)):
            yield Line(" ").add(part, "dim")


def _gauges(layer: LayerSnapshot, width: int, glyphs: Glyphs) -> Iterator[Line]:
    """Distributions of things as they are now, such as connections by round-trip time."""
    for spec in layer.spec.gauge_hists:
        counts = layer.gauge_hists.get(spec.name) or ()
        used = [bucket for bucket in range(min(len(counts), LATENCY_BUCKETS)) if counts[bucket]]
        if not used:
            yield Line(" nothing in this interval", "dim")
            continue
        largest = max(counts)
        for bucket in range(min(used), max(used) + 1):
            bar = round(counts[bucket] / largest * max(1, width - 16))
            line = Line().right(column_label(bucket), 6, "head").right(str(counts[bucket]), 7)
            yield line.add(" ").add(glyphs.shades[-1] * bar, "trend_o")


def _graphs(view: PanelView, width: int, height: int) -> Iterator[Line]:
    style = TREND_STYLES[direction(view.state.chosen[1])]  # as loud as the overview's
    upper = max(1, (height - 2) // 2)
    graphs: tuple[tuple[Measure, str, int], ...] = (
        ("bytes_per_s", "throughput, B/s", upper),
        ("ops_per_s", "operations, 1/s", max(1, height - 2 - upper)),
    )
    for measure, title, rows in graphs:
        yield Line(f" {title}", "head")
        values = series(view.points, view.state.chosen, measure)
        yield from render_chart(values, width, rows, view.glyphs, style)


def breakdown(view: PanelView, width: int, height: int) -> ScreenFrame:
    """The chosen layer's breakdown, with the names of its others in the heading."""
    frame = ScreenFrame()
    layer = shown_layer(view)
    if layer is None:
        frame.add(heading([("Top", "title")], width, view.glyphs.rule))
        return frame
    name = layer.spec.name
    table = view.state.table_of(name)
    spec = table_spec(layer, table)
    spans: list[Span] = [(f"{safe_name(layer.spec.title)} by", "dim")]
    hits: list[tuple[int, int, str, str | int | float]] = []
    at = 3 + display_width(spans[0][0])
    pattern = f"  filter: {cut_to(safe_name(table.pattern), _FILTER)}" if table.pattern else ""
    for other, title in _named_tables(layer, spec, width - at - 1 - display_width(pattern)):
        gap = "  " if other else " "
        spans += [(gap, ""), (title, "tab" if other and other is spec else "dim")]
        at += len(gap) + display_width(title)
        if other:
            hits.append((at - display_width(title), at, "table", other.name))
    if pattern:
        spans.append((pattern, "warn"))
    frame.add(heading(spans, width, view.glyphs.rule), *hits)
    if spec is not None:
        rows = layer.tables.get(spec.name, ())
        top = _top_view(view, table, rows, height - 1)
        frame.below(render_top(spec, rows, top, width, height - 1))
    return frame


def breakdown_name(view: PanelView, layer: LayerSnapshot) -> list[Span]:
    """What a panel's rows are, and the filter that they passed."""
    table = view.state.table_of(layer.spec.name)
    spec = table_spec(layer, table)
    spans = [(f" by {safe_name(spec.title)} ", "dim")] if spec else []
    if table.pattern:
        spans.append((f"filter: {cut_to(safe_name(table.pattern), _FILTER)} ", "warn"))
    return spans


def busiest(view: PanelView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """The first rows of a layer's breakdown; those of the chosen layer can be walked."""
    table = view.state.table_of(layer.spec.name)
    spec = table_spec(layer, table)
    if spec is None:
        return ScreenFrame()
    rows = layer.tables.get(spec.name, ())
    if view.state.chosen[0] != layer.spec.name:
        top = TopView(view.glyphs, table.sort, table.is_ascending, table.pattern)
        frame = render_top(spec, rows, top, width, height)
        frame.hits = [
            replace(hit, action="row_of", argument=f"{layer.spec.name}/{hit.argument}")
            for hit in frame.hits
            if hit.action == "row"
        ]
        return frame
    return render_top(spec, rows, _top_view(view, table, rows, height), width, height)


def _named_tables(
    layer: LayerSnapshot, shown: TableSpec | None, room: int
) -> Iterator[tuple[TableSpec | None, str]]:
    """The breakdowns whose names fit, the one shown among them; None stands for those left out."""
    tables = layer.spec.tables
    titles = [safe_name(table.title) for table in tables]
    at = next((i for i, table in enumerate(tables) if table is shown), 0)

    def width(begin: int, end: int) -> int:
        left_out = (begin > 0) + (end < len(titles))
        return sum(display_width(title) + 2 for title in titles[begin:end]) + 2 * left_out

    begin, end = 0, at + 1
    while begin < at and width(begin, end) > room:
        begin += 1
    while end < len(titles) and width(begin, end + 1) <= room:
        end += 1
    over = width(begin, end) - room
    if begin:
        yield None, "~"
    for i in range(begin, end):
        cut = over > 0 and i == at
        yield tables[i], cut_to(titles[i], max(1, display_width(titles[i]) - over * cut))
    if end < len(titles):
        yield None, "~"


def _top_view(view: PanelView, table: TableState, rows: Sequence[TableRow], height: int) -> TopView:
    top = TopView(view.glyphs, table.sort, table.is_ascending, table.pattern)
    if view.state.focus != "top":
        return top
    keys = [row.key for row in chosen_rows(rows, top)]
    count = len(keys)
    cursor = cursor_in(keys, table)
    room = max(1, height - 1)
    offset = max(cursor - room + 1, min(table.offset, cursor, count - room), 0)
    return replace(top, cursor=cursor, offset=offset)


def cursor_in(keys: Sequence[tuple[str, ...]], table: TableState) -> int:
    """Where the cursor is: on its row, wherever that has gone, else where that was last."""
    if table.key in keys:
        return keys.index(table.key)
    return max(0, min(table.cursor, len(keys) - 1))


def visible_rows(view: PanelView) -> tuple[TableSpec | None, list[tuple[str, ...]]]:
    """The breakdown shown and the keys of its rows, filtered and sorted as on the screen."""
    layer = shown_layer(view)
    if layer is None:
        return None, []
    table = view.state.table_of(layer.spec.name)
    spec = table_spec(layer, table)
    if spec is None:
        return None, []
    top = TopView(view.glyphs, table.sort, table.is_ascending, table.pattern)
    return spec, [row.key for row in chosen_rows(layer.tables.get(spec.name, ()), top)]
