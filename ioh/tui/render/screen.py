"""Draws the whole screen: header, time line, layers, panels, findings, footer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from ioh.model.finding import Failed, Finding
from ioh.model.metric import LayerSpec
from ioh.model.pairs import HostState
from ioh.model.snapshot import Snapshot
from ioh.sinks.cells import safe_name
from ioh.sinks.text import render_lost
from ioh.terminal.line import Line, ScreenFrame, Span, clipped, frame_of, heading
from ioh.tui.history import RowRates, TrendPoint
from ioh.tui.render.compare import Compared, render_compare
from ioh.tui.render.findings import render_findings
from ioh.tui.render.footer import render_keys, render_page_keys, render_prompt
from ioh.tui.render.glyphs import to_ascii
from ioh.tui.render.header import HeaderView, lost, render_header, render_hosts, render_path, where
from ioh.tui.render.help import render_help
from ioh.tui.render.op_table import render_facts, render_notes, render_ops
from ioh.tui.render.overview import render_overview
from ioh.tui.render.staircase import over_text
from ioh.tui.render.text_screens import Page, render_commands
from ioh.tui.render.timeline import TimelineView, render_timeline
from ioh.tui.render.verdict import render_verdict
from ioh.tui.render.who import breakdown, visible_rows
from ioh.tui.render.zoom import LastMark, LayersView, panel, panel_kinds
from ioh.tui.state import ViewState

ROOMY = 30  # lines needed to always show the time line
_TWO_LINES = 18  # lines needed for a finding and its command
_MIN_PANEL = 5
_STEP = 2
_LEGEND = "   numbers:  .  none    -  not measured, or too few to tell"
NOTABLE_LOSS_PCT = 1.0  # as in the rule about lost events
REPORT_S = 10.0  # findings are reported at most this long after their evidence

_SOURCES = {"bpf": "BPF", "proc": "/proc"}


@dataclass(frozen=True, slots=True)
class ScreenData:
    """The data to draw; ViewState is what the user chose.

    Shape:
        ``snapshot`` is already narrowed, None before the first one; ``points`` and ``rows`` up to
        the interval shown, which is number ``tick``; ``timeline`` None if there is no past yet;
        ``status`` what the feed waits for; ``message`` and its style; ``found`` all findings known;
        ``compared`` of the screen that compares; ``line`` below the header, "" for none; ``hosts``
        with the one shown at ``host_at``, ``()`` for this machine.
    """

    snapshot: Snapshot | None
    header: HeaderView
    points: Sequence[TrendPoint | None] = ()
    timeline: TimelineView | None = None
    status: str = ""
    message: tuple[str, str] = ("", "")
    tick: int = 0
    found: Sequence[Finding] = ()
    compared: Compared | None = None
    line: str = ""
    rows: Sequence[RowRates | None] = ()
    hosts: Sequence[HostState] = ()
    host_at: int = 0
    is_ascii: bool = False

    @property
    def specs(self) -> Sequence[LayerSpec]:
        """The layers, in the order of their keys."""
        return tuple(self.snapshot.specs.values()) if self.snapshot else ()

    @property
    def is_following(self) -> bool:
        """Whether the screen shows each new interval."""
        return self.header.shown == "live"


def draw(state: ViewState, data: ScreenData, width: int, height: int) -> ScreenFrame:
    """The whole screen, exactly ``height`` lines of ``width`` columns."""
    header, page = data.header, page_of(state, data, width)
    host = data.hosts[data.host_at] if data.hosts else None
    if host is not None:
        header = replace(header, host=where(data.hosts, data.host_at), lost=lost(host))
    frame = frame_of(render_header(data.snapshot, header, width))
    if data.line:
        frame.add(Line(" ").add(data.line, "accent"))
    if data.hosts:
        frame.below(render_hosts(data.hosts, data.host_at, width))
    timeline = _shown_timeline(data, height)
    if timeline is not None:
        frame.below(render_timeline(timeline, width))
    room, first = body_height(data, height), 0
    if page is not None:
        first = page.scrolled(state, room)
        body = page.seen(first, room)
    elif data.snapshot is None:
        text = data.status or "waiting for the first interval"
        body = ScreenFrame([Line(), Line(" ").add(text, "accent").fitted(width)])
    else:
        body = _main(state, data, data.snapshot, width, room)
    if page is None and host is not None and not host.is_here and data.is_following:
        body.lines = [line.styled("dim") for line in body.lines]  # the numbers are old
    frame.below(clipped(body, max(0, room)))
    seen = None if page is None else (first, room, len(page.frame.lines))
    frame.below(_footer(state, data, width, seen))
    made = clipped(frame, height)
    made.lines = [line.fitted(width) for line in made.lines]
    if data.is_ascii:
        for line in made.lines:
            line.spans = [(to_ascii(text), style) for text, style in line.spans]
    return made


def body_height(data: ScreenData, height: int) -> int:
    """The lines between header and footer."""
    has_timeline = _shown_timeline(data, height) is not None
    return height - 2 - bool(data.line) - bool(data.hosts) - has_timeline


def page_length(state: ViewState, data: ScreenData, frame: ScreenFrame) -> int:
    """How many lines PgDn moves; on a text screen one less than are visible."""
    if state.screen != "main":
        return max(1, body_height(data, len(frame.lines)) - 1)
    what = "row" if state.focus == "top" else "choose" if state.layer else "zoom"
    return max(1, sum(1 for hit in frame.hits if hit.action == what))


def page_of(state: ViewState, data: ScreenData, width: int) -> Page | None:
    """The whole text of a text screen; None for another screen."""
    if state.screen == "help":
        return Page(render_help(data.specs, width, state.typed))
    if state.screen == "commands":
        titles = [safe_name(spec.title) for spec in data.specs]
        return render_commands(state, titles, width)
    if state.screen == "compare" and data.compared is not None:
        return render_compare(state, data.compared, width, utc=data.header.utc)
    if state.screen == "findings" and data.snapshot is not None:
        times, now = data.timeline.findings if data.timeline else (), data.snapshot.time_unix_s
        begun_unix_s = max((at for at, *_ in times if now - REPORT_S < at <= now), default=None)
        return render_findings(
            state, data.snapshot, data.found, width, utc=data.header.utc, begun_unix_s=begun_unix_s
        )
    return None


def _shown_timeline(data: ScreenData, height: int) -> TimelineView | None:
    return data.timeline if height >= ROOMY or not data.is_following else None


def _footer(
    state: ViewState, data: ScreenData, width: int, seen: tuple[int, int, int] | None
) -> ScreenFrame:
    """The last line; ``seen`` of a text screen: first visible line, lines that fit, all lines."""
    if state.prompt:
        typed = state.pattern if state.prompt == "filter" else state.typed
        return frame_of(render_prompt(state.prompt, typed, width))
    text, style = data.message
    if text:
        return frame_of(Line(" ").add(text, style))
    snapshot = data.snapshot
    if seen:
        is_empty = state.screen == "findings" and not (
            data.found or (snapshot and snapshot.findings)
        )
        return render_page_keys(*seen, width, "" if is_empty else state.screen)
    return render_keys(
        width,
        len(snapshot.layers) if snapshot else 0,
        is_replay=data.header.mode == "replay",
        is_zoomed=bool(state.layer),
        has_hosts=len(data.hosts) > 1,
    )


def _main(
    state: ViewState, data: ScreenData, snapshot: Snapshot, width: int, height: int
) -> ScreenFrame:
    high = max(1, 1 + (height >= _TWO_LINES) + (height >= ROOMY) - bool(state.layer))
    top = render_verdict(snapshot.findings, width, high)
    # No finding is no verdict: rules may be off, or not evaluated.
    top.lines += [Line(" ").add(*said).fitted(width) for said in _remarks(data, snapshot)]
    has_legend = len(top.lines) < high
    top.lines += [Line(_LEGEND, "dim")] * has_legend
    top = clipped(top, high)  # always the same height: findings do not move the rest
    if data.hosts and not state.layer and state.narrow is None:
        name = data.hosts[data.host_at].name
        own = [pair for pair in snapshot.pairs if name in {pair.client, pair.server}]
        top.below(render_path(own, width, height // 4))
    room = max(0, height - len(top.lines))
    mark = _last_mark(data, snapshot)
    view = LayersView(state, snapshot, data.points, data.tick, data.rows, mark)
    shown = _zoom if state.layer else render_overview
    frame = clipped(shown(view, width, room), room)
    if frame.lines and not frame.lines[-1].width and not has_legend:
        frame.lines[-1] = Line(_LEGEND, "dim")
    top.below(frame)
    return top


def _last_mark(data: ScreenData, snapshot: Snapshot) -> LastMark | None:
    """The newest mark up to the interval shown."""
    at_unix_s, moments = snapshot.time_unix_s, data.timeline.moments if data.timeline else ()
    marks = [x for x in moments if x.until_unix_s is None and x.time_unix_s <= at_unix_s]
    mark = max(marks, key=attrgetter("time_unix_s"), default=None)
    for count, point in enumerate(reversed(data.points), 1):
        if mark is None or point is None:
            break
        at_unix_s -= point.interval_s
        if at_unix_s < mark.time_unix_s:
            return LastMark(mark.text, count)
    return LastMark(mark.text) if mark is not None else None


def _zoom(view: LayersView, width: int, height: int) -> ScreenFrame:
    """One layer: every kind of operation, its numbers and limits, panels, breakdown."""
    state, is_roomy = view.state, height >= ROOMY - 5
    layer = view.snapshot.layer(state.layer)
    title = [(safe_name(view.snapshot.title(state.layer)), "title")]
    if layer is not None:
        title.append((f"  source: {_SOURCES.get(layer.source, safe_name(layer.source))}", "dim"))
    title.append((f"  {over_text(view.snapshot.interval_s)}", "dim"))
    frame = frame_of(heading(title, width))
    if layer is not None:
        # Leave room for the headings and for the panels.
        frame.below(render_ops(view, layer, width, height - 1 - _MIN_PANEL - 3))
        frame.lines += render_facts(layer, width, 3 if is_roomy else 2)
        frame.lines += render_notes(layer, width, 4 if is_roomy else 1)
    rest = height - len(frame.lines)
    if rest >= 2:
        frame.below(_zoomed(view, width, rest))
    return frame


def _remarks(data: ScreenData, snapshot: Snapshot) -> Iterator[Span]:
    """What the feed waits for, lost events, and layers measured without probes."""
    if data.status:
        yield data.status, "accent"
    if failed := [rule.rule for rule in snapshot.not_evaluated if isinstance(rule, Failed)]:
        yield f"rule {failed[0]} failed: please report this (f)", "warn"
    elif snapshot.not_evaluated and not snapshot.findings:  # else no rule may have looked
        yield f"no finding; {len(snapshot.not_evaluated)} rules lack data (f)", "dim"
    proc: list[str] = []
    why = "from /proc"
    for layer in snapshot.measured.values():
        if sum(layer.lost.values()):
            is_little = layer.lost_pct is not None and layer.lost_pct < NOTABLE_LOSS_PCT
            yield render_lost(safe_name(layer.spec.title), layer), "dim" if is_little else "warn"
        if layer.source == "proc":
            proc.append(safe_name(layer.spec.title))
            why = next((safe_name(n) for n in layer.notes if n.startswith(why)), why)
    if proc:
        yield f"{', '.join(proc)} {why}", "accent"


def _zoomed(view: LayersView, width: int, height: int) -> ScreenFrame:
    """The chosen op's panels, the one chosen first, and the layer's breakdown below.

    Each gets the lines that it needs, the breakdown up to half; a graph takes those that are left.
    """
    if height < _MIN_PANEL + 3:
        return (breakdown if view.state.focus == "top" else panel)(view, width, height)
    needed = _stable(2 + len(visible_rows(view)[1]))
    frame = ScreenFrame()
    for kind, least in panel_kinds(view):
        below = needed if frame.lines and kind == "graph" else min(needed, height // 2)
        room = height - len(frame.lines) - below
        if room >= least or not frame.lines:
            part = panel(view, width, room, kind)
            frame.below(clipped(part, min(room, _stable(len(part.lines)))))
    frame.below(breakdown(view, width, height - len(frame.lines)))
    return frame


def _stable(lines: int) -> int:
    """A height in steps: rows come and go with each interval, and what is below must not move."""
    return 2 + max(1, -(-(lines - 2) // _STEP)) * _STEP
