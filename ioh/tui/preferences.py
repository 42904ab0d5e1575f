"""Remembers the user's choices: theme, panel, each layer's breakdown and its order."""

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
    """The user's choices.

    Shape:
        ``theme`` None if not chosen; ``tables`` by layer: breakdown, sort column and order.
    """

    theme: ThemeName | None = None
    panel: Panel = "hist"
    tables: Mapping[str, TableState] = field(default_factory=dict)

    @classmethod
    def of(cls, state: ViewState, theme: ThemeName | None) -> Preferences:
        """The choices on a screen, without cursors and filters."""
        tables = {
            layer: TableState(table.name, table.sort, table.is_ascending)
            for layer, table in state.tables.items()
            if table.name or table.sort or table.is_ascending
        }
        return cls(theme, state.panel, tables)

    def state(self) -> ViewState:
        """The first state of a screen."""
        return ViewState(panel=self.panel, tables=dict(self.tables))


def read() -> tuple[Preferences, str]:
    """Read the choices; also return what is wrong with them, printable, else ""."""
    try:
        with config_path(FILE_NAME).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError, RuntimeError):  # none yet, not readable, no home directory
        return Preferences(), ""
    try:
        if len(raw) <= MAX_BYTES:
            return _parsed(json.loads(raw)), ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    return Preferences(), f"{FILE_NAME} is invalid and ignored; the next change replaces it"


def _parsed(found: Mapping[str, object]) -> Preferences:
    """Raises ValueError and others if save() did not write it."""
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
    """Save changed choices; return why it failed, printable, else ""."""
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
    """Replace a file as a whole; a full disk leaves the old one."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("x", encoding="utf-8") as stream:  # never through a link
            stream.write(text)
        new.replace(path)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()
