"""Which characters drawing uses: Unicode's blocks, or ASCII where a terminal has no others."""

from __future__ import annotations

from dataclasses import dataclass

from ioh.sinks.cells import char_width


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters.

    Shape:
        ``bars`` from none to full, for sparklines and charts; ``shades`` from none to full, for
        heat maps; ``box`` the corners from the top left on, row by row, and the side; the others
        as their names say, each one column wide.
    """

    bars: str
    shades: str
    rule: str
    live: str
    paused: str
    playing: str
    record: str
    branch: str
    mark: str
    finding: str
    position: str
    track: str
    ahead: str
    gap: str
    cursor: str
    down: str
    up: str
    box: str
    step: str
    slowest: str


UNICODE = Glyphs(
    bars=" ▁▂▃▄▅▆▇█",
    shades=" ░▒▓█",
    rule="─",
    live="●",
    paused="‖",
    playing="▶",
    record="●",
    branch="└",
    mark="▼",
    finding="!",
    position="█",
    track="─",
    ahead="·",
    gap="╳",
    cursor="▸",
    down="↓",
    up="↑",
    box="╭╮╰╯│",
    step="▏",
    slowest="◂",
)
ASCII = Glyphs(
    bars=" .:-=+*#@",
    shades=" :+*#",  # a dot is the axis'
    rule="-",
    live="*",
    paused="=",
    playing=">",
    record="*",
    branch="`",
    mark="v",
    finding="!",
    position="#",
    track="-",
    ahead=".",
    gap="x",
    cursor=">",
    down="v",
    up="^",
    box="++++|",
    step="|",
    slowest="<",
)


# One column each: a frame's lines keep their width.
_PLAIN = str.maketrans("×µ…→←·≤≥↑↓", "xu~><-<>^v")


def to_ascii(text: str) -> str:
    """Text of ours for a terminal that shows ASCII only; names from outside lose to ``?``.

    Returns:
        As many columns as ``text`` takes: two ``?`` for a wide character, none for a mark.
    """
    if text.isascii():
        return text
    plain = text.translate(_PLAIN)
    return "".join(char if char.isascii() else "?" * char_width(char) for char in plain)
