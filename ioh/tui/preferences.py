"""What the screen remembers of the user's choices: theme, panel, the order of breakdowns."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from ioh.model.printable import printable
from ioh.rights.user import config_path
from ioh.tui.options import ThemeName
from ioh.tui.state import Panel, TableState, ViewState

FILE_NAME = "screen.json"
MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Preferences:
    """What was chosen by hand.

    Shape:
        ``theme`` None where it was not; ``tables``: by layer the breakdown shown, its sort column
        and order.
    """

    theme: ThemeName | None = None
    panel: Panel = "hist"
    tables: Mapping[str, TableState] = field(default_factory=dict)

    @classmethod
    def of(cls, state: ViewState, theme: ThemeName | None) -> Preferences:
        """Of a screen: its order, not where its cursors are or what is being looked for."""
        tables = {
            layer: TableState(table.name, table.sort, table.is_ascending)
            for layer, table in state.tables.items()
        }
        chosen = {layer: table for layer, table in tables.items() if table != TableState()}
        return cls(theme, state.panel, chosen)

    def state(self) -> ViewState:
        """A screen to begin with."""
        return ViewState(panel=self.panel, tables=dict(self.tables))


def read() -> tuple[Preferences, str]:
    """What was remembered, and what is wrong with it in one printable line, else ""."""
    try:
        with config_path(FILE_NAME).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError, RuntimeError):  # none yet, not for us, no home directory
        return Preferences(), ""
    try:
        if len(raw) <= MAX_BYTES:
            return _parsed(json.loads(raw)), ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    return Preferences(), f"{FILE_NAME} is invalid and ignored; the next change replaces it"


def _parsed(found: Mapping[str, object]) -> Preferences:
    """Raises ValueError and the like where it was not written by save()."""
    theme, panel, tables = found["theme"], found["panel"], found["tables"]
    if theme not in (None, *get_args(ThemeName)) or panel not in get_args(Panel):
        raise ValueError(theme)
    if not isinstance(tables, dict):
        raise TypeError(tables)
    return Preferences(
        theme,  # type: ignore[arg-type]
        panel,  # type: ignore[arg-type]
        {
            _name(layer): TableState(_name(name), _name(sort), bool(is_ascending))
            for layer, (name, sort, is_ascending) in tables.items()
        },
    )


def _name(text: object) -> str:
    if not isinstance(text, str) or not text.isprintable():
        raise ValueError(text)
    return text


def save(before: Preferences, now: Preferences) -> str:
    """Remember what changed; returns why that was not possible, printable, else ""."""
    if now == before:
        return ""
    written = {
        "theme": now.theme,
        "panel": now.panel,
        "tables": {
            layer: (table.name, table.sort, table.is_ascending)
            for layer, table in now.tables.items()
        },
    }
    try:
        path = config_path(FILE_NAME)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, json.dumps(written, indent=1) + "\n")
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return printable(f"cannot save the screen's settings: {FILE_NAME}: {reason}")
    return ""


def _replace(path: Path, text: str) -> None:
    """Put a whole file in the place of another; a full disk leaves the old one."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("x", encoding="utf-8") as stream:  # not through a link of somebody else's
            stream.write(text)
        new.replace(path)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()
