"""The one widget: shows a Frame, and repaints only the cells that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ioh.sinks.cells import char_width
from ioh.tui.patch import Patch
from ioh.tui.render.glyphs import to_ascii
from ioh.tui.render.line import SHOWN_ON_SPACES, Frame, Hit, Line, Span

# Moving the cursor costs some eight bytes: unchanged cells between two changes are repainted.
_JOIN = 8
_Cell = tuple[str, str]


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
        self._frame = Frame()
        self._strips: list[Strip] = []

    @property
    def frame(self) -> Frame:
        """What is shown."""
        return self._frame

    def show(self, frame: Frame) -> None:
        """Show a frame; lines that stay the same cost nothing."""
        before, self._frame = self._frame, frame
        if self._ascii_only:
            frame.lines = [_plain(line) for line in frame.lines]
        strips: list[Strip] = []
        regions: list[Region] = []
        for y, line in enumerate(frame.lines):
            old = before.lines[y] if y < len(before.lines) else None
            if old is not None and y < len(self._strips) and old == line:
                strips.append(self._strips[y])
                continue
            strips.append(self._strip(line))
            if old is None:
                regions.append(Region(0, y, line.width, 1))
            else:
                regions += [Region(x, y, end - x, 1) for x, end in changed_runs(old, line)]
        self._strips = strips
        if len(before.lines) != len(frame.lines):
            self.refresh()
        elif regions and self._is_all_there_is():
            self._styles_cache.set_dirty(*regions)  # for when all of it is painted again
            pieces = [(region, self.render_line(region.y)) for region in regions]
            self.app._display(self.screen, Patch(pieces))  # type: ignore[arg-type]  # noqa: SLF001
        elif regions:
            self.refresh(*regions)

    def _is_all_there_is(self) -> bool:
        """Whether nothing lies above this, and nothing is about to be painted by textual."""
        is_on_top = self.app.screen is self.screen and self.region == self.app.size.region
        return is_on_top and not self._repaint_regions and not self.screen._dirty_widgets  # noqa: SLF001

    def restyle(self, styles: Mapping[str, Style]) -> None:
        """Show the same in other colours."""
        self.styles_by_name = styles
        self._strips = [self._strip(line) for line in self._frame.lines]
        self.refresh()

    def _strip(self, line: Line) -> Strip:
        styles = self.styles_by_name
        return Strip([Segment(text, styles[name]) for text, name in line.spans], line.width)

    def render_line(self, y: int) -> Strip:
        """One line, as textual asks for it."""
        if y >= len(self._strips):
            return Strip.blank(self.size.width)
        return self._strips[y].adjust_cell_length(self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Turn a click into what stands there."""
        for hit in self._frame.hits:
            if hit.y == event.y and hit.left <= event.x < hit.right:
                self.post_message(self.Clicked(hit))
                return


def _plain(line: Line) -> Line:
    made = Line()
    for text, style in line.spans:
        made.add(to_ascii(text), style)
    return made


def _cells(spans: Sequence[Span]) -> list[_Cell]:
    """One entry a column; the second column of a wide character is empty."""
    cells: list[_Cell] = []
    for text, style in spans:
        blank = (" ", style if style in SHOWN_ON_SPACES else "")
        if text.isascii():
            cells += [blank if char == " " else (char, style) for char in text]
            continue
        for char in text:
            width = char_width(char)
            if not width and cells:
                cells[-1] = (cells[-1][0] + char, style)
            cells += [blank if char == " " else (char, style), ("", style)][:width]
    return cells


def _same_spans(old: Sequence[Span], new: Sequence[Span]) -> int:
    """How many spans from the left are the same, and no mark joins the last of them."""
    same = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        same += 1
    while same and any(s[same:] and not char_width(s[same][0][0]) for s in (old, new)):
        same -= 1
    return same


def changed_runs(old: Line, new: Line) -> list[tuple[int, int]]:
    """Columns that differ, as (first, one past the last); runs close together are joined."""
    if old.width != new.width:
        return [(0, max(old.width, new.width))]
    same = _same_spans(old.spans, new.spans)
    was, now = _cells(old.spans[same:]), _cells(new.spans[same:])
    runs: list[tuple[int, int]] = []
    for x, (a, b) in enumerate(zip(was, now, strict=True), new.width - len(now)):
        if a == b:
            continue
        if runs and x - runs[-1][1] < _JOIN:
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return runs
