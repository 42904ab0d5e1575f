"""The cells that changed, as they are written to the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ioh.sinks.cells import is_narrow
from ioh.tui.changes import Runs
from ioh.tui.render.line import Line

_SAMPLE = "x"


class Paint:
    """How a terminal is made to show each of the named styles."""

    def __init__(self, styles: Mapping[str, Style], console: Console) -> None:
        self.styles, self.console = styles, console
        # TRUECOLOR: as Strip.render() does where there is no terminal.
        color_system = console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001
        self.codes: dict[str, tuple[str, str]] = {}  # what stands before and after the text
        for name, style in styles.items():
            whole = Strip.render_style(style, _SAMPLE, color_system)
            before, _, after = whole.partition(_SAMPLE)
            self.codes[name] = (before, after)


def strip_of(line: Line, styles: Mapping[str, Style]) -> Strip:
    """A whole line as textual wants it."""
    return Strip([Segment(text, styles[name]) for text, name in line.spans], line.width)


def pieces_of(line: Line, y: int, runs: Runs, paint: Paint) -> list[str]:
    """What to write for some columns of line ``y``.

    A tick changes a hundred pieces: Strips of them, and their caches, are dearer than the text.
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
