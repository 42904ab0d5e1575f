"""Read intervals of a recording by number, for a screen that steps and jumps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ioh.model.intervals import interval
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.session.reader import Recording
from ioh.session.stream import Item, Tick

# Up to this distance, read on from the last position instead of from the last whole sample.
_NEAR_TICKS = 16
# One step back is usually followed by more, so the samples before are kept as well.  Building them
# costs time: few after the first step, more after the second.
_FEW_BACK, _BACK_TICKS = 4, 16
_MOST_RECENT = _BACK_TICKS + 4


class Cursor:
    """Keeps the samples for steps forward and back from the last interval; used by one thread."""

    def __init__(self, session: Recording) -> None:
        self.session = session
        self._recent: dict[int, Sample] = {}
        self._ahead: Iterator[Tick] = iter(())
        self._ahead_tick = -1  # number of the last sample from it
        self._goes_back = False

    def snapshot(self, tick: int) -> Snapshot | None:
        """The interval that ends with a sample; None for the first one, or if it is lost."""
        return self.between(tick - 1, tick)

    def between(self, begin: int, end: int) -> Snapshot | None:
        """The interval between two samples; None if one of them is missing or lost."""
        if begin < 0:
            return None
        older, newer = self._sample(begin), self._sample(end)
        return None if newer is None else interval(older, newer)

    def _sample(self, tick: int) -> Sample | None:
        sample = self._recent.get(tick) or self._read_on(tick)
        if sample is None:
            steps_back = tick + 1 in self._recent or tick + 2 in self._recent
            back = (_BACK_TICKS if self._goes_back else _FEW_BACK) if steps_back else 0
            begin, self._goes_back = max(self.session.first_tick, tick - back), steps_back
            self._ahead, self._ahead_tick = self.session.ticks(begin), begin - 1
            # If records on the way are damaged, try from another whole sample.
            sample = self._read_on(tick) or self.session.sample_at(tick)
        if sample is not None:
            self._keep(tick, sample)
        return sample

    def _keep(self, tick: int, sample: Sample) -> None:
        self._recent.pop(tick, None)
        self._recent[tick] = sample
        while len(self._recent) > _MOST_RECENT:
            del self._recent[next(iter(self._recent))]

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
    """Yield each pair of consecutive samples; skip pairs with a lost sample between."""
    older: Tick | None = None
    for newer in items:
        if isinstance(newer, Tick):
            if older is not None and newer.tick == older.tick + 1:
                yield older, newer
            older = newer


def walk(
    session: Recording, first: int, last: int, *, is_whole: bool = False
) -> Iterator[tuple[int, Snapshot]]:
    """Yield the intervals that end with the samples ``first`` to ``last``, with their numbers.

    Intervals with a lost sample at either end are skipped.  ``is_whole`` adds tables and parts,
    which takes much longer if they are large.
    """
    if last < first:
        return
    for older, newer in consecutive(session.ticks(max(0, first - 1), is_brief=not is_whole)):
        if newer.tick > last:
            return
        snapshot = interval(older.sample, newer.sample) if newer.tick >= first else None
        if snapshot is not None:
            yield newer.tick, snapshot
