"""What was found in each interval, kept by its number, so that going back finds it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from ioh.model.feed import MAX_FOUND, IsWanted, Overview
from ioh.model.finding import Finding, NotEvaluated
from ioh.model.snapshot import Pair, Snapshot
from ioh.pipeline import Judge

MAX_KEPT = 100_000
MAX_LOOK_BACK_TICKS = 600  # at ten intervals a second a minute, which takes two seconds to judge
# More than a time line can show; what they are is found again where one goes.
MAX_BEGINS = 10_000
_Begin = tuple[str, str, float]  # rule, subject, since when
_Judgement = tuple[tuple[Finding, ...], tuple[NotEvaluated, ...], tuple[Pair, ...]]


MakeJudge = Callable[[], "Judge | None"]


def no_judge() -> None:
    """For feeds that nobody judges."""


class FindingsCache:
    """Findings, and pairs of hosts, by the number of their interval; the first ones go first."""

    def __init__(self) -> None:
        self._kept: dict[int, _Judgement] = {}
        self._last: _Judgement = ((), (), ())

    def __contains__(self, tick: int) -> bool:
        return tick in self._kept

    def keep(self, tick: int, judged: Snapshot, pairs: tuple[Pair, ...] = ()) -> None:
        """Note what was found in an interval; most of them say what the one before said."""
        made = (judged.findings, judged.not_evaluated, pairs)
        self._last = self._last if made == self._last else made
        self._kept[tick] = self._last
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    def onto(self, tick: int, snapshot: Snapshot) -> Snapshot:
        """The interval with what was found in it, where that is known."""
        found = self._kept.get(tick)
        if found is None:
            return snapshot
        return replace(snapshot, findings=found[0], not_evaluated=found[1], pairs=found[2])

    def forget_before(self, tick: int) -> None:
        """Drop what cannot be visited any more."""
        while self._kept and (oldest := next(iter(self._kept))) < tick:
            del self._kept[oldest]


class KnownFindings:
    """When findings began, in the order found, and the newest of them whole; used by one thread."""

    def __init__(self) -> None:
        self._begins: dict[_Begin, None] = {}
        self._found: dict[_Begin, Finding] = {}

    def add(self, finding: Finding) -> bool:
        """Note a finding as it is now; whether it has only begun."""
        begin = finding.rule, finding.subject, finding.since_unix_s
        is_new = begin not in self._begins
        self._begins[begin], self._found[begin] = None, finding
        for kept, most in ((self._begins, MAX_BEGINS), (self._found, MAX_FOUND)):
            if len(kept) > most:
                del kept[next(iter(kept))]
        return is_new

    def dated(self, finding: Finding, at_unix_s: float) -> Finding:
        """The same with the time at which it began, as far as that is known."""
        which = finding.rule, finding.subject
        begins = (since for rule, subject, since in self._begins if (rule, subject) == which)
        before = [since for since in begins if since <= at_unix_s]
        return replace(finding, since_unix_s=max(before, default=finding.since_unix_s))

    def overview(self, until_unix_s: float, *, is_under_way: bool = False) -> Overview:
        """All that is known, ``until_unix_s`` being how far was looked."""
        begins = tuple(since for *_, since in self._begins)
        return Overview(begins, until_unix_s, is_under_way, tuple(self._found.values()))


class Rejudge:
    """Judges single intervals as they were judged live: after those that its rules look back at.

    ``visit`` gives an interval by its number, None where it is lost; ``cycle_s`` as asked for.
    """

    def __init__(
        self, visit: Callable[[int], Snapshot | None], make_judge: MakeJudge, cycle_s: float
    ) -> None:
        self._visit, self._make_judge = visit, make_judge
        self._judge = make_judge()
        look_back_s = 0.0 if self._judge is None else self._judge.look_back_s
        self._look_back = min(MAX_LOOK_BACK_TICKS, ceil(look_back_s / cycle_s))
        self._begin, self._last = 1, 0  # judged without a gap

    def judge(self, tick: int, first: int, is_wanted: IsWanted) -> Snapshot | None:
        """One interval judged; a later one, or the same again, goes on where the last one ended.

        ``first`` is the first interval there is.  ``is_wanted`` is asked before each, given how
        many are yet to be judged; False ends it.

        Returns:
            None where it is lost, not wanted any more, or nobody judges.
        """
        begin = self.begin_for(tick, first)
        if not (self._begin <= begin <= self._last + 1 <= tick):
            self._judge, self._begin, self._last = self._make_judge(), begin, begin - 1
        judged: Snapshot | None = None
        while self._judge is not None and self._last < tick:
            if not is_wanted(tick - self._last):
                return None
            snapshot = self._visit(self._last + 1)
            self._last += 1
            judged = None if snapshot is None else self._judge.judge(snapshot)
        return judged

    def begin_for(self, tick: int, first: int) -> int:
        """The first interval on which depends what is found in another one."""
        return max(first, tick - self._look_back)
