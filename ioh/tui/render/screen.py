"""Puts the pieces on the screen: header, time line, layers, panels, findings, footer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ioh.model.metric import LayerSpec
from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.sinks.cells import safe_name
from ioh.sinks.rows import is_flow
from ioh.sinks.text import render_lost
from ioh.tui.history import Point
from ioh.tui.render.facts import render_facts, render_notes
from ioh.tui.render.findings import render_findings, render_strip
from ioh.tui.render.fit import fitted_rows
from ioh.tui.render.footer import render_keys, render_message, render_page_keys, render_prompt
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.header import HeaderView, render_header
from ioh.tui.render.help import render_help
from ioh.tui.render.layers import (
    TREND_INTERVALS,
    LayersView,
    hidden_count,
    render_layers,
)
from ioh.tui.render.line import Frame, Line, beside, clipped, heading
from ioh.tui.render.panels import (
    SIDE_BY_SIDE,
    PanelView,
    breakdown,
    breakdown_width,
    panel,
    shown_layer,
)
from ioh.tui.render.timeline import TimelineView, render_timeline
from ioh.tui.rows import layer_rows
from ioh.tui.state import ViewState

ROOMY = 30  # lines from which headings and the time line are always shown
_MIN_PANEL = 5
TELL_S = 10.0  # findings are told of within that time of their evidence


@dataclass(frozen=True, slots=True)
class ScreenData:
    """What is drawn, beside what the user chose.

    Shape:
        ``snapshot`` narrowed already, None before the first one; ``points`` up to the interval
        shown; ``timeline`` None where there is nothing to visit yet; ``status`` what is being
        waited for; ``message`` of the moment and its style.
    """

    snapshot: Snapshot | None
    header: HeaderView
    glyphs: Glyphs
    points: Sequence[Point | None] = ()
    timeline: TimelineView | None = None
    status: str = ""
    message: tuple[str, str] = ("", "")
    specs: Sequence[LayerSpec] = field(default_factory=tuple)

    @property
    def is_following(self) -> bool:
        """Whether the newest interval is shown as it comes."""
        return self.header.shown == "live"


def draw(state: ViewState, data: ScreenData, width: int, height: int) -> Frame:
    """The whole screen, exactly ``height`` lines of ``width`` columns."""
    frame = Frame()
    frame.add(render_header(data.snapshot, data.header, width))
    _add_timeline(frame, data, width, height)
    room = body_height(data, height)
    page = _page(state, data, width)
    if page is not None:
        body = _scrolled(page, state.scroll, room)
    elif data.snapshot is None:
        body = _waiting(data, width)
    else:
        body = _main(state, data, data.snapshot, width, room)
    frame.below(clipped(body, max(0, room)))
    _add_footer(frame, state, data, width, _seen(page, state.scroll, room))
    made = clipped(frame, height)
    made.lines = [line.fitted(width) for line in made.lines]
    return made


def max_scroll(state: ViewState, data: ScreenData, width: int, height: int) -> int:
    """How many lines down the page shown goes, if it is one that scrolls."""
    page = _page(state, data, width)
    return 0 if page is None else max(0, len(page.lines) - max(1, body_height(data, height)))


def body_height(data: ScreenData, height: int) -> int:
    """Lines between the first ones and the footer."""
    return height - 2 - _has_timeline(data, height)


def page_length(state: ViewState, data: ScreenData, frame: Frame) -> int:
    """How many lines PgDn moves on the screen drawn; of a text, one less than are seen."""
    if state.screen != "main":
        return max(1, body_height(data, len(frame.lines)) - 1)
    what = "row" if state.focus == "top" else "choose"
    return max(1, sum(1 for hit in frame.hits if hit.action == what))


def _page(state: ViewState, data: ScreenData, width: int) -> Frame | None:
    """The whole of a screen that scrolls; None for any other."""
    if state.screen == "help":
        return render_help(data.specs, width, data.glyphs)
    if state.screen == "findings" and data.snapshot is not None:
        found, missing = data.snapshot.findings, data.snapshot.not_evaluated
        begun_unix_s = _just_begun(data.timeline, data.snapshot.time_unix_s)
        utc = data.header.utc
        return render_findings(found, missing, width, utc=utc, begun_unix_s=begun_unix_s)
    return None


def _just_begun(timeline: TimelineView | None, now_unix_s: float) -> float | None:
    """When the newest of the findings began that may not be told of yet."""
    times = timeline.findings if timeline is not None else ()
    return max((at for at in times if now_unix_s - TELL_S < at <= now_unix_s), default=None)


def _has_timeline(data: ScreenData, height: int) -> bool:
    return data.timeline is not None and (height >= ROOMY or not data.is_following)


def _add_timeline(frame: Frame, data: ScreenData, width: int, height: int) -> None:
    if data.timeline is None or not _has_timeline(data, height):
        return
    line, hits = render_timeline(data.timeline, width)
    piece = Frame([line], hits)
    frame.below(piece)


def _waiting(data: ScreenData, width: int) -> Frame:
    frame = Frame()
    frame.add(Line())
    frame.add(
        Line(" ").add(data.status or "waiting for the first interval", "accent").fitted(width)
    )
    return frame


def _scrolled(body: Frame, scroll: int, height: int) -> Frame:
    first = max(0, min(scroll, len(body.lines) - height))
    return Frame(body.lines[first:], [hit.moved(0, -first) for hit in body.hits if hit.y >= first])


def _seen(page: Frame | None, scroll: int, height: int) -> tuple[int, int, int] | None:
    """Of a text: its first line in sight, how many are, and how many there are."""
    if page is None:
        return None
    total = len(page.lines)
    return max(0, min(scroll, total - height)), min(height, total), total


def _add_footer(
    frame: Frame,
    state: ViewState,
    data: ScreenData,
    width: int,
    seen: tuple[int, int, int] | None,
) -> None:
    if state.is_typing:
        pattern = state.table_of(state.chosen[0]).pattern
        frame.add(render_prompt(pattern, width))
        return
    missing = 0 if seen else hidden_count(width)
    if data.message[0]:
        frame.add(render_message(data.message[0], width, data.message[1]))
    elif missing:
        what = "column does" if missing == 1 else "columns do"
        text = f"{missing} {what} not fit: make the terminal wider"
        frame.add(render_message(text, width))
    else:
        is_replay = data.header.mode == "replay"
        line, hits = render_keys(width, is_replay=is_replay)
        if seen:
            snapshot = data.snapshot
            found = state.screen == "findings" and snapshot is not None and snapshot.findings
            line, hits = render_page_keys(*seen, width, has_findings=bool(found))
        frame.below(Frame([line], hits))


def _main(state: ViewState, data: ScreenData, snapshot: Snapshot, width: int, height: int) -> Frame:
    frame = Frame()
    strip = _strip(data, snapshot, width, 2 if height >= ROOMY else 1)
    room = height - len(strip.lines)
    rows = layer_rows(snapshot, only=state.layer)
    if height >= ROOMY - 2 or state.layer:
        frame.add(_heading(state, snapshot, width, data.glyphs))
    # The table has a heading; the panels below have one and what they need.
    rows, hidden = fitted_rows(rows, state.chosen, room - len(frame.lines) - _MIN_PANEL - 3)
    view = LayersView(
        data.points[-TREND_INTERVALS:],
        state.chosen,
        state.focus == "layers",
        data.glyphs,
        wide=bool(state.layer),
        hidden=hidden,
    )
    frame.below(render_layers(rows, view, width))
    layer = snapshot.layers.get(state.layer or state.chosen[0])
    if state.layer and isinstance(layer, LayerSnapshot):
        for line in render_facts(layer, width, 3 if height >= ROOMY else 1):
            frame.add(line)
        for line in render_notes(layer, width, 4 if height >= ROOMY else 1):
            frame.add(line)
    rest = room - len(frame.lines)
    if rest >= 2:
        frame.below(_panels(state, data, snapshot, width, rest))
    frame = clipped(frame, room)
    frame.below(strip)
    return frame


def _heading(state: ViewState, snapshot: Snapshot, width: int, glyphs: Glyphs) -> Line:
    if not state.layer:
        return heading([("Layers", "title")], width, glyphs.rule)
    layer = snapshot.layers.get(state.layer)
    spec = snapshot.specs.get(state.layer)
    title = safe_name(spec.title if spec else state.layer)
    spans = [(title, "title")]
    if isinstance(layer, LayerSnapshot):
        spans.append((f"  counted by {safe_name(layer.source)}", "dim"))
    return heading(spans, width, glyphs.rule)


def _strip(data: ScreenData, snapshot: Snapshot, width: int, height: int) -> Frame:
    """The worst findings; where there is room, what is lost or not measured by the probes."""
    strip = render_strip(snapshot.findings, width, height)
    for remark in _remarks(data, snapshot):
        if len(strip.lines) < height:
            strip.add(Line(" ").add(remark, "warn").fitted(width))
    return strip


def _remarks(data: ScreenData, snapshot: Snapshot) -> Iterator[str]:
    if data.status:
        yield data.status
    proc: list[str] = []
    why = "from /proc"
    for layer in snapshot.layers.values():
        if isinstance(layer, Unavailable):
            continue
        if sum(layer.lost.values()):
            yield render_lost(safe_name(layer.spec.title), layer)
        if layer.source == "proc":
            proc.append(safe_name(layer.spec.title))
            why = next((safe_name(n) for n in layer.notes if n.startswith(why)), why)
    if proc:
        yield f"{', '.join(proc)} {why}"


def _panels(
    state: ViewState, data: ScreenData, snapshot: Snapshot, width: int, height: int
) -> Frame:
    """Below the layers: the chosen op's panel, and its layer's breakdown."""
    view = PanelView(state, snapshot, data.points, data.glyphs)
    if state.layer:
        return _zoomed(view, width, height)
    if width < SIDE_BY_SIDE:
        if state.is_alone or height < 2 * _MIN_PANEL:
            shown = breakdown if state.focus == "top" or state.is_alone else panel
            return shown(view, width, height)
        upper = max(_MIN_PANEL, height - height // 2)
        first = clipped(panel(view, width, upper), upper)
        first.below(breakdown(view, width, height - upper))
        return first
    right = breakdown_width(state, width)
    half = width - 2 - right
    left = panel(view, half, height)
    rest = height - len(left.lines)
    if state.panel == "hist" and rest > _MIN_PANEL + 2:
        left.below(panel(view, half, rest, _second(view)))
    return beside(clipped(left, height), half, breakdown(view, right, height))


def _second(view: PanelView) -> str:
    """What stands beside the first panel: a flow has no latencies to show over time."""
    layer = shown_layer(view)
    return "graph" if layer is not None and is_flow(layer.spec) else "heat"


def _zoomed(view: PanelView, width: int, height: int) -> Frame:
    upper = max(_MIN_PANEL, height // 2) if height >= 2 * _MIN_PANEL else height
    if view.state.focus == "top" and upper == height:
        return breakdown(view, width, height)
    if width < SIDE_BY_SIDE:
        frame = clipped(panel(view, width, upper), upper)
    else:
        half = (width - 2) // 2
        second = _second(view) if view.state.panel == "hist" else "hist"
        left = clipped(panel(view, half, upper), upper)
        frame = beside(left, half, panel(view, width - 2 - half, upper, second))
        frame = clipped(frame, upper)
    if height > upper:
        frame.below(breakdown(view, width, height - upper))
    return frame
