"""The first line: host, mode, clock, load, and the recording under way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ioh.model.feed import Mode, RecordingState
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.sinks.cells import format_fixed, format_scaled, safe_name
from ioh.sinks.rows import is_flow, op_rows
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line, Span

LATE_INTERVALS = 1.6


@dataclass(frozen=True, slots=True)
class HeaderView:
    """What the first line says beside the snapshot.

    Shape:
        ``shown`` is "live" where the newest interval is on the screen, "paused", "playing"
        an older one or a recording, or "ended" where it was the last; ``age_s`` how old the
        newest interval is, None while none is awaited; ``speed`` of a recording; ``host`` which
        one of several, and ``lost`` since when it does not answer, else "".
    """

    mode: Mode
    shown: str
    glyphs: Glyphs
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


def clock(time_unix_s: float, *, utc: bool, with_date: bool = False) -> str:
    """``14:44:47``, with the date before it where asked for."""
    when = time.gmtime(time_unix_s) if utc else time.localtime(time_unix_s)
    return time.strftime("%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S", when)


def lowest_iops(snapshot: Snapshot) -> tuple[str, float] | None:
    """Reads plus writes a second of the lowest layer that counts them, and its title."""
    layers = [x for x in snapshot.layers.values() if isinstance(x, LayerSnapshot)]
    for layer in sorted(layers, key=lambda layer: -layer.spec.rank):
        if is_flow(layer.spec):
            continue
        rates = [r.stats.ops_per_s for r in op_rows(layer.spec, layer.ops, "") if r.is_main]
        known = [rate for rate in rates if rate is not None]
        if known:
            return safe_name(layer.spec.title), sum(known)
    return None


def _mode(view: HeaderView) -> Span:
    glyphs, cycle = view.glyphs, f"{view.cycle_s:g}s"
    if view.mode == "demo":
        is_paused = view.shown == "paused"
        return (f"{glyphs.paused} DEMO PAUSED" if is_paused else f"{glyphs.live} DEMO"), "demo"
    speed = "" if view.mode != "replay" or view.speed == 1 else f" {view.speed:g}x"
    if view.shown in {"paused", "ended"}:
        return f"{glyphs.paused} {'PAUSED' if view.shown == 'paused' else 'END'}{speed}", "warn"
    if view.mode == "replay":
        return f"{glyphs.playing} REPLAY{speed}", "accent"
    if view.shown == "live" and view.lost:
        return f"{glyphs.paused} {view.lost}", "crit"
    if view.shown == "live":
        return f"{glyphs.live} LIVE {cycle}", "good"
    return f"{glyphs.playing} BACK IN TIME", "warn"


def lateness(view: HeaderView, interval_s: float | None) -> str:
    """What is to be said of a tick that is late, or an interval that was not as asked for."""
    if view.age_s is not None and view.age_s > view.cycle_s * LATE_INTERVALS:
        return f"LATE {view.age_s:.1f} s"
    if interval_s is not None and interval_s > view.cycle_s * LATE_INTERVALS:
        return f"interval {interval_s:.1f} s"
    return ""


def render_header(snapshot: Snapshot | None, view: HeaderView, width: int) -> Line:
    """The line; from the right, the least useful piece is left out where it does not fit."""
    right = _recording(view)
    pieces: list[tuple[int, Span]] = [(0, ("ioh", "brand"))]
    pieces += _names(snapshot, view)
    pieces.append((0, _mode(view)))
    if view.title:
        pieces.append((6, (safe_name(view.title, 32), "")))
    if snapshot is not None:
        pieces += _numbers(snapshot, view)
    if view.narrowed:
        pieces.append((1, (view.narrowed, "warn")))
    room = width - sum(len(text) for text, _ in right) - 2
    while sum(len(text) + 2 for _, (text, _) in pieces) > room:
        worst = max(pieces, key=lambda piece: piece[0])
        if worst[0] == 0:
            break
        pieces.remove(worst)
    line = Line(" ")
    for at, (_, (text, style)) in enumerate(pieces):
        line.add("  " if at else "").add(text, style)
    line.to(width - sum(len(text) for text, _ in right) - 1)
    for text, style in right:
        line.add(text, style)
    return line.fitted(width)


def _names(snapshot: Snapshot | None, view: HeaderView) -> list[tuple[int, Span]]:
    found: list[tuple[int, Span]] = [(0, (view.host, "title"))] if view.host else []
    if snapshot is not None:
        if not view.host:
            found.append((2, (safe_name(snapshot.hostname, 24), "title")))
        found.append((9, (safe_name(snapshot.kernel, 24), "dim")))
    return found


def _numbers(snapshot: Snapshot, view: HeaderView) -> list[tuple[int, Span]]:
    host = snapshot.host
    found: list[tuple[int, Span]] = [(0, (clock(snapshot.time_unix_s, utc=view.utc), "strong"))]
    late = lateness(view, snapshot.interval_s)
    if late and not view.lost:
        found.append((0, (late, "crit")))
    iops = lowest_iops(snapshot)
    if iops is not None:
        found.append((3, (f"IOPS {format_fixed(iops[1], 9, 0)} {iops[0]}", "")))
    found.append((4, (f"cpu {_pct(host.cpu_pct)}", "")))
    found.append((4, (f"iowait {_pct(host.iowait_pct)}", "")))
    if host.steal_pct:
        found.append((8, (f"steal {_pct(host.steal_pct)}", "")))
    found.append((7, (f"load {format_fixed(host.load1, 6, 2)}", "")))
    found.append((5, (f"dirty {format_scaled(host.dirty_bytes, 1024)}", "")))
    if host.psi_io_some_pct is not None:
        found.append((8, (f"io psi {_pct(host.psi_io_some_pct)}", "")))
    costs = [cost for cost in (snapshot.self_cpu_pct, snapshot.bpf_cpu_pct) if cost is not None]
    if costs:
        found.append((10, (f"ioh itself {format_fixed(sum(costs), 5, 1)}% of a core", "dim")))
    return found


def _pct(value: float | None) -> str:
    text = format_fixed(value, 5, 1)
    return f"{text}%" if text[0].isdigit() else text


def _recording(view: HeaderView) -> list[Span]:
    state = view.recording
    if state.failure:
        return [("REC FAILED ", "crit")]
    if not state.path:
        return []
    passed = max(0, int(view.now_unix_s - state.since_unix_s))
    length = f"{passed // 3600:02}:{passed // 60 % 60:02}:{passed % 60:02}"
    # At a kilobyte a second the first megabyte takes a quarter of an hour.
    is_small = state.size_bytes < 1e6
    size = f"{state.size_bytes / (1e3 if is_small else 1e6):.{0 if is_small else 1}f} "
    size += "KB" if is_small else "MB"
    return [(f"{view.glyphs.record} REC {length} {size}", "crit")]
