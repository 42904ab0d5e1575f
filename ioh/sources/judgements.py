"""What the rules found in each interval, kept by its number, so that going back finds it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ioh.model.finding import Finding, NotEvaluated
from ioh.model.snapshot import Snapshot

MAX_KEPT = 100_000
# Rules look back at most so many seconds, and hold a verdict back for some.
WINDOW_TICKS = 15
_Judgement = tuple[tuple[Finding, ...], tuple[NotEvaluated, ...]]


class Judge(Protocol):
    """Judges intervals one after another, as findings.Engine does."""

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """The same with what the rules find."""
        ...


MakeJudge = Callable[[], "Judge | None"]


def no_judge() -> None:
    """For feeds that nobody judges."""


class Judgements:
    """Findings by the number of their interval; the ones entered first are dropped first."""

    def __init__(self) -> None:
        self._kept: dict[int, _Judgement] = {}
        self._last: _Judgement = ((), ())

    def __contains__(self, tick: int) -> bool:
        return tick in self._kept

    def keep(self, tick: int, judged: Snapshot) -> None:
        """Note what was found in an interval; most of them say what the one before said."""
        made = (judged.findings, judged.not_evaluated)
        self._last = self._last if made == self._last else made
        self._kept[tick] = self._last
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    def onto(self, tick: int, snapshot: Snapshot) -> Snapshot:
        """The interval with what was found in it, where that is known."""
        found = self._kept.get(tick)
        if found is None:
            return snapshot
        return replace(snapshot, findings=found[0], not_evaluated=found[1])

    def forget_before(self, tick: int) -> None:
        """Drop what cannot be visited any more."""
        while self._kept and (oldest := next(iter(self._kept))) < tick:
            del self._kept[oldest]
