"""Whose turn it is to be looked at again, of what is at work: a few of them in each tick."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from heapq import nsmallest
from typing import Generic, TypeVar

Id = TypeVar("Id", bound=Hashable)

_KEPT_TICKS = 5  # beyond the rest, of what is not at work
_SPARE = 256


class RoundRobin(Generic[Id]):
    """What was looked at longest ago comes first.

    Args:
        most: As many in one tick.
        rest: Ticks in which none is looked at again.
        is_known: Whether what is new was looked at just now, by others; else it comes first.
    """

    def __init__(self, most: int, rest: int, *, is_known: bool) -> None:
        self._most, self._rest, self._is_known = most, rest, is_known
        self._looked: dict[Id, int] = {}

    def take(self, at_work: Collection[Id], tick: int) -> list[Id]:
        """Those that are to be looked at now."""
        looked, new = self._looked, tick if self._is_known else 0
        for what in at_work:
            looked.setdefault(what, new)
        due = [what for what in at_work if tick - looked[what] >= self._rest]
        chosen = nsmallest(self._most, due, key=looked.__getitem__)
        looked.update(dict.fromkeys(chosen, tick))
        if len(looked) > 2 * len(at_work) + _SPARE:
            oldest = tick - self._rest - _KEPT_TICKS
            self._looked = {
                what: when for what, when in looked.items() if when > oldest or what in at_work
            }
        return chosen
