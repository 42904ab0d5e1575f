"""Who: the breakdown shown (process, file, device …), below the names of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import TableSpec
from ioh.model.snapshot import LayerSnapshot, TableRow
from ioh.sinks.cells import cut_to, display_width, safe_name
from ioh.tui.history import row_series
from ioh.tui.render.breakdown import Trends, chosen_rows, render_top
from ioh.tui.render.line import Click, ScreenFrame, heading
from ioh.tui.render.trends import length_text, render_braille
from ioh.tui.render.zoom import LayersView, shown_layer
from ioh.tui.state import ViewState

_FILTER = 20  # columns of a filter's text in a heading
_TREND_FROM, _WIDE_FROM = 120, 150  # columns needed for a trend in each row, and for a wide one


class Tab(NamedTuple):
    """One breakdown of a layer."""

    layer: LayerSnapshot
    spec: TableSpec

    @property
    def name(self) -> str:
        """The argument of the action ``table``: ``block/device``."""
        return f"{self.layer.spec.name}/{self.spec.name}"

    @property
    def title(self) -> str:
        """``block: devices``, printable."""
        return f"{safe_name(self.layer.spec.title)}: {safe_name(self.spec.title)}"


class Part(NamedTuple):
    """A text of the heading; a click shows the breakdown named ``tab``."""

    text: str
    style: str = ""
    tab: str = ""


def shown_tab(view: LayersView) -> Tab | None:
    """The breakdown shown; None if the chosen layer is inactive or has none."""
    layer = shown_layer(view)
    spec = table_spec(layer, view.state) if layer else None
    return Tab(layer, spec) if layer and spec else None


def tabs_of(view: LayersView) -> tuple[list[Tab], int]:
    """The breakdowns that ``t`` goes through, and which of them is shown, -1 for none.

    In the zoom those of the layer; else those of all layers that have rows, and the one shown.
    """
    shown = shown_tab(view)
    zoomed, name = view.state.layer, shown.name if shown else ""
    layers = [x for x in view.snapshot.measured.values() if zoomed in {"", x.spec.name}]
    every = [Tab(layer, spec) for layer in layers for spec in layer.spec.tables]
    tabs = [tab for tab in every if zoomed or tab.name == name or rows_of(view, tab)]
    return tabs, next((at for at, tab in enumerate(tabs) if tab.name == name), -1)


def table_spec(layer: LayerSnapshot, state: ViewState) -> TableSpec | None:
    """The breakdown shown: the one requested, or the layer's first.

    If that one is empty, what is in progress, if anything is.
    """
    tables, wanted = layer.spec.tables, state.table_of(layer.spec.name).name
    if not wanted and tables and not layer.tables.get(tables[0].name):
        wanted = IN_PROGRESS if layer.rows(IN_PROGRESS) else ""
    return next((t for t in tables if t.name == wanted), tables[0] if tables else None)


def rows_of(view: LayersView, tab: Tab) -> list[TableRow]:
    """A breakdown's rows, filtered and sorted as on the screen."""
    rows, state = tab.layer.tables.get(tab.spec.name, ()), view.state
    return chosen_rows(rows, state.table_of(tab.layer.spec.name), state.pattern)


def visible_rows(view: LayersView) -> tuple[TableSpec | None, list[tuple[str, ...]]]:
    """The breakdown shown and the keys of its rows, filtered and sorted as on the screen."""
    tab = shown_tab(view)
    return (tab.spec, [row.key for row in rows_of(view, tab)]) if tab else (None, [])


def breakdown(view: LayersView, width: int, height: int) -> ScreenFrame:
    """The breakdown shown; the heading has the names of the others."""
    tabs, at = tabs_of(view)
    parts = [Part("WHO", "title")]
    if at >= 0:
        beside = [*_in_progress(view, tabs, at), *_filter(view.state)]
        room = width - 4 - sum(display_width(part.text) for part in (*parts, *beside))
        named = list(_named(view, tabs, at, room))
        seen = {part.tab for part in named}
        parts += [*named, *(part for part in beside if not part.tab or part.tab not in seen)]
    hits, left = list[Click](), 3
    for part in parts:
        right = left + display_width(part.text)
        hits += [(left, right, "table", part.tab)] if part.tab else []
        left = right
    frame = ScreenFrame()
    frame.add(heading([(part.text, part.style) for part in parts], width), *hits)
    if at >= 0:
        frame.below(_rows(view, tabs, at, width, height - 1))
    return frame


