"""The last line: keys, or what has just happened, or the filter being typed."""

from __future__ import annotations

from ioh.tui.keys import KEYS
from ioh.tui.render.line import Hit, Line


def render_keys(width: int, *, is_replay: bool) -> tuple[Line, list[Hit]]:
    """As many keys as fit, each clickable; help, which has the others, goes last."""
    line, hits = Line(" "), []
    shown: list[tuple[str, str, str]] = [("1-9", "layer", "")]
    shown += [(key.label, key.short, key.names[0]) for key in KEYS if key.short]
    if is_replay:
        shown.append(("+-", "speed", "plus"))
    last = next(item for item in shown if item[1] == "help")
    kept = len(last[0]) + len(last[1]) + 3
    for item in shown:
        label, short, name = item
        if item == last:
            kept = 0
        if line.width + len(label) + len(short) + 3 > width - kept:
            continue
        start = line.width
        line.add(label, "key").add(f" {short}")
        if name:
            hits.append(Hit(0, start, line.width, "key", name))
        line.add("  ")
    return line.fitted(width), hits


def render_prompt(pattern: str, width: int) -> Line:
    """The filter being typed."""
    line = Line(" filter: ", "key").add(pattern, "strong").add("_", "cursor")
    return line.add("   Enter keep, Esc forget", "dim").fitted(width)


def render_message(text: str, width: int, style: str = "warn") -> Line:
    """Something to be read once."""
    return Line(" ").add(text, style).fitted(width)
