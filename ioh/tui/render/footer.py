"""The last line: keys, or what has just happened, or the filter being typed."""

from __future__ import annotations

from ioh.tui.keys import KEYS
from ioh.tui.render.line import Hit, Line

# What is shown first where not all fit; the help has the others.
_USEFUL = (
    "help quit layer focus pause findings top filter rec speed heat graph hist reads writes save"
)
_RANKS = {short: rank for rank, short in enumerate(_USEFUL.split())}


def render_keys(width: int, *, is_replay: bool) -> tuple[Line, list[Hit]]:
    """As many keys as fit, each clickable, the most useful ones."""
    line, hits = Line(" "), []
    known: list[tuple[str, str, str]] = [("1-9", "layer", "")]
    known += [(key.label, key.short, key.names[0]) for key in KEYS if key.short]
    if is_replay:
        known.append(("+-", "speed", "plus"))
        known = [item for item in known if item[1] != "rec"]  # it is one already
    room = width - 1
    kept = set()
    for label, short, _ in sorted(known, key=lambda item: _RANKS[item[1]]):
        needed = len(label) + 1 + len(short)
        if needed > room:
            break
        kept.add(short)
        room -= needed + 2
    for label, short, name in known:
        if short not in kept:
            continue
        line.add("  " if line.width > 1 else "")
        start = line.width
        line.add(label, "key").add(f" {short}")
        if name:
            hits.append(Hit(0, start, line.width, "key", name))
    return line.fitted(width), hits


def render_page_keys(
    first: int, count: int, total: int, width: int, *, has_findings: bool
) -> tuple[Line, list[Hit]]:
    """What there is to do with a text of which ``count`` lines from ``first`` on are seen."""
    line, hits = Line(" "), []
    keys = [("Esc", "back", "escape"), ("q", "quit", "q")]
    if has_findings:
        keys = [("Enter", "go to the first", "enter"), *keys]
    if count < total:
        keys = [("PgUp", "", "pageup"), ("PgDn", "page", "pagedown"), *keys]
    for label, short, name in keys:
        start = line.width
        line.add(label, "key").add(f" {short}".rstrip())
        hits.append(Hit(0, start, line.width, "key", name))
        line.add("  " if short else " ")
    seen = f"lines {first + 1}-{first + count} of {total}" if count < total else ""
    line.add(seen, "dim")
    return line.fitted(width), [hit for hit in hits if hit.right <= width]


def render_prompt(pattern: str, width: int) -> Line:
    """The filter being typed."""
    line = Line(" filter: ", "key").add(pattern, "strong").add("_", "cursor")
    return line.add("   Enter keep, Esc forget", "dim").fitted(width)


def render_message(text: str, width: int, style: str = "warn") -> Line:
    """Something to be read once."""
    return Line(" ").add(text, style).fitted(width)