def _in_progress(view: LayersView, tabs: Sequence[Tab], at: int) -> Iterator[Part]:
    """The first layer in which something is in progress for long, if that is not shown."""
    for tab in tabs:
        if tab.spec.name == IN_PROGRESS and tab is not tabs[at] and rows_of(view, tab):
            yield Part(f"  {safe_name(tab.layer.spec.title)} in progress", "warn", tab.name)
            return


def _filter(state: ViewState) -> Iterator[Part]:
    if state.pattern:
        yield Part(f"  filter: {cut_to(safe_name(state.pattern), _FILTER)}", "accent")


def _named(view: LayersView, tabs: Sequence[Tab], at: int, room: int) -> Iterator[Part]:
    """The breakdowns whose names fit, each layer's after its title, always with the one shown."""
    layers = [f"{safe_name(tab.layer.spec.title)}: " for tab in tabs]
    titles = [safe_name(tab.spec.title) for tab in tabs]

    def label(i: int, begin: int) -> str:
        return layers[i] if i == begin or tabs[i].layer is not tabs[i - 1].layer else ""

    def width(begin: int, end: int) -> int:
        left_out = (begin > 0) + (end < len(tabs))
        texts = (label(i, begin) + titles[i] for i in range(begin, end))
        return sum(display_width(text) + 2 for text in texts) + 3 * left_out

    begin, end = 0, at + 1
    while begin < at and width(begin, end) > room:
        begin += 1
    while end < len(tabs) and width(begin, end + 1) <= room:
        end += 1
    over = max(0, width(begin, end) - room)
    if begin:
        yield Part("  ~", "dim")
    for i in range(begin, end):
        is_waiting = tabs[i].spec.name == IN_PROGRESS and rows_of(view, tabs[i])
        yield Part("  ")
        yield Part(label(i, begin))
        title = cut_to(titles[i], max(1, display_width(titles[i]) - over * (i == at)))
        yield Part(title, "tab" if i == at else "warn" if is_waiting else "dim", tabs[i].name)
    if end < len(tabs):
        yield Part("  ~", "dim")


def _rows(view: LayersView, tabs: Sequence[Tab], at: int, width: int, height: int) -> ScreenFrame:
    """The rows of a breakdown; without any, where the filter finds some."""
    tab, state = tabs[at], view.state
    rows, table = rows_of(view, tab), state.table_of(tab.layer.spec.name)
    has_focus = state.focus == "top" and tab.layer.spec.name == state.chosen[0]
    nothing = "nothing in this interval"
    if state.pattern and not rows:
        found = ((each, len(rows_of(view, each))) for each in tabs)
        others = (f"; {each.title} has {count}" for each, count in found if count)
        nothing = f'no rows match "{safe_name(state.pattern)}"{next(others, "")}'
    return render_top(
        tab.spec,
        rows,
        table,
        width,
        height,
        nothing=nothing,
        has_focus=has_focus,
        trends=_trends(view, tab, width),
    )


def _trends(view: LayersView, tab: Tab, width: int) -> Trends | None:
    """The trend of each row: of the sum that ranks it, mostly MB/s."""
    name, columns = (tab.layer.spec.name, tab.spec.name), 30 if width >= _WIDE_FROM else 15
    if width < _TREND_FROM or not any(point and name in point for point in view.rows):
        return None

    def of(key: tuple[str, ...]) -> str:
        return render_braille(row_series(view.rows, name, key), columns, view.tick)

    return Trends(f"last {length_text(view.points, 2 * columns)}", columns, of)
