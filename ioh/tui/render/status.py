"""The lines below the overview: since the mark, what waits, and the layers that are not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioh.model.call_means import CallMean, mean_over, name_of
from ioh.model.in_progress import IN_PROGRESS, LEAST_AGE_NS
from ioh.model.io_path import IoPath
from ioh.model.sample import Unavailable, Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import cut_to, display_width, format_duration, format_ms, safe_name
from ioh.sinks.rows import is_flow
from ioh.terminal.line import Line
from ioh.tui.history import TrendPoint
from ioh.tui.render.staircase import NO_BYTES, op_of
from ioh.tui.render.zoom import IDLE, LayersView
from ioh.tui.rows import megabytes, percent, retrans_pct

Points = Sequence[TrendPoint | None]
_GAP = 2  # columns
_MARK = 20  # columns of a mark's text
_YOUNG = f"(< {LEAST_AGE_NS / 1e9:g} s)"
_LONG_US = 1e6
# Of a file: its wait is for another program, not for storage.
_LOCK, _FOR_LOCK = "lock", "for a lock"


def render_status(
    whole: LayersView, view: LayersView, every: Mapping[str, IoPath], width: int, most: int
) -> list[Line]:
    """At most ``most`` lines, as many for any numbers: what is below or above must not move.

    ``view`` is ``whole`` with idle layers as inactive; ``every`` are the paths by kind.
    """
    waits = _waits(view.snapshot)
    left = width - waits.width - _GAP * bool(waits.width)
    others = _others(whole.snapshot, view.snapshot, left)
    below = waits.add("  " * bool(waits.width and others.width)).extend(others)
    lines = [line for line in (_since(view, every, width), below) if line.width]
    return [line.fitted(width) for line in lines[max(0, len(lines) - most) :]]


def starting_layers(snapshot: Snapshot) -> list[str]:
    """Names of the layers that will have numbers soon: their probes are being attached."""
    layers = snapshot.layers.items()
    return [name for name, x in layers if isinstance(x, Unavailable) and x.is_starting]


def _waits(snapshot: Snapshot) -> Line:
    """`` waiting    8 app, 8 block, oldest 3.20 s``: begun and not ended at the interval's end."""
    counts, ages = dict[str, int](), list[tuple[float, str, str]]()
    for layer in snapshot.measured.values():
        title = safe_name(layer.spec.title)
        if (number := _in_flight(layer)) is not None and not is_flow(layer.spec):
            locks = layer.ops.get(_LOCK, OpStats()).inflight or 0
            counts |= {title: number - locks, **({_FOR_LOCK: locks} if locks else {})}
        for row in layer.rows(IN_PROGRESS):
            op, who = row.key[2], f" ({safe_name(row.key[1])})" * (layer.spec.name == "syscall")
            if age := row.values.get("age_us"):
                ages.append((age, _FOR_LOCK if op == _LOCK else title, who))
    if not counts:
        return Line()
    busy = [f"{number} {title}" for title, number in counts.items() if number]
    line = Line(" waiting ", "dim")
    if not busy and not ages:
        return line.add("none", "dim")
    no_age = (0.0, "", "")
    age_us, where, who = max(ages, key=lambda x: (x[1] != _FOR_LOCK, x[0]), default=no_age)
    line.add(", ".join(busy), "strong")
    if not ages:
        return line.add(f" {_YOUNG}", "dim")
    oldest = f"oldest {format_duration(age_us)}" + f" {where}" * (len(busy) != 1) + who
    is_long = age_us >= _LONG_US and where != _FOR_LOCK
    return line.add(", " * bool(busy)).add(oldest, "warn" if is_long else "")


def _in_flight(layer: LayerSnapshot) -> int | None:
    """Operations in flight, each in one of the outermost ops; None if not known of any."""
    spec = layer.spec
    members = spec.inner_groups.union(*spec.groups.values())
    every = (layer.ops.get(op, OpStats()) for op in (*spec.groups, *spec.ops) if op not in members)
    known = [stats.inflight for stats in every if stats.inflight is not None]
    return sum(known) if known else None


def _others(whole: Snapshot, snapshot: Snapshot, width: int) -> Line:
    """Layers without a box or a step, and why: not yet, nothing to do, not measured."""
    starting, line = starting_layers(snapshot), Line()
    idle, missing = list[str](), dict[str, list[str]]()
    for name, layer in snapshot.layers.items():
        title = safe_name(snapshot.title(name))
        if layer is IDLE:
            idle.append(title + _retransmits(whole.measured[name]))
        elif isinstance(layer, Unavailable) and name not in starting:
            missing.setdefault(safe_name(layer.reason), []).append(title)
    if starting:
        titles = ", ".join(safe_name(snapshot.title(name)) for name in starting)
        line.add(f" starting {titles}", "accent")
    if idle:
        line.add(" " * bool(line.width)).add(f" idle {', '.join(idle)}", "dim")
    if missing:
        line.add(" " * bool(line.width)).add(" inactive ", "dim")
        every = [name for each in missing.values() for name in each]
        told = "; ".join(f"{', '.join(each)}: {reason}" for reason, each in missing.items())
        forms, room = (told, ", ".join(every), f"{len(every)} layers"), width - line.width
        line.add(next((text for text in forms if display_width(text) <= room), forms[-1]), "dim")
    return line


def _retransmits(layer: LayerSnapshot) -> str:
    """Of a flow that no page shows, whether something was sent again."""
    share_pct = retrans_pct(layer) if is_flow(layer.spec) else None
    return (
        "" if share_pct is None else f" ({percent(share_pct) if share_pct else 'no'} retransmits)"
    )


def _since(view: LayersView, every: Mapping[str, IoPath], width: int) -> Line:
    """`` since mark  new disk, 35s: READ 0.10 → 4.10 ms, 0.5 → 158 MB/s``: means, as ``A`` has."""
    mark, line = view.mark, Line()
    if mark is None or not every:
        return line
    line.add(" since ▼ ", "mark").add(cut_to(safe_name(mark.text), _MARK), "mark")
    if not mark.intervals:
        return line.add(": A compares", "dim")
    since = view.points[-mark.intervals :]
    before = view.points[-2 * mark.intervals : -mark.intervals]
    gap = ": "
    for name in sorted(every, key=lambda name: -every[name].ops_per_s * every[name].mean_us):
        key = op_of(view.snapshot, every[name])
        then, now = (_mean_us(part, name_of(every[name])) for part in (before, since))
        piece = Line(f"{gap}{name.upper()} ")
        piece.add(f"{format_ms(then)} → {format_ms(now)}", "strong").add(" ms")
        if name not in NO_BYTES:
            then, now = _rate(before, key), _rate(since, key)
            piece.add(f", {megabytes(then)} → {megabytes(now)}", "strong").add(" MB/s")
        if line.width + piece.width > width:
            break
        line.extend(piece)
        gap = "; "
    return line


def _mean_us(points: Points, name: str) -> Value:
    known = (point for point in points if point is not None)
    return mean_over((point.interval_s, point.calls.get(name, CallMean())) for point in known)


def _rate(points: Points, key: tuple[str, str]) -> Value:
    """The mean throughput."""
    ops = [(p.interval_s, p.ops.get(key)) for p in points if p is not None]
    length_s = sum(seconds for seconds, _ in ops)
    moved = sum(seconds * (op.bytes_per_s or 0.0) for seconds, op in ops if op is not None)
    return moved / length_s if length_s else None
