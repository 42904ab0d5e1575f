"""The command palette: every key by name, the layers, and the themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from textual.app import SystemCommand

from ioh.tui.keys import KEYS
from ioh.tui.options import ThemeName


def commands(
    do: Callable[[str, str | int], None],
    change_theme: Callable[[ThemeName], None],
    layers: Sequence[str],
) -> Iterator[SystemCommand]:
    """What can be found by name.

    Args:
        do: Does an action with its argument, as its key would.
        change_theme: Shows other colours.
        layers: Names of those that can be zoomed into, in the order of their keys.
    """
    for key in KEYS:
        if key.action != "layer":
            title = key.help[:1].upper() + key.help[1:]
            yield SystemCommand(
                title, f"key {key.label}", lambda key=key: do(key.action, key.argument)
            )
    for at, name in enumerate(layers, 1):
        title = f"Zoom into {name.replace('_', ' ')}"
        yield SystemCommand(title, f"key {at}", lambda at=at: do("layer", at))
    themes: tuple[ThemeName, ...] = ("dark", "light", "mono")
    for theme in themes:
        what = "of the screen and of saved pictures"
        yield SystemCommand(f"Colours: {theme}", what, lambda theme=theme: change_theme(theme))
