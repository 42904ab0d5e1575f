"""Corrections of textual 8.2.8, all of them here; the version is pinned in pyproject.toml."""

from __future__ import annotations

import os


def apply() -> None:
    """Put the corrections in place; once is enough, more does no harm."""
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty, it asks for nothing (no-color.org)
