"""A line of styled text, and a frame: lines with clickable places."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from ioh.model.printable import printable
from ioh.sinks.cells import cut_to, display_width

Span = tuple[str, str]
Argument = str | int | float  # of an action
# First column, one past the last, action, argument: see Hit.
Click = tuple[int, int, str, Argument]

# Styles that are visible on a space.
SHOWN_ON_SPACES = frozenset({"sel", "sel2", "cursor", "tab"})


GAP = 2  # columns between two frames side by side


class Line:
    """Styled text that grows to the right.

    Shape:
        ``spans`` of text and the name of a style (the screen's, in ioh/tui/theme.py); ``width`` in
        terminal columns.
    """

    __slots__ = ("spans", "width")

    def __init__(self, text: str = "", style: str = "") -> None:
        self.spans: list[Span] = []
        self.width = 0
        if text:
            self.add(text, style)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Line) and self.spans == other.spans

    __hash__ = None  # type: ignore[assignment]

    @property
    def text(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.spans)

    def add(self, text: str, style: str = "") -> Line:
        """Append text and return the line.

        Control characters are escaped here once more: a name that was not escaped elsewhere must
        not control the terminal.
        """
        if not text:
            return self
        if not text.isprintable():
            text = printable(text)
        self._append(text, style, display_width(text))
        return self

    def _append(self, text: str, style: str, width: int) -> None:
        """Append printable text, to the last span if it looks the same.

        Each change of style costs a dozen bytes per tick.
        """
        spans = self.spans
        self.width += width
        if spans:
            before, last = spans[-1]
            if last == style or (
                last not in SHOWN_ON_SPACES and style not in SHOWN_ON_SPACES and text.isspace()
            ):
                spans[-1] = (before + text, last)
                return
        spans.append((text, style))

    def add_all(self, spans: Iterable[Span]) -> Line:
        """Append several texts, each in its style."""
        for text, style in spans:
            self.add(text, style)
        return self

    def left(self, text: str, width: int, style: str = "") -> Line:
        """Append text cut or filled to ``width`` columns."""
        text = cut_to(printable(text), width)
        return self.add(text + " " * (width - display_width(text)), style)

    def right(self, text: str, width: int, style: str = "") -> Line:
        """Append text right-aligned in ``width`` columns, cut if it is longer."""
        text = cut_to(printable(text), width)
        return self.add(" " * (width - display_width(text))).add(text, style)

    def cell(self, text: str, width: int, style: str = "") -> Line:
        """Append a space, then text as right() does."""
        return self.add(" ").right(text, width, style)

    def extend(self, other: Line) -> Line:
        """Append another line."""
        for at, (text, style) in enumerate(other.spans):
            before = len(self.spans)
            self._append(text, style, 0)
            if len(self.spans) > before:  # the rest does not join, as in the other line
                self.spans += other.spans[at + 1 :]
                break
        self.width += other.width
        return self

    def to(self, column: int) -> Line:
        """Fill with spaces up to a column."""
        return self.add(" " * (column - self.width))

    def fitted(self, width: int) -> Line:
        """The line cut or filled to exactly ``width`` columns."""
        if self.width == width:
            return self
        made = Line()
        if self.width < width:
            return made.extend(self).to(width)
        for text, style in self.spans:
            room = width - made.width
            if room <= 0:
                break
            made.add(text if display_width(text) <= room else cut_to(text, room), style)
        return made.to(width)

    def styled(self, style: str) -> Line:
        """The same text in one style."""
        return Line(self.text, style)


@dataclass(frozen=True, slots=True)
class Hit:
    """Clickable columns ``left`` to ``right`` (exclusive) of line ``y``.

    Shape:
        ``action`` as in ioh/tui/keys.py, ``argument`` its argument: a row, a time, a key.  With
        ``step`` the argument is that of the first column and grows by ``step`` per column.
    """

    y: int
    left: int
    right: int
    action: str
    argument: Argument = ""
    step: float = 0.0

    def moved(self, right: int, down: int) -> Hit:
        """The same in another place."""
        left, end = self.left + right, self.right + right
        return Hit(self.y + down, left, end, self.action, self.argument, self.step)

    def at(self, x: int) -> Hit:
        """The hit of one column."""
        if not self.step:
            return self
        argument = float(self.argument) + self.step * (x - self.left)
        return Hit(self.y, x, x + 1, self.action, argument)


@dataclass(slots=True)
class ScreenFrame:
    """A part of the screen: its lines, and what can be clicked."""

    lines: list[Line] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)

    def add(self, line: Line, *hits: Click) -> None:
        """Append a line and its clickable columns."""
        y = len(self.lines)
        self.lines.append(line)
        self.hits += [Hit(y, *hit) for hit in hits]

    def below(self, other: ScreenFrame) -> None:
        """Append another frame."""
        y = len(self.lines)
        self.lines += other.lines
        self.hits += [hit.moved(0, y) for hit in other.hits]

    def text(self) -> str:
        """The whole frame as plain text, without spaces at line ends."""
        return "".join(line.text.rstrip() + "\n" for line in self.lines)


def frame_of(line: Line, *hits: Click) -> ScreenFrame:
    """A frame of one line."""
    return ScreenFrame([line], [Hit(0, *hit) for hit in hits])


def beside(left: ScreenFrame, left_width: int, right: ScreenFrame, gap: int = GAP) -> ScreenFrame:
    """Two frames side by side, the right one ``gap`` columns after ``left_width``."""
    made = ScreenFrame()
    for y in range(max(len(left.lines), len(right.lines))):
        line = left.lines[y].fitted(left_width) if y < len(left.lines) else Line()
        line = Line().extend(line).to(left_width + gap)
        if y < len(right.lines):
            line.extend(right.lines[y])
        made.add(line)
    made.hits = [*left.hits, *(hit.moved(left_width + gap, 0) for hit in right.hits)]
    return made


def clipped(frame: ScreenFrame, height: int) -> ScreenFrame:
    """The first ``height`` lines of a frame, filled up with empty lines."""
    lines = frame.lines[:height]
    lines += [Line() for _ in range(height - len(lines))]
    return ScreenFrame(lines, [hit for hit in frame.hits if hit.y < height])


def heading(title: Iterable[Span], width: int) -> Line:
    """A section's heading, with a rule to the end of the line."""
    line = Line("── ", "rule").add_all(title).add(" ")
    return line.add("─" * (width - line.width), "rule").fitted(width)


def wrapped(text: str, width: int, style: str, indent: int = 1) -> list[Line]:
    """A text in as many lines as needed, indented."""
    parts = textwrap.wrap(text, max(20, width - indent - 1))
    return [Line(" " * indent).add(part, style) for part in parts]
