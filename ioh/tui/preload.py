"""Imports everything the screen may need, before the process loses the right to read it.

ioh drops root before the first picture, only root can read a checkout below /root, and textual and
rich import some modules on first use.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from rich.cells import cell_len

import ioh.tui

# The modules that they import late for this screen; a test looks for more.
_LATE = (
    "textual.drivers.headless_driver",
    "textual.drivers.linux_driver",
    "textual.layouts.factory",
    "textual.pilot",
    "textual.scrollbar",
    "textual.widgets._tooltip",
)


def preload_screen() -> None:
    """Import all modules of the screen, and those imported late."""
    for module in pkgutil.walk_packages(ioh.tui.__path__, "ioh.tui."):
        import_module(module.name)
    for name in _LATE:
        import_module(name)
    cell_len("\N{CJK UNIFIED IDEOGRAPH-6570}")  # reads the table of widths
