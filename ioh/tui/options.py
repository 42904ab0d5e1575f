"""The command line's options for the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ThemeName = Literal["auto", "dark", "light", "mono"]


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """The command line's options for the screen.

    Shape:
        ``filters_text`` are the probes' filters, printable; ``speed`` of a recording, as in the
        feed; ``bell`` rings at a new critical finding; ``mouse``: ioh gets clicks, not the
        terminal; ``line`` returns the printable line below the header, twice a second.
    """

    theme: ThemeName = "auto"
    ascii_only: bool = False
    utc: bool = False
    filters_text: str = ""
    speed: float = 1.0
    bell: bool = False
    mouse: bool = True
    line: Callable[[], str] | None = None
