"""The last line: keys, or what has just happened, or the filter being typed."""

from __future__ import annotations

from ioh.tui.keys import KEYS
from ioh.tui.render.line import Hit, Line

# What is shown first where not all fit; the help has the others.
_USEFUL = (
    "back help quit layer host focus pause findings top filter rec speed heat graph hist mark reads"
    " writes save"
)
_RANKS = {short: rank for rank, short in enumerate(_USEFUL.split())}


_PAGE_KEYS = {
    "findings": (("Enter", "go there", "enter"),),
    "help": (("/", "search", "slash"),),
    "compare": (("A", "pin what is shown now", "A"),),
}
_PROMPTS = {
    "filter": ("filter", "Enter apply, Esc cancel"),
    "search": ("search", "Enter apply, Esc cancel"),
    "mark": ("mark", "Enter set it, Esc cancel"),
    "command": ("command", "arrow keys choose, Enter does it, Esc cancel"),
}


def render_keys(
    width: int, layers: int, *, is_replay: bool, is_zoomed: bool = False, has_hosts: bool = False
) -> tuple[Line, list[Hit]]:
    """As many keys as fit, each clickable, the most useful ones.

    Args:
        width: Columns there are.
        layers: How many there are to zoom into.
        is_replay: Whether a recording is shown.
        is_zoomed: Whether one layer is.
        has_hosts: Whether there are several.
    """
    line, hits = Line(" "), []
    known: list[tuple[str, str, str]] = []
    if is_zoomed:
        known.append(("Esc", "back", "escape"))
    if layers:
        known.append((f"1-{layers}" if layers > 1 else "1", "layer", ""))
    known += [(key.label, key.short, key.names[0]) for key in KEYS if key.short]
    if not has_hosts:
        known = [item for item in known if item[1] != "host"]
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
    first: int, room: int, total: int, width: int, screen: str
) -> tuple[Line, list[Hit]]:
    """What there is to do with a text of ``total`` lines, of which so many fit."""
    line, hits = Line(" "), []
    count = min(room, total)
    keys = [*_PAGE_KEYS.get(screen, ()), ("Esc", "back", "escape"), ("q", "quit", "q")]
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


def render_prompt(what: str, typed: str, width: int) -> Line:
    """What is being typed; its end where it is longer than the line."""
    name, keys = _PROMPTS[what]
    room = max(8, width - len(name) - 5)
    line = Line(f" {name}: ", "key").add(typed[-room:], "strong").add("_", "cursor")
    return line.add(f"   {keys}", "dim").fitted(width)


def render_message(text: str, width: int, style: str = "warn") -> Line:
    """Something to be read once."""
    return Line(" ").add(text, style).fitted(width)
