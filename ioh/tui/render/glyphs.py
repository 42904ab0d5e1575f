"""Characters for charts, and their replacements on terminals that show only ASCII."""

from __future__ import annotations

from ioh.sinks.cells import char_width

BARS = " ▁▂▃▄▅▆▇█"  # from none to full
# Two bars a character, by the level of the left and of the right one, 0 to 4.
_LEFT, _RIGHT = (0, 0x40, 0x44, 0x46, 0x47), (0, 0x80, 0xA0, 0xB0, 0xB8)
BRAILLE = [[chr(0x2800 + left + right) for right in _RIGHT] for left in _LEFT]
BRAILLE[0][0] = " "  # some fonts draw empty dots

# One column each: a frame's lines keep their width.
_DRAWN = str.maketrans("▁▂▃▄▅▆▇█▌▐░▒▓─●‖▶└▼·╳▸↓↑╭╮╰╯│▏◂", ".:-=+*#@##:+*-*=>`v.x>v^++++||<")
# A pair of bars becomes its higher one.
_DRAWN |= {
    ord(char): ord(" .-+@"[max(left, right)])
    for left, chars in enumerate(BRAILLE)
    for right, char in enumerate(chars)
}
_PLAIN = str.maketrans("×µ…→←·≤≥↑↓", "xu~><-<>^v")


def drawn_in_ascii(text: str) -> str:
    """Replace the characters of lines and charts, also in names."""
    return text.translate(_DRAWN)


def to_ascii(text: str) -> str:
    """Replace all characters; the width stays the same.

    Letters become ``?``: two for a wide character, none for a combining mark.
    """
    plain = text.translate(_DRAWN | _PLAIN)
    return "".join(char if char.isascii() else "?" * char_width(char) for char in plain)
