"""The part of an attached probe that runs only while a kernel module is in use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ioh.layers.base import Late


class LatePart:
    """When to ask the loader for it, and the descriptors that keep it attached.

    Shape:
        ``refusal`` says why it cannot be had, ``""`` where it can or is not wanted.
    """

    def __init__(self, late: Late | None, root: Path) -> None:
        self._late = late
        self._root = root
        self._links: list[int] = []
        self._is_asked = False
        self.refusal = ""

    def is_due(self) -> bool:
        """Whether to ask for it now: once each time the module comes into use.

        Lets go of the module when it is used no more.
        """
        if self._late is None or not self._late.is_wanted(self._root):
            self.close()
            return False
        is_due = not self._is_asked
        self._is_asked = True
        return is_due

    def take(self, links: Sequence[int], reason: str) -> None:
        """The loader's answer; links that came too late are closed."""
        if not self._is_asked or self._links:
            for fd in links:
                os.close(fd)
            return
        self._links = list(links)
        self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """Keep why it cannot be had, with what is missing for it; "" when it can."""
        if self._late is not None:
            self.refusal = f"{self._late.without}: {reason}" if reason else ""

    def close(self) -> None:
        """Detach it."""
        for fd in self._links:
            os.close(fd)
        self._links = []
        self._is_asked = False
        self.refusal = ""
