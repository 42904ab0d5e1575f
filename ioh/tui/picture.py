"""A Frame as a picture (SVG), in the colours of the screen."""

from __future__ import annotations

import io
from collections.abc import Mapping

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from ioh.tui.render.line import Frame

DARK = TerminalTheme(
    (18, 18, 18),
    (208, 208, 208),
    [
        (40, 40, 40), (215, 95, 95), (135, 175, 95), (215, 175, 95),
        (95, 135, 215), (175, 135, 215), (95, 175, 175), (208, 208, 208),
    ],
    [
        (118, 118, 118), (255, 115, 100), (160, 205, 120), (255, 215, 95),
        (95, 175, 255), (205, 155, 245), (115, 215, 215), (255, 255, 255),
    ],
)  # fmt: skip
LIGHT = TerminalTheme(
    (255, 255, 255),
    (32, 32, 32),
    [
        (32, 32, 32), (175, 0, 0), (0, 95, 0), (135, 95, 0),
        (0, 70, 160), (110, 40, 140), (0, 95, 110), (120, 120, 120),
    ],
    [
        (118, 118, 118), (200, 0, 0), (0, 120, 0), (150, 100, 0),
        (0, 95, 175), (130, 60, 160), (0, 120, 135), (0, 0, 0),
    ],
)  # fmt: skip


def svg(frame: Frame, styles: Mapping[str, Style], title: str, *, is_light: bool = False) -> str:
    """The frame as an SVG document.

    Args:
        frame: Lines that all have the same width.
        styles: See theme.py.
        title: Of the picture's window frame; printable.
        is_light: On white instead of black.
    """
    width = max((line.width for line in frame.lines), default=80)
    console = Console(
        width=width,
        height=len(frame.lines),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        emoji=False,
        markup=False,
        highlight=False,
    )
    for line in frame.lines:
        text = Text(no_wrap=True, end="\n")
        for part, name in line.spans:
            text.append(part, styles[name])
        console.print(text, overflow="crop", crop=True)
    return console.export_svg(title=title, theme=LIGHT if is_light else DARK, unique_id="ioh")
