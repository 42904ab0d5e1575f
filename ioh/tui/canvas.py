"""The one widget: shows a Frame, and repaints only the cells that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ioh.tui.changes import Runs, changed_runs
from ioh.tui.patch import Paint, Patch, pieces_of, strip_of
from ioh.tui.render.glyphs import to_ascii
from ioh.tui.render.line import Frame, Hit, Line


class Canvas(Widget):
    """A Frame on the whole screen."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"

    class Clicked(Message):
        """A clickable place was clicked."""

        def __init__(self, hit: Hit) -> None:
            super().__init__()
            self.hit = hit

    def __init__(self, styles: Mapping[str, Style], *, ascii_only: bool = False) -> None:
        super().__init__()
        self.styles_by_name = styles
        self._ascii_only = ascii_only
        self._paint: Paint | None = None
        self._frame = Frame()
        # By line, made where textual paints it: most lines go to the terminal as pieces.
        self._strips: dict[int, Strip] = {}

    @property
    def frame(self) -> Frame:
        """What is shown."""
        return self._frame

    def show(self, frame: Frame) -> None:
        """Show a frame; lines that stay the same cost nothing."""
        before, self._frame = self._frame, frame
        if self._ascii_only:
            frame.lines = [_plain(line) for line in frame.lines]
        changed: list[tuple[int, Runs]] = []
        for y, line in enumerate(frame.lines):
            if y >= len(before.lines):
                changed.append((y, [(0, line.width)]))
            elif before.lines[y] != line:
                self._strips.pop(y, None)
                changed.append((y, changed_runs(before.lines[y], line)))
        if len(before.lines) != len(frame.lines):
            self._strips.clear()
            self.refresh()
        elif changed:
            self._write(changed)

    def _write(self, changed: Sequence[tuple[int, Runs]]) -> None:
        """Put some columns of some lines on the terminal."""
        regions = [Region(x, y, end - x, 1) for y, runs in changed for x, end in runs]
        if not regions:
            return
        if not self._is_all_there_is():
            self.refresh(*regions)
            return
        self._styles_cache.set_dirty(*regions)  # for when all of it is painted again
        if self._paint is None:
            self._paint = Paint(self.styles_by_name, self.app.console)
        pieces: list[str] = []
        for y, runs in changed:
            pieces += pieces_of(self._frame.lines[y], y, runs, self._paint)
        self.app._display(self.screen, Patch(pieces))  # type: ignore[arg-type]  # noqa: SLF001

    def _is_all_there_is(self) -> bool:
        """Whether nothing lies above this, and nothing is about to be painted by textual."""
        is_on_top = self.app.screen is self.screen and self.region == self.app.size.region
        return is_on_top and not self._repaint_regions and not self.screen._dirty_widgets  # noqa: SLF001

    def restyle(self, styles: Mapping[str, Style]) -> None:
        """Show the same in other colours."""
        self.styles_by_name = styles
        self._paint = None
        self._strips.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line, as textual asks for it."""
        if y >= len(self._frame.lines):
            return Strip.blank(self.size.width)
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = strip_of(self._frame.lines[y], self.styles_by_name)
        return strip.adjust_cell_length(self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Turn a click into what stands there."""
        hit = self.hit_at(event.x, event.y)
        if hit is not None:
            self.post_message(self.Clicked(hit.at(event.x)))

    def hit_at(self, x: int, y: int) -> Hit | None:
        """What can be clicked there."""
        found = (h for h in self._frame.hits if h.y == y and h.left <= x < h.right)
        return next(found, None)


def _plain(line: Line) -> Line:
    made = Line()
    for text, style in line.spans:
        made.add(to_ascii(text), style)
    return made
