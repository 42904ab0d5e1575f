"""The time of operations as it passes: not only that of ended ones, all at their end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable


class AccruedTime:
    """Running totals for OpTotals.weighted_ns_total."""

    def __init__(self) -> None:
        self._totals: defaultdict[Hashable, int] = defaultdict(int)

    def total(self, key: Hashable, ended_ns: int, open_ns: int | None) -> int | None:
        """The time of all operations so far; it never falls.

        Args:
            key: The op.
            ended_ns: The running total of the time of operations that ended, in any way.
            open_ns: How long those that have not ended have been open; None if not known.
        """
        if open_ns is None:
            return None
        # One that ended between the two readings is in neither until the next.
        self._totals[key] = max(self._totals[key], ended_ns + open_ns)
        return self._totals[key]
