"""Text screens that scroll: findings, help, commands; some have lines to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ioh.terminal.line import Argument, Line, ScreenFrame
from ioh.tui.palette import commands
from ioh.tui.state import ViewState

FOLLOW = -1  # a ViewState's scroll that keeps the chosen line visible


@dataclass(frozen=True, slots=True)
class Entry:
    """A line that can be chosen.

    Shape:
        ``key`` identifies it as lines come and go; ``y`` is its line in the text; Enter does
        ``action`` with ``argument``.
    """

    key: str
    y: int
    action: str
    argument: Argument = ""


def chosen_in(keys: Sequence[str], state: ViewState) -> int:
    """The index of the chosen line; 0 if there are none."""
    at = keys.index(state.line_key) if state.line_key in keys else state.line
    return max(0, min(at, len(keys) - 1))


@dataclass(frozen=True, slots=True)
class Page:
    """A whole text; the screen shows a part of it."""

    frame: ScreenFrame = field(default_factory=ScreenFrame)
    entries: list[Entry] = field(default_factory=list)

    def add(
        self, line: Line, width: int, key: str, action: str = "", argument: Argument = ""
    ) -> None:
        """Append a line that can be chosen; a click does what Enter does."""
        self.entries.append(Entry(key, len(self.frame.lines), action, argument))
        self.frame.add(line.fitted(width), *[(0, width, action, argument)] if action else [])

    def chosen(self, state: ViewState) -> int:
        """The index of the chosen entry."""
        return chosen_in([entry.key for entry in self.entries], state)

    def scrolled(self, state: ViewState, height: int) -> int:
        """The first visible line."""
        last = max(0, len(self.frame.lines) - max(1, height))
        if state.scroll != FOLLOW:
            return max(0, min(state.scroll, last))
        if not self.entries:
            return 0
        at = self.chosen(state)
        begin = 0 if at == 0 else self.entries[at].y
        is_last = at + 1 == len(self.entries)
        end = len(self.frame.lines) if is_last else self.entries[at + 1].y
        return min(max(0, end - height), begin, last)

    def seen(self, first: int, height: int) -> ScreenFrame:
        """The part that starts at a line."""
        hits = [hit.moved(0, -first) for hit in self.frame.hits if hit.y >= first]
        return ScreenFrame(self.frame.lines[first : first + max(0, height)], hits)


def render_commands(state: ViewState, layers: Sequence[str], width: int) -> Page:
    """The palette: commands that match the text typed, else all by group; a click runs one."""
    page, fitting, group = Page(), commands(state.typed, layers), ""
    chosen = chosen_in([key.help for key in fitting], state)
    for at, key in enumerate(fitting):
        if key.group != group and not state.typed:
            group = key.group
            page.frame.add(Line(f" {group}", "head"))
        line = Line(" ▸ " if at == chosen else "   ", "key").left(key.label, 7, "key")
        line = line.add(key.help[:1].upper() + key.help[1:]).fitted(width)
        line = line.styled("sel") if at == chosen else line
        page.add(line, width, key.help, key.action, key.argument)
    if not fitting:
        page.frame.add(Line(" no command matches: Backspace deletes, q or Esc leaves", "dim"))
    return page
