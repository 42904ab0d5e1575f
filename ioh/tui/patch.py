"""The cells that changed, as they are written to the terminal.

Textual 8.2.8 (pinned in pyproject.toml) would write each changed line from its first column on,
three times the bytes over a slow link, and composes it once more from all widgets, which is as
dear as drawing it: there is one widget here, as large as the screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from textual._compositor import CompositorUpdate
from textual.geometry import Region
from textual.strip import Strip


class Patch(CompositorUpdate):
    """Pieces of lines.

    Args:
        pieces: Where each one goes, one line high, and the whole line that it is cut from.
    """

    def __init__(self, pieces: Sequence[tuple[Region, Strip]]) -> None:
        self._pieces = pieces

    def render_segments(self, console: Console) -> str:
        """What to write."""
        parts: list[str] = []
        for region, line in self._pieces:
            parts.append(Control.move_to(region.x, region.y).segment.text)
            parts.append(cropped(line, region.x, region.right, console))
        return "".join(parts)


def cropped(line: Strip, first: int, last: int, console: Console) -> str:
    """What line.crop(first, last).render(console) gives, without making a Strip of each piece.

    A tick changes a hundred pieces, and the caches of a Strip are dearer than its text.
    """
    color_system = console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001 (as Strip does)
    parts: list[str] = []
    at = 0
    for text, style, _ in line:
        if cell_len(text) != len(text):  # a wide character may be cut in two
            return line.crop(first, last).render(console)
        end = at + len(text)
        if first < end and at < last:
            piece = text[max(0, first - at) : last - at]
            parts.append(
                piece
                if style is None
                else line.render_style(style, piece, color_system=color_system)
            )
        at = end
    return "".join(parts)
