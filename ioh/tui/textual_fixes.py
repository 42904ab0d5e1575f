"""Corrections of textual 8.2.8, all of them here; the version is pinned in pyproject.toml."""

from __future__ import annotations

import os

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate
from textual.strip import Strip


def _render_changed_cells(self: ChopsUpdate, console: Console) -> str:
    """What ChopsUpdate.render_segments() does, but beginning at each span's first column.

    The original begins at the first column of the widget, whatever changed: with one widget as
    wide as the screen that repaints whole lines, three times the bytes over a slow link.
    """
    sequences: list[str] = []
    for y, x1, x2 in self.spans:
        for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
            if strip is None or x >= x2 or end <= x1:
                continue
            first, last = max(x, x1), min(end, x2)
            sequences.append(Control.move_to(first, y).segment.text)
            sequences.append(_cropped(strip, first - x, last - x, console))
    return "".join(sequences)


def _cropped(strip: Strip, first: int, last: int, console: Console) -> str:
    """What strip.crop(first, last).render(console) gives, without making a Strip of each piece.

    A tick changes a hundred pieces, and the caches of a Strip are dearer than its text.
    """
    color_system = console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001 (as Strip does)
    parts: list[str] = []
    at = 0
    for text, style, _ in strip:
        if cell_len(text) != len(text):  # a wide character may be cut in two
            return strip.crop(first, last).render(console)
        end = at + len(text)
        if first < end and at < last:
            piece = text[max(0, first - at) : last - at]
            parts.append(
                piece
                if style is None
                else strip.render_style(style, piece, color_system=color_system)
            )
        at = end
    return "".join(parts)


def apply() -> None:
    """Put the corrections in place; once is enough, more does no harm."""
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty, it asks for nothing (no-color.org)
    ChopsUpdate.render_segments = _render_changed_cells  # type: ignore[method-assign]
