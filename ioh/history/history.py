"""The past of one machine: its intervals by number, over a recording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ioh.history.findings_cache import FindingsCache
from ioh.history.mean import mean_of
from ioh.model.closing import Closing
from ioh.model.player import Extent, IsWanted, Mean, Means, Overview, TimelineEvent
from ioh.model.snapshot import Snapshot
from ioh.playback.cursor import Cursor, walk
from ioh.session.reader import Recording


class BaseHistory(Closing):
    """A History of a Recording; interval ``n`` is between the samples ``n - 1`` and ``n``."""

    def __init__(self, recording: Recording, name: str, title: str, cycle_s: float) -> None:
        self.name, self.title, self.cycle_s = name, title, cycle_s
        self._visits = Cursor(recording)
        self._judgements = FindingsCache()
        self._names: frozenset[str] | None = None  # of the layers to show; None for all
        self._extent = Extent()

    @property
    def extent(self) -> Extent:
        """The intervals that can be visited now."""
        return self._extent

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by number; None if it is lost or no longer kept."""
        snapshot = self._interval(self._visits, tick)
        return None if snapshot is None else self._judgements.onto(tick, snapshot)

    def _interval(self, cursor: Cursor, tick: int) -> Snapshot | None:
        extent = self._extent
        if not extent.first <= tick <= extent.last:
            return None
        snapshot = cursor.snapshot(tick)
        return None if snapshot is None else self.select_layers(snapshot)

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """As visit(): intervals are judged when they are reported."""
        del is_wanted
        return self.visit(tick)

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        """Yield intervals, much faster than visit(); tables and parts only if ``is_whole``."""
        extent = self._extent
        first, last = max(first, extent.first), min(last, extent.last)
        intervals = walk(self._visits.session, first, last, is_whole=is_whole)
        return ((tick, self.select_layers(snapshot)) for tick, snapshot in intervals)

    def means(self, begin: int, last: int, is_wanted: IsWanted) -> Means:
        """The intervals from ``begin`` to ``last`` as one, and as many before them."""
        before = 2 * begin - last - 1
        return self._mean(begin, last, is_wanted), self._mean(before, begin - 1, is_wanted)

    def _mean(self, first: int, last: int, is_wanted: IsWanted) -> Mean | None:
        extent = self._extent
        first, last = max(first, extent.first), min(last, extent.last)
        mean = mean_of(self._visits.session, first, last, is_wanted) if first <= last else None
        return None if mean is None else replace(mean, snapshot=self.select_layers(mean.snapshot))

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends by a time, within the extent."""
        return self._extent.nearest(self._visits.session.tick_at(time_unix_s))

    def moments(self) -> tuple[TimelineEvent, ...]:
        """The marks and gaps kept, by time."""
        raise NotImplementedError

    def overview(self) -> Overview:
        """The findings of all intervals kept."""
        raise NotImplementedError

    def note(self, moment: TimelineEvent) -> None:
        """Add a mark or a gap to the time line; thread-safe."""
        raise NotImplementedError

    def select_layers(self, snapshot: Snapshot) -> Snapshot:
        """Keep only the layers to show."""
        names = self._names
        if names is None:
            return replace(snapshot, name=self.name) if self.name else snapshot
        layers = {name: layer for name, layer in snapshot.layers.items() if name in names}
        specs = {name: snapshot.specs[name] for name in layers}
        return replace(snapshot, layers=layers, specs=specs, name=self.name)
