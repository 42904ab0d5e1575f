"""All commands by name: keys, layers and colours."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.tui.keys import KEYS, Key

_COLOURS = "Colours"
_WITHOUT_KEY = [
    Key((), "", "theme", f"colours: {theme}", _COLOURS, argument=theme, words="theme color scheme")
    for theme in ("dark", "light", "mono", "auto")
]


def found(text: str, *fields: str) -> bool:
    """Whether each word of a text starts a word of the fields, or is in the first field."""
    names = " ".join(fields).casefold()
    starts = names.replace("-", " ").split()
    return all(
        word in fields[0].casefold() or any(start.startswith(word) for start in starts)
        for word in text.casefold().split()
    )


def commands(text: str, layers: Sequence[str]) -> list[Key]:
    """The commands that match a text, matching titles first; all for "", those without a key first.

    ``layers``: titles of the layers, in the order of their keys.
    """
    words = "layer show details"
    known = _WITHOUT_KEY + [
        Key((), str(at), "layer", f"zoom into {title}", KEYS[0].group, argument=at, words=words)
        for at, title in enumerate(layers, 1)
    ]
    known += [key for key in KEYS if key.action not in {"layer", "palette"}]
    fitting = [key for key in known if found(text, key.help, key.words)]
    fitting.sort(key=lambda key: not found(text, key.help))
    return sorted(fitting, key=lambda key: not key.help.casefold().startswith(text.casefold()))
