"""Who: the breakdown shown (process, file, device …), below the names of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.metric import TableSpec
from ioh.model.rates import sum_known
from ioh.model.sample import OTHERS
from ioh.model.snapshot import LayerSnapshot, TableRow
from ioh.sinks.cells import cut_middle, cut_to, display_width, safe_name
from ioh.sinks.tables import longest_kind
from ioh.terminal.line import Click, Line, ScreenFrame, frame_of, heading
from ioh.tui.history import has_rates, row_id
from ioh.tui.render.breakdown import Trends, chosen_rows, render_top
from ioh.tui.render.trends import length_text, render_braille
from ioh.tui.render.zoom import LayersView, shown_layer
from ioh.tui.rows import megabytes
from ioh.tui.state import ViewState

_NAMED = ("file", "device", "mount", "client")  # the breakdowns to name the first row of
_TWO_NAMES = 70  # columns of a line with two of them
_MIN_LINES = 4  # of the breakdown, to also name what else is busiest
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
    tabs = [tab for tab in every if zoomed or tab.name == name or _has_rows(view, tab)]
    return tabs, next((at for at, tab in enumerate(tabs) if tab.name == name), -1)


def _has_rows(view: LayersView, tab: Tab) -> bool:
    rows = tab.layer.rows(tab.spec.name)
    return bool(rows_of(view, tab) if view.state.pattern and rows else rows)


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
    rows, state = list(tab.layer.tables.get(tab.spec.name, ())), view.state
    if kind := longest_kind(tab.spec, rows):
        rows.sort(key=lambda row: -(row.values.get(f"{kind}_ns_per_s") or 0.0))
    return chosen_rows(rows, state.table_of(tab.layer.spec.name), state.pattern)


def visible_rows(view: LayersView) -> tuple[Tab | None, list[tuple[str, ...]]]:
    """The breakdown shown and the keys of its rows, filtered and sorted as on the screen."""
    tab = shown_tab(view)
    return tab, [row.key for row in rows_of(view, tab)] if tab else []


def breakdown(view: LayersView, width: int, height: int) -> ScreenFrame:
    """The breakdown shown; the heading has the names of the others."""
    tabs, at = tabs_of(view)
    line, hits = Line("WHO", "title"), list[Click]()
    beside = list(_beside(view, tabs, at))
    room = width - 4 - line.width - sum(display_width(part.text) + 2 for part in beside)
    for text, style, name in [*_named(tabs, at, room), *beside] if at >= 0 else ():
        left = line.add(" " if line.text.endswith(":") else "  ").width + 3
        hits += [(left, left + display_width(text), "table", name)] if name else []
        line.add(text, style)
    frame = ScreenFrame()
    frame.add(heading(line.spans, width), *hits)
    if at >= 0:
        if height >= _MIN_LINES and not view.state.layer and not view.state.pattern:
            frame.below(_busiest(view, tabs[at], width))
        frame.below(_rows(view, tabs, at, width, height - len(frame.lines)))
    return frame


def _busiest(view: LayersView, shown: Tab, width: int) -> ScreenFrame:
    """`` busiest  file /data/log 5.5 MB/s   device vda 7.2 MB/s``: what is only behind ``t``."""
    line, hits = Line(" busiest", "dim"), list[Click]()
    room = (width - line.width) // (1 + (width >= _TWO_NAMES))
    for layer, spec in sorted(_first_tabs(view), key=lambda tab: _NAMED.index(tab.spec.name)):
        row = next((row for row in layer.rows(spec.name) if row.key[0] != OTHERS), None)
        rate = sum_known(row.values.get(name) for name in spec.sort_by) if row else None
        if row is None or not rate or (layer, spec) == shown:
            continue
        number = f" {megabytes(rate)} MB/s"
        name = cut_middle(safe_name(row.key[0]), max(4, room - len(spec.name + number) - 4))
        left = line.width + 2
        if left + len(spec.name) + 1 + display_width(name + number) > width:
            break
        line.add(f"  {spec.name} ", "dim").add(name, "name").add(number)
        hits.append((left, line.width, "table", Tab(layer, spec).name))
    return frame_of(line.fitted(width), *hits) if hits else ScreenFrame()


def _first_tabs(view: LayersView) -> Iterator[Tab]:
    """The highest layer's breakdown of each name in _NAMED."""
    found = dict[str, Tab]()
    for layer in view.snapshot.measured.values():
        for spec in layer.spec.tables:
            if spec.name in _NAMED and layer.rows(spec.name):
                found.setdefault(spec.name, Tab(layer, spec))
    yield from found.values()


