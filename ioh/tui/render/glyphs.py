"""The screen on a terminal that shows ASCII only."""

from __future__ import annotations

from ioh.sinks.cells import char_width

BARS, ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"  # from none to full

# One column each: a frame's lines keep their width.
_DRAWN = str.maketrans("░▒▓█─●‖▶└▼·╳▸↓↑╭╮╰╯│▏◂", ":+*#-*=>`v.x>v^++++||<")
_PLAIN = str.maketrans("×µ…→←·≤≥↑↓", "xu~><-<>^v")


def drawn_in_ascii(text: str) -> str:
    """ASCII instead of what lines and charts are drawn with, in names from outside, too."""
    return text.translate(_DRAWN)


def to_ascii(text: str) -> str:
    """Text of ours for a terminal that shows ASCII only; other letters become ``?``.

    Returns:
        As many columns as ``text`` takes: two ``?`` for a wide character, none for a mark.
    """
    if text.isascii():
        return text
    plain = text.translate(_PLAIN)
    return "".join(char if char.isascii() else "?" * char_width(char) for char in plain)
