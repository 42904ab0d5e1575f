"""Intervals of a recording by their numbers: for a screen that steps and jumps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ioh.model.intervals import interval
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.session.reader import Recording
from ioh.session.stream import Item, Tick

# Samples read on from the last position rather than from a whole one, which lies farther away.
_NEAR_TICKS = 16
# Who steps back goes on so: the samples before are kept on the way from the whole one to the one.
# Each is built for it, so the first time they are few: it may have been the one step.
_FEW_BACK, _BACK_TICKS = 4, 16
_KEPT = _BACK_TICKS + 4


class Cursor:
    """Keeps what a step on or back from the last interval needs; used by one thread."""

    def __init__(self, session: Recording) -> None:
        self.session = session
        self._kept: dict[int, Sample] = {}
        self._ahead: Iterator[Tick] = iter(())
        self._ahead_tick = -1  # number of the sample that it gave last
        self._goes_back = False

    def snapshot(self, tick: int) -> Snapshot | None:
        """The interval that ends with a sample; None at the first one, or where it is lost."""
        return self.between(tick - 1, tick)

    def between(self, begin: int, end: int) -> Snapshot | None:
        """What happened between two samples; None where one of them is not there, or lost."""
        if begin < 0:
            return None
        older, newer = self._sample(begin), self._sample(end)
        return None if newer is None else interval(older, newer)

    def _sample(self, tick: int) -> Sample | None:
        found = self._kept.get(tick) or self._read_on(tick)
        if found is None:
            steps_back = tick + 1 in self._kept or tick + 2 in self._kept
            back = (_BACK_TICKS if self._goes_back else _FEW_BACK) if steps_back else 0
            begin, self._goes_back = max(self.session.first_tick, tick - back), steps_back
            self._ahead, self._ahead_tick = self.session.ticks(begin), begin - 1
            # Where the records right there are damaged, others may lead there too.
            found = self._read_on(tick) or self.session.sample_at(tick)
        if found is not None:
            self._keep(tick, found)
        return found

    def _keep(self, tick: int, sample: Sample) -> None:
        self._kept.pop(tick, None)
        self._kept[tick] = sample
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    def _read_on(self, tick: int) -> Sample | None:
        if not self._ahead_tick < tick <= self._ahead_tick + _NEAR_TICKS + 1:
            return None
        for item in self._ahead:
            self._ahead_tick = item.tick
            if item.tick >= tick:
                return item.sample if item.tick == tick else None
            self._keep(item.tick, item.sample)
        return None


def consecutive(items: Iterable[Item]) -> Iterator[tuple[Tick, Tick]]:
    """Each sample with the one after it; none of a pair of which one is lost."""
    older: Tick | None = None
    for newer in items:
        if isinstance(newer, Tick):
            if older is not None and newer.tick == older.tick + 1:
                yield older, newer
            older = newer


def walk(
    session: Recording, first: int, last: int, *, is_whole: bool = False
) -> Iterator[tuple[int, Snapshot]]:
    """The intervals that end with the samples ``first`` to ``last``, each with its number.

    Those with a lost sample at either end are left out.  ``is_whole``: with tables and parts,
    which takes much longer where those are large.
    """
    if last < first:
        return
    for older, newer in consecutive(session.ticks(max(0, first - 1), is_brief=not is_whole)):
        if newer.tick > last:
            return
        found = interval(older.sample, newer.sample) if newer.tick >= first else None
        if found is not None:
            yield newer.tick, found
