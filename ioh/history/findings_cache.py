"""Findings by interval, kept so that going back shows them again."""

from __future__ import annotations

import pickle
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import TypeVar

from ioh.model.finding import Finding, NotEvaluated
from ioh.model.player import MAX_FINDINGS, FindingBegin, IsWanted, Overview
from ioh.model.snapshot import Pair, Snapshot
from ioh.pipeline import MakeJudge

BLOCK_TICKS = 64
MAX_BLOCKS = 1600  # 100,000 intervals: more than the history has, 28 hours at one a second
MAX_LOOK_BACK_TICKS = 600  # a minute at ten intervals a second, which takes two seconds to judge
# More than a time line can show; the findings themselves are found again on a visit.
MAX_BEGINS = 10_000
_Begin = tuple[str, str, float]  # rule, subject, since when
_T = TypeVar("_T")
_Judgement = tuple[tuple[Finding, ...], tuple[NotEvaluated, ...], tuple[Pair, ...]]
_Block = tuple[int, dict[int, _Judgement]]  # its number, and its intervals


def _shared(new: _T, last: _T) -> _T:
    """The last interval's object instead of an equal one: most are equal, and kept for hours."""
    return last if new == last else new


class FindingsCache:
    """Findings and pairs of hosts by interval number; thread-safe.

    Texts with numbers change in each interval, and an interval of them takes a kilobyte.  So
    they are packed, BLOCK_TICKS at a time; the oldest blocks are dropped first.
    """

    def __init__(self) -> None:
        self._packed: dict[int, bytes] = {}  # by block
        self._written: _Block = -1, {}
        self._read: _Block = -1, {}
        self._last: _Judgement = ((), (), ())
        self._lock = threading.Lock()

    def __contains__(self, tick: int) -> bool:
        return self._find(tick) is not None

    def keep(self, tick: int, judged: Snapshot, pairs: tuple[Pair, ...] = ()) -> None:
        """Keep an interval's findings."""
        last = self._last
        judgement = (
            _shared(judged.findings, last[0]),
            _shared(judged.not_evaluated, last[1]),
            _shared(pairs, last[2]),
        )
        self._last = _shared(judgement, last)
        number = tick // BLOCK_TICKS
        with self._lock:
            if number != self._written[0]:
                self._pack()
                self._written = number, self._unpacked(number)
            self._written[1][tick] = self._last

    def _pack(self) -> None:
        """Pack the block that was written."""
        number, judgements = self._written
        if judgements:
            self._packed.pop(number, None)
            self._packed[number] = zlib.compress(pickle.dumps(judgements))
            if len(self._packed) > MAX_BLOCKS:
                del self._packed[next(iter(self._packed))]
        if number == self._read[0]:
            self._read = -1, {}

    def _unpacked(self, number: int) -> dict[int, _Judgement]:
        packed = self._packed.get(number)
        # It is this process' own memory.
        return {} if packed is None else pickle.loads(zlib.decompress(packed))  # noqa: S301

    def _find(self, tick: int) -> _Judgement | None:
        number = tick // BLOCK_TICKS
        with self._lock:
            if number == self._written[0]:
                return self._written[1].get(tick)
            if number != self._read[0]:
                self._read = number, self._unpacked(number)
            return self._read[1].get(tick)

    def onto(self, tick: int, snapshot: Snapshot) -> Snapshot:
        """Add the findings of an interval to it, if known."""
        judgement = self._find(tick)
        if judgement is None:
            return snapshot
        findings, missing, pairs = judgement
        return replace(snapshot, findings=findings, not_evaluated=missing, pairs=pairs)

    def forget_before(self, tick: int) -> None:
        """Drop the blocks before the one of an interval."""
        with self._lock:
            oldest = tick // BLOCK_TICKS
            self._packed = {at: packed for at, packed in self._packed.items() if at >= oldest}
            if self._written[0] < oldest:
                self._written = -1, {}
            self._read = -1, {}


class KnownFindings:
    """When findings began, in order, and the newest findings themselves; used by one thread."""

    def __init__(self) -> None:
        self._begins: dict[_Begin, FindingBegin] = {}
        self._findings: dict[_Begin, Finding] = {}

    def add(self, finding: Finding, at_unix_s: float) -> bool:
        """Keep a finding's state in the interval that ends then.

        Returns whether the finding, or its severity, is new.
        """
        begin = finding.rule, finding.subject, finding.since_unix_s
        before = self._begins.get(begin)
        told_unix_s = at_unix_s if before is None else before.told_unix_s
        state = FindingBegin(finding.since_unix_s, finding.severity, told_unix_s)
        self._begins[begin], self._findings[begin] = state, finding
        for by_begin, most in ((self._begins, MAX_BEGINS), (self._findings, MAX_FINDINGS)):
            if len(by_begin) > most:
                del by_begin[next(iter(by_begin))]
        return before is None or before.severity != finding.severity

    def dated(self, finding: Finding, at_unix_s: float) -> Finding:
        """The finding with the time at which it began, if known."""
        which = finding.rule, finding.subject
        begins = (since for rule, subject, since in self._begins if (rule, subject) == which)
        before = [since for since in begins if since <= at_unix_s]
        return replace(finding, since_unix_s=max(before, default=finding.since_unix_s))

    def overview(self, until_unix_s: float, *, is_under_way: bool = False) -> Overview:
        """All findings known; ``until_unix_s`` is how far was searched."""
        begins = tuple(self._begins.values())
        return Overview(begins, until_unix_s, is_under_way, tuple(self._findings.values()))


class Rejudge:
    """Judges single intervals as they were judged live, after those that rules look back at.

    ``visit`` returns an interval by number, None if it is lost; ``cycle_s`` is the requested
    interval.
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
        """Judge one interval, continuing from the last one if that is near.

        ``first`` is the first interval available.  ``is_wanted`` is called before each interval
        with the number still to be judged; False ends the search.  Returns None if it is lost, no
        longer wanted, or there is no judge.
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
        """The first interval that affects the findings of another one."""
        return max(first, tick - self._look_back)
