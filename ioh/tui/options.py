"""How the user wants the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ThemeName = Literal["auto", "dark", "light", "mono"]


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """What the command line says about the screen.

    Shape:
        ``filters_text`` is what the probes were narrowed to, printable; ``speed`` that of a
        recording, as the feed was told.
    """

    theme: ThemeName = "auto"
    ascii_only: bool = False
    utc: bool = False
    filters_text: str = ""
    speed: float = 1.0
