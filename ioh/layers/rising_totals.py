"""Running totals whose parts are read one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any


class RisingTotals:
    """Totals that never fall.

    Operations that have ended and those in progress are read one after the other.  One that ends
    in between is in neither reading.  Then the total stays as it was, and the next reading has it.
    """

    def __init__(self) -> None:
        self._totals: defaultdict[Hashable, int] = defaultdict(int)

    def at_least(self, key: Hashable, now: int) -> int:
        """The total: ``now``, or that of an earlier reading."""
        self._totals[key] = max(self._totals[key], now)
        return self._totals[key]

    def forget(self, is_gone: Callable[[Any], bool]) -> None:
        """Drop the totals of these keys."""
        for key in [key for key in self._totals if is_gone(key)]:
            del self._totals[key]
