"""How the user wants the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ThemeName = Literal["auto", "dark", "light", "mono"]


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """What the command line says about the screen.

    Shape:
        ``filters_text`` is what the probes were narrowed to, printable; ``speed`` that of a
        recording, as the feed was given it; ``bell`` rings at a new critical finding;
        ``mouse``: clicks and the wheel are ioh's, not the terminal's; ``line``: what stands below
        the header, printable, asked for a few times a second.
    """

    theme: ThemeName = "auto"
    ascii_only: bool = False
    utc: bool = False
    filters_text: str = ""
    speed: float = 1.0
    bell: bool = False
    mouse: bool = True
    line: Callable[[], str] | None = None
