"""Characters for charts, and their replacements on terminals that show only ASCII."""

from __future__ import annotations

from ioh.sinks.cells import char_width

BARS = " ▁▂▃▄▅▆▇█"  # from none to full

# One column each: a frame's lines keep their width.
_DRAWN = str.maketrans("▁▂▃▄▅▆▇█░▒▓─●‖▶└▼·╳▸↓↑╭╮╰╯│▏◂", ".:-=+*#@:+*-*=>`v.x>v^++++||<")
_PLAIN = str.maketrans("×µ…→←·≤≥↑↓", "xu~><-<>^v")


def drawn_in_ascii(text: str) -> str:
    """Replace the characters of lines and charts, also in names."""
    return text.translate(_DRAWN)


def to_ascii(text: str) -> str:
    """Replace all other characters too; the width stays the same.

    Letters become ``?``: two for a wide character, none for a combining mark.
    """
    if text.isascii():
        return text
    plain = text.translate(_PLAIN)
    return "".join(char if char.isascii() else "?" * char_width(char) for char in plain)
