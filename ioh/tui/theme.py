"""The named styles in true colour, 256, 16 or no colours, on dark or light."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style

from ioh.tui.options import ThemeName

# Brightness orders the scale (similar to cividis): it works with any colour vision and in black and
# white.  For the same reason reads are blue and writes orange.
_HEAT_DARK = ("", "#5f7f9f", "#6f95a8", "#8aa88f", "#b0b070", "#d7bf4a", "#ffd75f", "bold #ffffaf")
_HEAT_LIGHT = ("", "#7f8f9f", "#5f7f97", "#4f6f77", "#6f6f3f", "#7f5f10", "#7f3f00", "bold #5f0000")
# OpenSSH passes on no COLORTERM, so most screens have 256 colours.  Rounded to these, the colours
# above turn grey or pink.
_HEAT_256 = ("", *(f"color({n})" for n in (24, 31, 107, 143, 179, 221)), "bold color(229)")
_HEAT_256_LIGHT = ("", *(f"color({n})" for n in (109, 67, 66, 58, 94, 88)), "bold color(52)")
_HEAT_16 = ("", "blue", "blue", "cyan", "green", "yellow", "bold yellow", "bold white")
_HEAT_16_LIGHT = ("", "cyan", "cyan", "blue", "blue", "magenta", "red", "bold red")

_COMMON = {
    "": "",
    "strong": "bold",
    "title": "bold",
    "sel": "reverse",
    "sel2": "bold underline",
    "cursor": "reverse",
    "name": "",
}
_DARK = {
    "dim": "bright_black",
    "rule": "bright_black",
    "head": "cyan",
    "key": "bold cyan",
    "accent": "cyan",
    "brand": "bold cyan",
    "good": "green",
    "warn": "bright_yellow",
    "crit": "bold bright_red",
    "demo": "bold magenta",
    "mark": "magenta",
    "read": "bright_blue",
    "write": "yellow",
    "other": "",
    "tab": "bold cyan underline",
    # Trends are the largest shapes and the least important: no full colours.
    "trend_r": "bright_black",
    "trend_w": "bright_black",
    "trend_o": "bright_black",
}
_LIGHT = {
    **_DARK,
    "head": "blue",
    "key": "bold blue",
    "accent": "blue",
    "brand": "bold blue",
    "warn": "bold magenta",
    "mark": "blue",
    "crit": "bold red",
    "read": "blue",
    "tab": "bold blue underline",
}
_RICH = {
    "read": "#5fafff",
    "write": "#ffaf5f",
    "dim": "#8a8a8a",
    "rule": "#5f5f5f",
    "trend_r": "#3f6a8f",
    "trend_w": "#85653f",
}
_RICH_LIGHT = {
    "read": "#005faf",
    "write": "#af5f00",
    "dim": "#767676",
    "rule": "#a8a8a8",
    "trend_r": "#6f9fc8",
    "trend_w": "#cfa070",
}
_256 = {
    "trend_r": "color(24)",
    "trend_w": "color(94)",
}
_256_LIGHT = {
    "trend_r": "color(110)",
    "trend_w": "color(180)",
}
_MONO = {
    **dict.fromkeys(_DARK, ""),
    **dict.fromkeys(("dim", "rule", "trend_r", "trend_w", "trend_o"), "dim"),
    "key": "bold",
    "brand": "bold",
    "warn": "bold",
    "crit": "bold reverse",
    "demo": "bold reverse",
    "tab": "bold underline",
}


def styles_for(theme: ThemeName, color_system: str | None) -> Mapping[str, Style]:
    """All named styles; ``auto`` is dark, because terminals do not report their background.

    ``color_system`` is rich's: ``truecolor``, ``256``, ``standard``, None for none.
    """
    if theme == "mono" or color_system is None:
        named = {**_COMMON, **_MONO}
        heat: tuple[str, ...] = ("", "", "", "", "", "", "bold", "bold")
    else:
        is_light = theme == "light"
        named = {**_COMMON, **(_LIGHT if is_light else _DARK)}
        if color_system == "standard":
            heat = _HEAT_16_LIGHT if is_light else _HEAT_16
        else:
            named |= _RICH_LIGHT if is_light else _RICH
            heat = _HEAT_LIGHT if is_light else _HEAT_DARK
            if color_system == "256":
                named |= _256_LIGHT if is_light else _256
                heat = _HEAT_256_LIGHT if is_light else _HEAT_256
    found = {name: Style.parse(text) for name, text in named.items()}
    found.update({f"heat{level}": Style.parse(text) for level, text in enumerate(heat)})
    return found
