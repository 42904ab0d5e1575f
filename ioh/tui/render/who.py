"""Who: the breakdown shown (process, file, device …), below the names of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import TableSpec
from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import cut_to, display_width, safe_name
from ioh.tui.render.breakdown import chosen_rows, render_top
from ioh.tui.render.line import Click, ScreenFrame, Span, heading
from ioh.tui.render.zoom import LayersView, shown_layer
from ioh.tui.state import TableState, ViewState

_FILTER = 20  # columns of a filter's text in a heading


def breakdown(view: LayersView, width: int, height: int) -> ScreenFrame:
    """The chosen layer's breakdown; the heading has the names of the others."""
    layer = shown_layer(view)
    if layer is None:
        return ScreenFrame([heading([("Top", "title")], width)])
    table, spec = view.state.table_of(layer.spec.name), table_spec(layer, view.state)
    spans: list[Span] = [(f"{safe_name(layer.spec.title)} by", "dim")]
    hits: list[Click] = []
    at = 3 + display_width(spans[0][0])
    filtered = f"  {_filter_text(table)}" if table.pattern else ""
    for other, title in _named_tables(layer, spec, width - at - 1 - display_width(filtered)):
        gap = "  " if other else " "
        spans += [(gap, ""), (title, "tab" if other and other is spec else "dim")]
        at += len(gap) + display_width(title)
        if other:
            hits.append((at - display_width(title), at, "table", other.name))
    frame = ScreenFrame()
    frame.add(heading([*spans, (filtered, "warn")], width), *hits)
    if spec is not None:
        frame.below(_rows(view, layer, spec, width, height - 1))
    return frame


def breakdown_name(view: LayersView, layer: LayerSnapshot) -> list[Span]:
    """The title of a panel's breakdown, and its filter."""
    table, spec = view.state.table_of(layer.spec.name), table_spec(layer, view.state)
    spans = [(f" by {safe_name(spec.title)} ", "dim")] if spec else []
    return [*spans, (f"{_filter_text(table)} ", "warn")] if table.pattern else spans


def breakdown_rows(view: LayersView, layer: LayerSnapshot, width: int, height: int) -> ScreenFrame:
    """The first rows of a layer's breakdown; a click on a row chooses it."""
    name = layer.spec.name
    spec = table_spec(layer, view.state)
    if spec is None:
        return ScreenFrame()
    frame = _rows(view, layer, spec, width, height)
    if view.state.chosen[0] != name:
        frame.hits = [
            replace(hit, action="row_of", argument=f"{name}/{hit.argument}")
            for hit in frame.hits
            if hit.action == "row"
        ]
    return frame


def visible_rows(view: LayersView) -> tuple[TableSpec | None, list[tuple[str, ...]]]:
    """The breakdown shown and the keys of its rows, filtered and sorted as on the screen."""
    layer = shown_layer(view)
    if layer is None:
        return None, []
    table, spec = view.state.table_of(layer.spec.name), table_spec(layer, view.state)
    if spec is None:
        return None, []
    return spec, [row.key for row in chosen_rows(layer.tables.get(spec.name, ()), table)]


def table_spec(layer: LayerSnapshot, state: ViewState) -> TableSpec | None:
    """The breakdown shown: the one requested, or the layer's first.

    If that one is empty, what is in progress, if anything is.
    """
    tables, wanted = layer.spec.tables, state.table_of(layer.spec.name).name
    if not wanted and tables and not layer.tables.get(tables[0].name):
        wanted = IN_PROGRESS if layer.rows(IN_PROGRESS) else ""
    return next((t for t in tables if t.name == wanted), tables[0] if tables else None)


def _rows(
    view: LayersView, layer: LayerSnapshot, spec: TableSpec, width: int, height: int
) -> ScreenFrame:
    name, state = layer.spec.name, view.state
    rows, table = layer.tables.get(spec.name, ()), state.table_of(name)
    has_focus = state.focus == "top" and name == state.chosen[0]
    return render_top(spec, rows, table, width, height, has_focus=has_focus)


def _named_tables(
    layer: LayerSnapshot, shown: TableSpec | None, room: int
) -> Iterator[tuple[TableSpec | None, str]]:
    """The breakdowns whose names fit, always with the one shown; None for those left out."""
    tables = layer.spec.tables
    titles = [safe_name(table.title) for table in tables]
    at = next((i for i, table in enumerate(tables) if table is shown), 0)

    def width(begin: int, end: int) -> int:
        left_out = (begin > 0) + (end < len(titles))
        return sum(display_width(title) + 2 for title in titles[begin:end]) + 2 * left_out

    begin, end = 0, min(at + 1, len(titles))
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


def _filter_text(table: TableState) -> str:
    return f"filter: {cut_to(safe_name(table.pattern), _FILTER)}"
