"""Finds the changed cells of a line, and writes them as terminal codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ioh.sinks.cells import char_width, is_narrow
from ioh.tui.render.line import SHOWN_ON_SPACES, Line, Span

# Columns as (first, one past the last), from left to right, with gaps between them.
Runs = list[tuple[int, int]]

# Moving the cursor costs eight bytes, so shorter unchanged gaps are written again.
_JOIN = 8
_SAMPLE = "x"
_Cell = tuple[str, str]


def changed_runs(old: Line, new: Line) -> Runs:
    """The columns that differ; runs close to each other are joined."""
    if old.width != new.width:
        return [(0, max(old.width, new.width))]
    same = _same_spans(old.spans, new.spans)
    was, now = old.spans[same:], new.spans[same:]
    old_text, new_text = "".join([text for text, _ in was]), "".join([text for text, _ in now])
    if is_narrow(old_text) and is_narrow(new_text):
        length = len(new_text)
        columns = _differing(was, now)
    else:
        old_cells, new_cells = _cells(was), _cells(now)
        length = len(new_cells)
        pairs = zip(old_cells, new_cells, strict=True)
        columns = [x for x, (a, b) in enumerate(pairs) if a != b]
    return _joined(columns, new.width - length)


def _differing(was: Sequence[Span], now: Sequence[Span]) -> list[int]:
    """The columns that differ in two lines of narrow characters with the same length.

    Compares piece by piece between changes of style: most pieces are equal.
    """
    columns: list[int] = []
    x = 0
    before, c = "", ""
    rest = iter(was)
    for text, d in now:
        left = text
        while left:
            if not before:
                before, c = next(rest)
            size = min(len(before), len(left))
            old, new = before[:size], left[:size]
            pairs = enumerate(zip(old, new, strict=True), x)
            if c == d:
                if old != new:
                    columns += [at for at, (a, b) in pairs if a != b]
            elif c in SHOWN_ON_SPACES or d in SHOWN_ON_SPACES:
                columns += range(x, x + size)
            else:
                columns += [at for at, (a, b) in pairs if a != b or a != " "]
            x += size
            before, left = before[size:], left[size:]
    return columns


def _joined(columns: Sequence[int], offset: int) -> Runs:
    runs: Runs = []
    first = last = -1
    for x in columns:
        if first >= 0 and x - last < _JOIN:
            last = x + 1
            continue
        if first >= 0:
            runs.append((first + offset, last + offset))
        first, last = x, x + 1
    if first >= 0:
        runs.append((first + offset, last + offset))
    return runs


def _same_spans(old: Sequence[Span], new: Sequence[Span]) -> int:
    """How many spans from the left are equal, with no combining mark after the last."""
    same = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        same += 1
    while same and any(s[same:] and not char_width(s[same][0][0]) for s in (old, new)):
        same -= 1
    return same


def _cells(spans: Sequence[Span]) -> list[_Cell]:
    """One entry per column; both of a wide character change together: half of it is nothing."""
    cells: list[_Cell] = []
    last = 0  # columns of the character before
    for text, style in spans:
        blank = (" ", style if style in SHOWN_ON_SPACES else "")
        for char in text:
            if width := char_width(char):
                last = width
                cells += [blank if char == " " else (char, style), (f" {char}", style)][:width]
            else:
                cells[-last:] = [(before + char, style) for before, _ in cells[-last:]]
    return cells


class Paint:
    """The terminal codes of each named style."""

    def __init__(self, styles: Mapping[str, Style], console: Console) -> None:
        self.styles, self.console = styles, console
        # TRUECOLOR without a terminal, as in Strip.render().
        color_system = console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001
        self.codes: dict[str, tuple[str, str]] = {}  # before and after the text
        for name, style in styles.items():
            whole = Strip.render_style(style, _SAMPLE, color_system)
            before, _, after = whole.partition(_SAMPLE)
            self.codes[name] = (before, after)


def strip_of(line: Line, styles: Mapping[str, Style]) -> Strip:
    """A whole line as textual's Strip."""
    return Strip([Segment(text, styles[name]) for text, name in line.spans], line.width)


def pieces_of(line: Line, y: int, runs: Runs, paint: Paint) -> list[str]:
    """The text to write for some columns of line ``y``.

    A tick changes a hundred pieces: Strips and their caches would cost more than plain text.
    """
    if not is_narrow(line.text):  # a wide character may be cut in two
        strip = strip_of(line, paint.styles)
        return [
            f"\x1b[{y + 1};{first + 1}H{strip.crop(first, last).render(paint.console)}"
            for first, last in runs
        ]
    made: list[str] = []
    codes = paint.codes
    spans = iter(line.spans)
    begin = end = 0
    text = style = ""
    for first, last in runs:
        made.append(f"\x1b[{y + 1};{first + 1}H")
        while end <= first:
            text, style = next(spans)
            begin, end = end, end + len(text)
        while True:
            before, after = codes[style]
            made.append(f"{before}{text[max(0, first - begin) : last - begin]}{after}")
            if end >= last:
                break
            text, style = next(spans)
            begin, end = end, end + len(text)
    return made
