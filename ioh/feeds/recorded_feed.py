"""The base of all feeds: a thread that can be ended, and a recording to visit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from ioh.feeds.findings_cache import FindingsCache
from ioh.model.closing import Closing
from ioh.model.feed import Extent, FeedEnded, Mode, News
from ioh.model.snapshot import Snapshot
from ioh.playback.cursor import Cursor, walk
from ioh.session.reader import Recording

JOIN_TIMEOUT_S = 5.0


class RunningFeed(Closing):
    """Reports intervals from run() until it is stopped; a context manager that ends it."""

    def __init__(self) -> None:
        self._is_stopped = self._ends_screen = False
        self._is_running = threading.Lock()

    def run(self, report: Callable[[News], None]) -> None:
        """Read until stop(); report every interval once."""
        with self._is_running:
            try:
                if not self._is_stopped:
                    self._report(report)
            except BaseException as error:  # noqa: BLE001 (raised again by the screen's thread)
                report(News(error=error, is_over=True))
            else:
                if self._ends_screen:
                    report(News(error=FeedEnded(), is_over=True))

    def _report(self, report: Callable[[News], None]) -> None:
        """The body of run()."""
        raise NotImplementedError

    def _release(self) -> None:
        """Close what run() uses, after it has ended."""
        raise NotImplementedError

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""
        self._is_stopped = True

    def end(self) -> None:
        """End run() soon, and the screen with it; safe to call from a signal handler."""
        self._ends_screen = True
        self.stop()

    def close(self) -> None:
        """End run(), whichever thread it is in, and release what it used."""
        self.stop()
        if self._is_running.acquire(timeout=JOIN_TIMEOUT_S):
            self._is_running.release()
            self._release()


class RecordedFeed(RunningFeed):
    """A Feed whose intervals can be visited; ``n`` is between the samples ``n - 1`` and ``n``."""

    def __init__(self, mode: Mode, kept: Recording) -> None:
        super().__init__()
        self.mode = mode
        self._visits = Cursor(kept)
        self._judgements = FindingsCache()
        self._names: frozenset[str] | None = None  # of the layers to show; None for all
        self._extent = Extent()

    @property
    def extent(self) -> Extent:
        """The intervals that can be visited now."""
        return self._extent

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by number; None if it is lost or no longer kept."""
        found = self._interval(self._visits, tick)
        return None if found is None else self._judgements.onto(tick, found)

    def _interval(self, cursor: Cursor, tick: int) -> Snapshot | None:
        extent = self._extent
        if not extent.first <= tick <= extent.last:
            return None
        found = cursor.snapshot(tick)
        return None if found is None else self.chosen(found)

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        """Yield intervals, much faster than visit(); tables and parts only if ``is_whole``."""
        extent = self._extent
        first, last = max(first, extent.first), min(last, extent.last)
        found = walk(self._visits.session, first, last, is_whole=is_whole)
        return ((tick, self.chosen(snapshot)) for tick, snapshot in found)

    def chosen(self, snapshot: Snapshot) -> Snapshot:
        """Keep only the layers to show."""
        names = self._names
        if names is None:
            return snapshot
        layers = {name: layer for name, layer in snapshot.layers.items() if name in names}
        specs = {name: snapshot.specs[name] for name in layers}
        return replace(snapshot, layers=layers, specs=specs)
