"""The mean operation's time, split by layer: a bar for each direction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise

from ioh.model.path import DIRECTIONS, IoPath, Segment, paths
from ioh.model.snapshot import Snapshot
from ioh.sinks.cells import cut_to, display_width, format_ms
from ioh.sinks.metrics import path_notes
from ioh.tui.render.line import Line

_STYLES = {"read": "read", "write": "write", "sync": "other"}
_OPS = {"sync": "fsync"}  # calls with another name
_LABEL = 16  # columns of the direction and the mean time
# Short names, for narrow segments.
_SHORT = {
    "page cache": "cache",
    "waiting for a CPU": "cpu",
    "nfs queue": "nfs",
    "nfs server": "srv",
    "network": "net",
    "network + nfs server": "net+srv",
    "block queue": "queue",
    "network to disk": "net",
}


def render_waterfall(snapshot: Snapshot, ops: Collection[str], width: int) -> list[Line]:
    """One line each for reads, writes and syncs, if there were any recently.

    ``ops`` are the recent ops of all layers: a line stays while its operations pause.
    """
    found = paths(snapshot)
    names = [name for name in DIRECTIONS if name in found or _OPS.get(name, name) in ops]
    return [_line(name, found.get(name), width) for name in names or DIRECTIONS[:1]]


def _line(name: str, path: IoPath | None, width: int) -> Line:
    line = Line(f" {name.upper():<6}", _STYLES[name])
    if path is None:
        return line.right(".", _LABEL - 10, "dim").fitted(width)
    line.right(format_ms(path.mean_us), _LABEL - 10, "strong").add(" ms ", "dim")
    said = max(0, min(80, (width - _LABEL) * 3 // 7)) if width >= 60 else 0
    bar = width - _LABEL - said - 1
    if bar >= 8:
        _bar(line, path, bar)
    if said:
        line.add(cut_to(f" ◂ {_largest(path, said - 3)}", said), "strong")
        for note in path_notes(path):
            room = width - line.width - 2
            whole = (part for part in (note, note.split(":")[0]) if display_width(part) <= room)
            if text := next(whole, ""):
                line.add("  ").add(text, "dim")
    return line.fitted(width)


def _largest(path: IoPath, room: int) -> str:
    """The longest step, and the second one if it is at least half as long."""
    known = sorted((s for s in path.segments if s.us), key=lambda s: -(s.us or 0.0))
    first, *rest = known[:2]
    text = f"{first.title} {path.share_pct(first) or 0:.0f}%"
    for second in rest:
        if (second.us or 0.0) >= (first.us or 0.0) / 2:
            share = f" {path.share_pct(second) or 0:.0f}%"
            whole = f"{text}, {second.title}{share}"
            short = f"{text}, {_SHORT.get(second.title, second.title)}{share}"
            text = whole if display_width(whole) <= room else short
    return text


def _bar(line: Line, path: IoPath, width: int) -> None:
    """The segments with a known time, as wide as their share, with their names if they fit."""
    known = [segment for segment in path.segments if segment.us]
    for at, (segment, columns) in enumerate(zip(known, _columns(known, width), strict=True)):
        style = "slowest" if segment is path.slowest else f"step{at % 2}"
        text = _text(path, segment, columns - 1)
        left = (columns - 1 - display_width(text)) // 2
        line.add("▏" if at else " ", style)
        line.add(" " * left + text + " " * (columns - 1 - left - display_width(text)), style)


def _text(path: IoPath, segment: Segment, room: int) -> str:
    share = path.share_pct(segment) or 0.0
    full = f"{segment.title} {format_ms(segment.us)} ms {share:.0f}%"
    short = _SHORT.get(segment.title, segment.title)
    for text in (full, f"{segment.title} {share:.0f}%", segment.title, short, short[:3]):
        if display_width(text) <= room:
            return text
    return ""


def _columns(segments: Sequence[Segment], width: int) -> list[int]:
    """The width of each: at least one column, in total exactly ``width``."""
    spare = width - len(segments)
    total = sum(segment.us or 0.0 for segment in segments)
    shares = ((segment.us or 0.0) / total * spare for segment in segments)
    ends = accumulate(shares, initial=0.0)
    return [1 + round(end) - round(begin) for begin, end in pairwise(ends)]
