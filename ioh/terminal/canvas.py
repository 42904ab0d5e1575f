"""The only widget: shows a ScreenFrame and writes only the cells that changed.

It does not use textual's way to the terminal, which writes each changed line as a whole (three
times the bytes), and every frame, however slow the link is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from ioh.terminal.driver import TerminalDriver
from ioh.terminal.line import Hit, Line, ScreenFrame
from ioh.terminal.link import ASK_AGAIN_S
from ioh.terminal.patch import Paint, changed_runs, pieces_of

_SYNC, _SYNCED = "\x1b[?2026h", "\x1b[?2026l"  # terminals that support it show all at the same time


class Canvas(Widget):
    """A ScreenFrame on the whole screen."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"

    def __init__(self, styles: Mapping[str, Style]) -> None:
        super().__init__()
        self.styles_by_name = styles
        self._paint: Paint | None = None
        self.frame = ScreenFrame()  # to show
        # The lines on the terminal, if known.
        self._written: dict[int, Line] = {}
        self._next = 0  # the line to write first: on a slow link all lines take turns
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_owed(self) -> bool:
        """Whether the last line, which has the messages, is not written yet."""
        last = len(self.frame.lines) - 1
        return self._timer is not None and self._written.get(last) != self.frame.lines[last]

    def show(self, frame: ScreenFrame) -> None:
        """Show a frame."""
        self.frame = frame
        self.write()

    def forget(self) -> None:
        """Write all lines next: another program used the terminal, or its size changed."""
        self._written.clear()

    def write(self) -> None:
        """Write the changed cells, as much as the link has room for."""
        driver = self.app._driver if self.is_attached else None  # noqa: SLF001
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not isinstance(driver, TerminalDriver) or driver.is_away:
            return
        room = driver.room()
        pieces: list[str] = []
        is_whole = True
        for y in self._turn():
            line, before = self.frame.lines[y], self._written.get(y)
            if before is line or before == line:
                continue
            if room <= 0:
                is_whole = False
                break
            piece = self._piece(y, line, before)
            pieces.append(piece)
            room -= len(piece)
            self._written[y] = line
            self._next = y + 1
        if pieces:
            picture = "".join(pieces)
            has_sync = self.app._sync_available  # noqa: SLF001
            driver.send(f"{_SYNC}{picture}{_SYNCED}" if has_sync else picture)
        if not is_whole:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(ASK_AGAIN_S, self.write)

    def _turn(self) -> Iterator[int]:
        """Lines in the order to write them: first the prompt's, then from where it stopped."""
        count, begin = len(self.frame.lines), self._next
        if count:
            yield count - 1
            yield from ((begin + at) % count for at in range(count))

    def _piece(self, y: int, line: Line, before: Line | None) -> str:
        if self._paint is None:
            self._paint = Paint(self.styles_by_name, self.app.console)
        runs = [(0, line.width)]
        if before is not None and before.width == line.width:
            runs = changed_runs(before, line)
        return "".join(pieces_of(line, y, runs, self._paint))

    def restyle(self, styles: Mapping[str, Style]) -> None:
        """Show the frame in other colours."""
        self.styles_by_name = styles
        self._paint = None
        self.forget()

    def render_line(self, y: int) -> Strip:
        """Return a blank line: textual's picture is not written."""
        del y
        return Strip.blank(self.size.width)

    def hit_at(self, x: int, y: int) -> Hit | None:
        """What a click there does."""
        found = (h.at(x) for h in self.frame.hits if h.y == y and h.left <= x < h.right)
        return next(found, None)
