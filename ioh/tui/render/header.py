"""The first line: host, mode, clock, load, recording; with several hosts, a line for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ioh.model.pairs import HostState
from ioh.model.player import Mode, RecordingState
from ioh.model.sample import Value
from ioh.model.snapshot import Pair, Snapshot
from ioh.sinks.cells import clock, display_width, format_scaled, format_share, safe_name
from ioh.sinks.hosts import pair_lines
from ioh.sinks.rows import lowest_iops
from ioh.terminal.line import Line, ScreenFrame, Span, frame_of
from ioh.tui.rows import percent

LATE_INTERVALS = 1.6
_NAME = 24  # columns of a host's


@dataclass(frozen=True, slots=True)
class HeaderView:
    """What the first line needs in addition to the snapshot.

    Shape:
        ``shown`` is "live", "paused", "playing" for a recording, or "ended"; ``age_s`` of the
        newest interval, None if no further one is expected; ``speed`` of a recording; ``host`` is
        one of several; ``lost`` is why it has no data, else "".
    """

    mode: Mode
    shown: str
    cycle_s: float = 1.0
    age_s: float | None = None
    speed: float = 1.0
    title: str = ""
    recording: RecordingState = field(default_factory=RecordingState)
    now_unix_s: float = 0.0
    utc: bool = False
    narrowed: str = ""
    host: str = ""
    lost: str = ""


def _mode(view: HeaderView) -> Span:
    if view.mode == "demo":
        return ("‖ DEMO PAUSED" if view.shown == "paused" else "● DEMO"), "demo"
    speed = "" if view.mode != "replay" or view.speed == 1 else f" {view.speed:g}x"
    if view.shown in {"paused", "ended"}:
        return f"‖ {'PAUSED' if view.shown == 'paused' else 'END'}{speed}", "accent"
    if view.mode == "replay":
        return f"▶ REPLAY{speed}", "accent"
    return (f"‖ {view.lost}", "crit") if view.lost else (f"● LIVE {view.cycle_s:g}s", "good")


def lateness(view: HeaderView, interval_s: float) -> str:
    """``LATE 2.3 s`` for a late tick, ``interval 2.3 s`` for one longer than requested, else ""."""
    if view.age_s is not None and view.age_s > view.cycle_s * LATE_INTERVALS:
        return f"LATE {view.age_s:.1f} s"
    if interval_s > view.cycle_s * LATE_INTERVALS:
        return f"interval {interval_s:.1f} s"
    return ""


def render_header(snapshot: Snapshot | None, view: HeaderView, width: int) -> Line:
    """Draw the line; the least useful pieces are left out if it is too narrow."""
    right, style = _recording(view)
    pieces = [piece for piece in _pieces(snapshot, view) if piece[1]]
    room = width - len(right) - 2
    while sum(len(text) + 2 for _, text, _ in pieces) > room:
        worst = max(pieces, key=lambda piece: piece[0])
        if worst[0] == 0:
            break
        pieces.remove(worst)
    line = Line(" ")
    for at, (_, text, kind) in enumerate(pieces):
        line.add("  " if at else "").add(text, kind)
    return line.to(width - len(right) - 1).add(right, style).fitted(width)


def _pieces(snapshot: Snapshot | None, view: HeaderView) -> Iterator[tuple[int, str, str]]:
    """Rank (the largest is left out first, 0 never), text ("" for none) and style."""
    yield 0, "ioh", "brand"
    yield 0, view.host, "title"
    if snapshot is not None:
        yield 2, "" if view.host else safe_name(snapshot.hostname, _NAME), "title"
        yield 9, safe_name(snapshot.kernel, 24), "dim"
    yield 0, *_mode(view)
    yield 6, safe_name(view.title, 32), ""
    if snapshot is not None:
        host = snapshot.host
        yield 0, clock(snapshot.time_unix_s, utc=view.utc), "strong"
        yield 0, "" if view.lost else lateness(view, snapshot.interval_s), "warn"
        iops = lowest_iops(snapshot.measured.values())
        yield 3, "" if iops is None else f"IOPS {_plain(iops[0])} {iops[1]}", ""
        yield 4, f"cpu {format_share(host.cpu_pct)}", ""
        yield 4, f"iowait {format_share(host.iowait_pct)}", ""
        yield 8, f"steal {format_share(host.steal_pct)}" if host.steal_pct else "", ""
        yield 7, f"load {_plain(host.load1)}", ""
        yield 5, f"dirty {_plain(host.dirty_bytes, 1024)}", ""
        some = host.psi_io_some_pct
        yield 8, "" if some is None else f"io psi {format_share(some)}", ""
        costs = [cost for cost in (snapshot.self_cpu_pct, snapshot.bpf_cpu_pct) if cost is not None]
        cost = f"ioh itself {percent(sum(costs))} of a core" if costs else ""
        is_dear = any(finding.rule == "observer" for finding in snapshot.findings)
        yield (3, cost, "warn") if is_dear else (10, cost, "dim")
    yield 1, view.narrowed, "accent"


def _plain(value: Value, base: int = 1000) -> str:
    """A number in a line of words, where a dot for none would end a sentence."""
    return "0" if value == 0 else format_scaled(value, base)


def _recording(view: HeaderView) -> Span:
    state = view.recording
    if state.failure:
        return "REC FAILED ", "crit"
    if not state.path:
        return "", ""
    passed = max(0, int(view.now_unix_s - state.since_unix_s))
    length = f"{passed // 3600:02}:{passed // 60 % 60:02}:{passed % 60:02}"
    return f"● REC {length} {_plain(state.size_bytes, 1024)}", "accent"


def render_hosts(states: Sequence[HostState], at: int, width: int) -> ScreenFrame:
    """One line: the hosts and their problems; the reason only for the host shown."""
    texts = [f" {safe_name(state.name, _NAME)}{_wrong(state)} " for state in states]
    first = 0
    while first < at and sum(map(display_width, texts[first : at + 1])) + 1 > width:
        first += 1
    line, hits = Line(" " if first == 0 else "<"), []
    for number, (state, text) in enumerate(zip(states, texts, strict=True)):
        if number >= first:
            start = line.width
            line.add(text, "sel" if number == at else "" if state.is_here else "dim")
            hits.append((start, line.width, "host", state.name))
    if why := safe_name(states[at].why):
        line.add(f" {why}", "warn")
    return frame_of(line.fitted(width), *hits)


def where(states: Sequence[HostState], at: int) -> str:
    """``db01 1/2``: the host shown, its number, the number of hosts."""
    return f"{safe_name(states[at].name, _NAME)} {at + 1}/{len(states)}"


def lost(state: HostState) -> str:
    """``LOST 12 s``; "" if the host sends data."""
    if state.is_here:
        return ""
    return "NO DATA" if state.lost_s is None else f"LOST {state.lost_s:.0f} s"


def _wrong(state: HostState) -> str:
    if not state.is_here:
        return f" {lost(state).lower()}"
    if state.clock_is_good:
        return ""
    if state.offset_s is None or state.error_s is None:
        return " clock unknown"
    return f" clock {state.offset_s * 1e3:+.0f} ms, error {state.error_s * 1e3:.0f} ms"


def render_path(found: Sequence[Pair], width: int, height: int) -> ScreenFrame:
    """The pairs as ``ioh text`` prints them, in at most ``height`` lines."""
    if not found or height <= 1:
        return ScreenFrame()
    _, head, *lines = pair_lines(found)
    title = " nfs, means"
    shown = [Line(title + head[len(title) :], "head"), *map(Line, lines[: height - 1])]
    return ScreenFrame([line.fitted(width) for line in shown])
