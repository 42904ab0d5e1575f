"""Corrections of textual 8.2.8, all of them here; the version is pinned in pyproject.toml."""

from __future__ import annotations

import os

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate


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
            piece = strip if (first, last) == (x, end) else strip.crop(first - x, last - x)
            sequences.append(Control.move_to(first, y).segment.text)
            sequences.append(piece.render(console))
    return "".join(sequences)


def apply() -> None:
    """Put the corrections in place; once is enough, more does no harm."""
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty, it asks for nothing (no-color.org)
    ChopsUpdate.render_segments = _render_changed_cells  # type: ignore[method-assign]
