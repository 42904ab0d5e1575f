"""Draws a ScreenFrame as SVG, in the colours of the screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from rich.style import Style
from rich.terminal_theme import TerminalTheme

from ioh.sinks.cells import display_width
from ioh.terminal.line import ScreenFrame

# Only local fonts: the picture needs no network and contacts nobody.
FONTS = "ui-monospace, 'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace"
COLUMN_PX, LINE_PX, FONT_PX = 12, 24, 20
LEFT_PX, TOP_PX, BORDER_PX = 10, 42, 10
# Each run has its own place: viewers treat repeated spaces differently.
_RUN = re.compile("[^ ]+(?: [^ ]+)*")
# As html.escape() has it, whose module knows 2,231 more: 0.4 MB.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})

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


def svg(
    frame: ScreenFrame, styles: Mapping[str, Style], title: str, *, is_light: bool = False
) -> str:
    """The frame as an SVG document; ``title`` printable; ``is_light``: white background."""
    theme = LIGHT if is_light else DARK
    columns = max((line.width for line in frame.lines), default=80)
    width = LEFT_PX + columns * COLUMN_PX + BORDER_PX
    height = TOP_PX + len(frame.lines) * LINE_PX + BORDER_PX
    names = sorted({name for line in frame.lines for _, name in line.spans})
    classes = {name: f"s{at}" for at, name in enumerate(names)}
    border = f'width="{width - 2}" height="{height - 2}" rx="8" stroke="#767676"'
    lights = (("#ff5f57", 26), ("#febc2e", 48), ("#28c840", 70))
    parts = [
        f'<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">',
        "<style>",
        f"text {{ font: {FONT_PX}px {FONTS}; fill: {theme.foreground_color.hex} }}",
        ".title { font-weight: bold; text-anchor: middle }",
        *(f"text.{classes[name]} {{ {_css(styles[name], theme)} }}" for name in names),
        "</style>",
        f'<rect x="1" y="1" {border} fill="{theme.background_color.hex}"/>',
        *(f'<circle cx="{x}" cy="22" r="7" fill="{colour}"/>' for colour, x in lights),
        f'<text class="title" x="{width // 2}" y="28">{title.translate(_ESCAPED)}</text>',
    ]
    for row, line in enumerate(frame.lines):
        spans = ((text, classes[name], styles[name]) for text, name in line.spans)
        parts += _line(spans, theme, TOP_PX + row * LINE_PX)
    return "\n".join([*parts, "</svg>", ""])


def _line(spans: Iterable[tuple[str, str, Style]], theme: TerminalTheme, y: int) -> Iterator[str]:
    """The runs of text of a line and their backgrounds."""
    x = LEFT_PX
    for text, class_, style in spans:
        width = display_width(text) * COLUMN_PX
        if style.reverse:
            ground = _colour(style, theme)
            yield f'<rect x="{x}" y="{y}" width="{width}" height="{LINE_PX}" fill="{ground}"/>'
        for run in _RUN.finditer(text):
            at = x + display_width(text[: run.start()]) * COLUMN_PX
            place = f'x="{at}" y="{y + FONT_PX - 2}"'
            length = f'textLength="{display_width(run[0]) * COLUMN_PX}"'
            yield f'<text class="{class_}" {place} {length}>{run[0].translate(_ESCAPED)}</text>'
        x += width


def _css(style: Style, theme: TerminalTheme) -> str:
    ink = theme.background_color.hex if style.reverse else _colour(style, theme)
    rules = [f"fill: {ink}"]
    if style.dim:
        rules.append("opacity: 0.6")
    if style.bold:
        rules.append("font-weight: bold")
    if style.underline:
        rules.append("text-decoration: underline")
    return "; ".join(rules)


def _colour(style: Style, theme: TerminalTheme) -> str:
    if style.color is None or style.color.is_default:
        return theme.foreground_color.hex
    return style.color.get_truecolor(theme).hex
