"""The panels of the zoom: the chosen op's table, heat map or graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ioh.model.in_progress import IN_PROGRESS
from ioh.model.printable import printable
from ioh.model.sample import OTHERS, Unavailable
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import cut_middle, safe_name
from ioh.sinks.rows import direction, is_flow
from ioh.terminal.line import Line, ScreenFrame, heading, wrapped
from ioh.tui.history import Measure, RowRates, TrendPoint, is_busy, latencies, series
from ioh.tui.render.histogram import (
    hidden_sizes,
    histogram_of,
    render_heat_map,
    render_size_latency,
)
from ioh.tui.render.trends import STYLES, TREND_INTERVALS, TREND_STYLES, render_chart
from ioh.tui.rows import why_inactive
from ioh.tui.state import Narrow, ViewState

# Options that narrow the probes: they measure everything, from the next start.
_OPTIONS = {"process": "--pid", "device": "--device", "port": "--port"}
_TITLES = {
    "hist": "latency by size, counts",
    "heat": "latency over time",
    "graph": "throughput and rate over time",
}
IDLE = Unavailable("idle", is_idle=True)


class LastMark(NamedTuple):
    """The newest mark: its text, and the intervals since; 0 if the points begin later."""

    text: str
    intervals: int = 0


@dataclass(frozen=True, slots=True)
class LayersView:
    """The data of every panel; ``tick`` is the number of the newest point, also of ``rows``."""

    state: ViewState
    snapshot: Snapshot
    points: Sequence[TrendPoint | None]
    tick: int = 0
    rows: Sequence[RowRates | None] = ()
    mark: LastMark | None = None


def shown_layer(view: LayersView) -> LayerSnapshot | None:
    """The layer that the panels show; None if it is inactive."""
    return view.snapshot.layer(view.state.chosen[0])


def op_style(view: LayersView, key: tuple[str, str]) -> str:
    """The style of an op's name, which marks the chosen one."""
    if key == view.state.chosen:
        return "sel" if view.state.focus == "layers" else "sel2"
    return STYLES[direction(key[1])]


def busy_ops(view: LayersView) -> Collection[tuple[str, str]]:
    """The (layer, op) pairs with operations in the interval or in the trends before it."""
    known = [point.ops for point in view.points[-TREND_INTERVALS:] if point is not None]
    layers = view.snapshot.measured.items()
    now = {(name, op) for name, x in layers for op, stats in x.ops.items() if is_busy(stats)}
    return now.union(*known)


def folded(view: LayersView) -> LayersView:
    """The same with idle layers as inactive.

    The chosen layer and those with a finding stay; all stay if none is busy.  A layer with
    unknown numbers or with something in progress is not idle.
    """
    kept = {layer for layer, _ in busy_ops(view)}
    if not kept:
        return view
    kept |= {view.state.chosen[0], *(finding.layer for finding in view.snapshot.findings)}
    layers = dict(view.snapshot.layers)
    for name, layer in view.snapshot.measured.items():
        if name in kept or layer.rows(IN_PROGRESS):
            continue
        if any(stats.count == 0 for stats in layer.ops.values()):
            layers[name] = IDLE
    return replace(view, snapshot=replace(view.snapshot, layers=layers))


def panel_kinds(view: LayersView) -> list[tuple[str, int]]:
    """The panels to show where they fit, each with its fewest lines; the one chosen first."""
    chosen, layer = view.state.panel, shown_layer(view)
    kinds = {chosen: 0}
    if layer is not None and chosen != "graph":
        has_heat = not is_flow(layer.spec) and any(latencies(view.points, view.state.chosen))
        kinds |= {"hist": 3, **({"heat": 4} if has_heat else {}), "graph": 5}
    return list(kinds.items())


def panel(view: LayersView, width: int, height: int, kind: str = "") -> ScreenFrame:
    """The table, heat map or graph of the chosen op, with a heading; a graph fills the height."""
    kind = kind or view.state.panel
    layer, op = shown_layer(view), view.state.chosen[1]
    title, what, hidden = "", _TITLES[kind], 0
    if layer is not None:
        title = f"{safe_name(layer.spec.title)} {op.replace('_', ' ')}"
    if kind == "hist" and layer is not None:
        stats = layer.ops.get(op, OpStats())
        if is_flow(layer.spec):
            what = "connections by round-trip time"
        elif not _has_sizes(layer, stats):
            what = "latency, counts"
        hidden = hidden_sizes(stats.size_lat, height - 1)
    spans = [(title, "title"), (f"  {what}", "dim")]
    spans += [(f"  +{hidden} sizes", "dim")] if hidden else []
    lines = [heading(spans, width), *_body(view, layer, kind, width, height - 1)]
    return ScreenFrame([line.fitted(width) for line in lines[:height]])


def _body(
    view: LayersView, layer: LayerSnapshot | None, kind: str, width: int, height: int
) -> Sequence[Line]:
    if layer is None:
        why = why_inactive(view.snapshot, view.state.chosen[0])
        why = why or "nothing to show: choose an active layer"
        return wrapped(cut_middle(why, 1000), width, "dim")
    if kind == "graph":
        return list(_graphs(view, width, height))
    stats = layer.ops.get(view.state.chosen[1], OpStats())
    intervals = latencies(view.points, view.state.chosen) if kind == "heat" else []
    if view.state.narrow is not None and stats.size_lat is None and not any(intervals):
        return _not_kept(view.state.narrow, width)
    if kind == "heat":
        lengths_s = [None if point is None else point.interval_s for point in view.points]
        return render_heat_map(intervals, width, height, lengths_s)
    style, hist = STYLES[direction(view.state.chosen[1])], histogram_of(layer, stats)
    lines = render_size_latency(hist, width, height, style, has_bytes=_has_sizes(layer, stats))
    if hist is None and layer.source == "proc":  # the notes of other sources are above
        for note in layer.notes:
            lines += wrapped(safe_name(note), width - 1, "dim", 2)
    return lines


def _has_sizes(layer: LayerSnapshot, stats: OpStats) -> bool:
    """False for connections, and for operations without bytes, such as syncs and statements."""
    return not is_flow(layer.spec) and (not stats.count or stats.bytes != 0)


def _not_kept(narrow: Narrow, width: int) -> list[Line]:
    """Why a single row has no histogram, and how to get one."""
    text = f"no percentiles or latencies per {narrow.kind}"
    lines = wrapped(text, width, "dim")
    if narrow.kind in _OPTIONS and narrow.key[0] != OTHERS:
        option = f"{_OPTIONS[narrow.kind]} {printable(narrow.key[0], 40)}"
        lines += wrapped(f"ioh {option} measures them, also in a recording", width, "dim")
    return lines


def _graphs(view: LayersView, width: int, height: int) -> Iterator[Line]:
    style = TREND_STYLES[direction(view.state.chosen[1])]  # as loud as the overview's
    upper = max(1, (height - 2) // 2)
    graphs: tuple[tuple[Measure, str, int], ...] = (
        ("bytes_per_s", "throughput, B/s", upper),
        ("ops_per_s", "operations, 1/s", max(1, height - 2 - upper)),
    )
    for measure, title, rows in graphs:
        yield Line(f" {title}", "head")
        values = series(view.points, view.state.chosen, measure)
        yield from render_chart(values, width, rows, style)
