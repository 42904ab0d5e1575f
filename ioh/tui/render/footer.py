"""The last line: keys, or the prompt or filter being typed."""

from __future__ import annotations

from collections.abc import Iterable

from ioh.terminal.line import Click, Line, ScreenFrame, frame_of
from ioh.tui.keys import KEYS

# In order of importance, if not all fit; the help has the others.
_USEFUL = (
    "back help quit layer host focus pause findings top filter rec speed heat graph hist mark reads"
    " writes save"
)
_RANKS = {short: rank for rank, short in enumerate(_USEFUL.split())}


_PAGE_KEYS = {
    "findings": (("Enter", "go there", "enter"),),
    "help": (("/", "search", "slash"),),
    "compare": (("Enter", "this mark", "enter"),),
}
_PROMPTS = {
    "filter": ("filter", "Enter apply, Esc cancel"),
    "search": ("search", "Enter apply, Esc cancel"),
    "mark": ("mark", "Enter set, Esc cancel"),
    "command": ("command", "arrows select, Enter run, Esc cancel"),
}


def render_keys(
    width: int, layers: int, *, is_replay: bool, is_zoomed: bool = False, has_hosts: bool = False
) -> ScreenFrame:
    """The most useful keys that fit, clickable; ``layers`` is the number of layers."""
    keys = [("Esc", "back", "escape")] if is_zoomed else []
    if layers:
        keys.append((f"1-{layers}" if layers > 1 else "1", "layer", ""))
    keys += [(key.label, key.short, key.names[0]) for key in KEYS if key.short]
    keys += [("+-", "speed", "plus")] if is_replay else []
    left_out = {
        "" if has_hosts else "host",
        "rec" if is_replay else "",
    }  # a recording is not recorded again
    keys = [key for key in keys if key[1] not in left_out]
    room = width - 1
    kept = set()
    for label, short, _ in sorted(keys, key=lambda key: _RANKS[key[1]]):
        needed = len(label) + 1 + len(short)
        if needed > room:
            break
        kept.add(short)
        room -= needed + 2
    line, hits = _buttons([key for key in keys if key[1] in kept])
    return frame_of(line.fitted(width), *hits)


def render_page_keys(first: int, room: int, total: int, width: int, screen: str) -> ScreenFrame:
    """The keys of a text of ``total`` lines, of which ``room`` fit."""
    count = min(room, total)
    keys = [*_PAGE_KEYS.get(screen, ()), ("Esc", "back", "escape"), ("q", "quit", "q")]
    if count < total:
        keys = [("PgUp", "", "pageup"), ("PgDn", "page", "pagedown"), *keys]
    line, hits = _buttons(keys)
    line.add("  ")
    if count < total:
        # What is cut must be seen, until its end is on the screen.
        style = "dim" if first + count >= total else "accent"
        line.add(f"lines {first + 1}-{first + count} of {total}", style)
    return frame_of(line.fitted(width), *(hit for hit in hits if hit[1] <= width))


def _buttons(keys: Iterable[tuple[str, str, str]]) -> tuple[Line, list[Click]]:
    """Draw keys: label, what it does, and the name of the key that a click presses."""
    line, gap = Line(" "), ""
    hits: list[Click] = []
    for label, short, name in keys:
        start = line.add(gap).width
        line.add(label, "key").add(f" {short}".rstrip())
        gap = "  " if short else " "
        if name:
            hits.append((start, line.width, "key", name))
    return line, hits


def render_prompt(what: str, typed: str, width: int) -> Line:
    """The text being typed; its end if it is longer than the line."""
    name, keys = _PROMPTS[what]
    room = max(8, width - len(name) - 5)
    line = Line(f" {name}: ", "key").add(typed[-room:], "strong").add("_", "cursor")
    return line.add(f"   {keys}", "dim").fitted(width)