def _beside(view: LayersView, tabs: Sequence[Tab], at: int) -> Iterator[Part]:
    """The first breakdown of what is in progress, if it is not shown, and the filter."""
    waiting = (tab for tab in tabs if tab.spec.name == IN_PROGRESS and _has_rows(view, tab))
    for layer, spec in islice((tab for tab in waiting if tab is not tabs[at]), 1):
        text = f"{safe_name(layer.spec.title)} in progress"
        yield Part(text, "warn", Tab(layer, spec).name)
    if view.state.pattern:
        yield Part(f"filter: {cut_to(safe_name(view.state.pattern), _FILTER)}", "accent")


def _named(tabs: Sequence[Tab], at: int, room: int) -> list[Part]:
    """The breakdowns of the layer shown, between the other layers, if they fit."""
    parts, label, shown = list[Part](), 0, 0
    for i, tab in enumerate(tabs):
        layer, is_own = safe_name(tab.layer.spec.title), tab.layer is tabs[at].layer
        if not i or tabs[i - 1].layer is not tab.layer:
            label = len(parts) if is_own else label
            parts.append(Part(f"{layer}:") if is_own else Part(layer, "dim", tab.name))
        if is_own:
            shown = len(parts) if i == at else shown
            parts.append(Part(safe_name(tab.spec.title), "tab" if i == at else "dim", tab.name))

    def over(count: int) -> int:
        return sum(display_width(part.text) + 2 for part in parts[:count]) + 3 - room

    while shown > 1 and over(shown + 1) > 0:
        parts.pop(0 if label else 1)  # never the layer shown
        label, shown = max(0, label - 1), shown - 1
    left_out = 0
    while len(parts) > shown + 1 and over(len(parts)) > 0:
        left_out += bool(parts.pop())
    title = parts[shown].text
    cut = cut_to(title, max(1, display_width(title) - max(0, over(shown + 1))))
    parts[shown] = parts[shown]._replace(text=cut)
    return [*parts, Part("~", "dim")] if left_out else parts


def _rows(view: LayersView, tabs: Sequence[Tab], at: int, width: int, height: int) -> ScreenFrame:
    """The rows of a breakdown; without any, where the filter finds some."""
    tab, state = tabs[at], view.state
    rows, table = rows_of(view, tab), state.table_of(tab.layer.spec.name)
    has_focus = state.focus == "top" and tab.layer.spec.name == state.chosen[0]
    nothing = "nothing in this interval"
    if state.pattern and not rows:
        nothing = f'no rows match "{safe_name(state.pattern)}"'
        found = ((each, len(rows_of(view, each))) for each in tabs)
        for (layer, spec), count in islice((each for each in found if each[1]), 1):
            nothing += f"; {safe_name(layer.spec.title)}: {safe_name(spec.title)} has {count}"
    trends = _trends(view, tab, width)
    return render_top(
        tab.spec, rows, table, width, height, nothing=nothing, has_focus=has_focus, trends=trends
    )


def _trends(view: LayersView, tab: Tab, width: int) -> Trends | None:
    """The trend of each row: of the sum that ranks it, mostly MB/s."""
    layer, table, columns = tab.layer.spec.name, tab.spec.name, 30 if width >= _WIDE_FROM else 15
    if width < _TREND_FROM or not any(view.rows) or not has_rates(tab.spec):
        return None

    def of(key: tuple[str, ...]) -> str:
        row = row_id(layer, table, key)
        values = [None if rates is None else rates.get(row) for rates in view.rows]
        return render_braille(values, columns, view.tick)

    return Trends(f"last {length_text(view.points, 2 * columns)}", columns, of)
