"""Corrections of textual 8.2.8, all of them here; the version is pinned in pyproject.toml."""

from __future__ import annotations

import contextlib
import os


def apply() -> None:
    """Put the corrections in place; once is enough, more does no harm."""
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty, it asks for nothing (no-color.org)
    if _says_its_size():
        # Set for a terminal that had another size, they would be believed before this one.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)


def _says_its_size() -> bool:
    with contextlib.suppress(OSError):
        return all(os.get_terminal_size(1))
    return False
