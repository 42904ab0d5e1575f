"""Which columns of a line differ from what stands on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.sinks.cells import char_width, is_narrow
from ioh.tui.render.line import SHOWN_ON_SPACES, Line, Span

# Columns as (first, one past the last), from the left, apart from each other.
Runs = list[tuple[int, int]]

# Moving the cursor costs some eight bytes: unchanged cells between two changes are repainted.
_JOIN = 8
_Cell = tuple[str, str]


def changed_runs(old: Line, new: Line) -> Runs:
    """Columns that differ; runs close together are joined."""
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
    """Columns that differ in lines of narrow characters, both of the same length.

    Piece by piece: most of those between two changes of style are the same in both.
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
    """How many spans from the left are the same, and no mark joins the last of them."""
    same = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        same += 1
    while same and any(s[same:] and not char_width(s[same][0][0]) for s in (old, new)):
        same -= 1
    return same


def _cells(spans: Sequence[Span]) -> list[_Cell]:
    """One entry a column; the second column of a wide character is empty."""
    cells: list[_Cell] = []
    for text, style in spans:
        blank = (" ", style if style in SHOWN_ON_SPACES else "")
        for char in text:
            width = char_width(char)
            if not width and cells:
                cells[-1] = (cells[-1][0] + char, style)
            cells += [blank if char == " " else (char, style), ("", style)][:width]
    return cells
