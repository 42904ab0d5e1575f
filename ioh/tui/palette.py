"""All commands by name: keys, layers and colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ioh.tui.keys import KEYS


@dataclass(frozen=True, slots=True)
class Command:
    """One line of the palette.

    Shape:
        ``label`` is the key, "" for none; ``words`` are other words to search for.
    """

    title: str
    label: str
    action: str
    argument: str | int = ""
    words: str = ""


_WITHOUT_KEY = [
    Command(f"Colours: {theme}", "", "theme", theme, "theme color scheme")
    for theme in ("dark", "light", "mono")
]


def found(text: str, *fields: str) -> bool:
    """Whether each word of a text starts a word of the fields, or is in the first field."""
    names = " ".join(fields).casefold()
    starts = names.replace("-", " ").split()
    return all(
        word in fields[0].casefold() or any(start.startswith(word) for start in starts)
        for word in text.casefold().split()
    )


def commands(text: str, layers: Sequence[str]) -> list[Command]:
    """The commands that match a text, matching titles first; all for "".

    ``layers``: titles of the layers, in the order of their keys.
    """
    known = [
        Command(key.help[:1].upper() + key.help[1:], key.label, key.action, key.argument, key.words)
        for key in KEYS
        if key.action not in {"layer", "palette"}
    ]
    known += [
        Command(f"Zoom into {title}", str(at), "layer", at, "layer show details")
        for at, title in enumerate(layers, 1)
    ]
    known += _WITHOUT_KEY
    fitting = [command for command in known if found(text, command.title, command.words)]
    fitting.sort(key=lambda command: not found(text, command.title))
    return sorted(fitting, key=lambda c: not c.title.casefold().startswith(text.casefold()))
