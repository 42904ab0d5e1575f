"""Several hosts: the line of their names, and the path that some of them are together."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.pairs import HostState
from ioh.model.snapshot import Pair
from ioh.sinks.cells import display_width, safe_name
from ioh.sinks.hosts import pair_lines
from ioh.tui.render.line import Line, ScreenFrame

_NAME = 24  # columns


def render_hosts(states: Sequence[HostState], at: int, width: int) -> ScreenFrame:
    """One line: each host, what is wrong with it, and why with the one looked at; a click looks."""
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
    frame = ScreenFrame()
    frame.add(line.fitted(width), *hits)
    return frame


def where(states: Sequence[HostState], at: int) -> str:
    """``db01 1/2``: the host looked at, and how many there are."""
    return f"{safe_name(states[at].name, _NAME)} {at + 1}/{len(states)}"


def lost(state: HostState) -> str:
    """``LOST 12 s``; "" of a host that is here."""
    if state.is_here:
        return ""
    return "NOT HERE" if state.lost_s is None else f"LOST {state.lost_s:.0f} s"


def _wrong(state: HostState) -> str:
    if not state.is_here:
        return f" {lost(state).lower()}"
    if state.clock_is_good:
        return ""
    if state.offset_s is None or state.error_s is None:
        return " clock not known"
    return f" clock {state.offset_s * 1e3:+.0f} ms, to {state.error_s * 1e3:.0f} ms"


def render_path(found: Sequence[Pair], width: int, height: int) -> ScreenFrame:
    """What ``ioh text`` prints of pairs, as far as so many lines show it."""
    frame = ScreenFrame()
    if found and height > 1:
        _, head, *lines = pair_lines(found)
        title = " nfs, means"
        frame.add(Line(title + head[len(title) :], "head").fitted(width))
        for text in lines[: height - 1]:
            frame.add(Line(text).fitted(width))
    return frame
