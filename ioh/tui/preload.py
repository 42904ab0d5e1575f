"""Imports whatever the screen can need, for a process that will soon be unable to read it.

ioh gives root away before the first picture, and a checkout below /root can be read by root alone;
textual and rich import some of their modules when they are first used.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from rich.cells import cell_len

import ioh.tui

# What they import late, of all that this screen leads them to; a test looks for more.
_LATE = (
    "textual.drivers.headless_driver",
    "textual.drivers.linux_driver",
    "textual.layouts.factory",
    "textual.pilot",
    "textual.scrollbar",
    "textual.widgets._tooltip",
)


def preload_screen() -> None:
    """Import every module of the screen, and what those import late."""
    for module in pkgutil.walk_packages(ioh.tui.__path__, "ioh.tui."):
        import_module(module.name)
    for name in _LATE:
        import_module(name)
    cell_len("\N{CJK UNIFIED IDEOGRAPH-6570}")  # reads the table of widths
