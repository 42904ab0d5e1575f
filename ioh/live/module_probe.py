"""The part of an attached probe that runs only while its layer wants it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioh.layers.base import Layer


class ModuleProbe:
    """When to ask the loader for it, and the descriptors that keep it attached.

    Shape:
        ``refusal`` says why it cannot be had, ``""`` where it can or is not wanted.
    """

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._links: list[int] = []
        self._is_asked = False
        self.refusal = ""

    def is_due(self) -> bool:
        """Whether to ask for it now: once each time that the layer begins to want it.

        Lets go of it, and of the module that it holds, when it is wanted no more.
        """
        if self._layer.late is None or not self._layer.wants_late():
            self.close()
            return False
        is_due = not self._is_asked
        self._is_asked = True
        return is_due

    @property
    def is_pending(self) -> bool:
        """Whether the loader owes an answer."""
        return self._is_asked and not (self._links or self.refusal)

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
        if self._layer.late is not None:
            self.refusal = f"{self._layer.late.without}: {reason}" if reason else ""

    def close(self) -> None:
        """Detach it."""
        for fd in self._links:
            os.close(fd)
        self._links = []
        self._is_asked = False
        self.refusal = ""
