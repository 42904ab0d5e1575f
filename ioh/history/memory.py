"""The past of a machine as far as a running view has seen it, in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from ioh.history.findings_cache import KnownFindings
from ioh.history.history import BaseHistory
from ioh.history.memory_recording import MemoryRecording
from ioh.model.errors import IohError
from ioh.model.pairs import HostInterval
from ioh.model.player import Extent, Overview, TimelineEvent
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot

MAX_MOMENTS = 10_000


class MemoryHistory(BaseHistory):
    """A History of the newest ``max_bytes`` of intervals.

    One thread adds intervals, another one visits them.
    """

    def __init__(self, name: str, title: str, cycle_s: float, max_bytes: int) -> None:
        self._recording = MemoryRecording(max_bytes)
        super().__init__(self._recording, name, title, cycle_s)
        self._newest: Sample | None = None
        self._over_gaps: set[int] = set()  # intervals that span a gap
        self._lock = threading.Lock()
        self._moments: list[TimelineEvent] = []
        self._findings = KnownFindings()
        self._judged_unix_s = 0.0

    def close(self) -> None:
        """Free the memory."""
        self._recording.close()

    def add(self, interval: HostInterval) -> int:
        """Keep an interval; return its number.  IohError: there is no memory for it."""
        if interval.samples is None:
            raise LookupError
        older, newer = interval.samples
        if older is not self._newest:
            tick = self._keep(older)
            if (newest := self._newest) is not None:
                self._over_gaps.add(tick)
                gap = TimelineEvent(newest.time_unix_s, "not measured", older.time_unix_s)
                self.note(gap)
        self._newest = newer
        return self._keep(newer)

    def judged(self, tick: int, snapshot: Snapshot) -> None:
        """Keep the findings of an interval, and the pairs of hosts in it."""
        self._judgements.keep(tick, snapshot, snapshot.pairs)
        self._over_gaps = {each for each in self._over_gaps if each >= self._extent.first}

    def note_findings(self, judged: Snapshot) -> None:
        """Take the machine's own findings into the overview."""
        with self._lock:
            self._judged_unix_s = judged.time_unix_s
            for finding in judged.findings:
                self._findings.add(finding, judged.time_unix_s)

    def _keep(self, sample: Sample) -> int:
        if not self._recording.write(sample):
            cause = "no memory left for the history"
            raise IohError(cause, "End other programs, or use ioh text")
        self._publish()
        return len(self._recording) - 1

    def end(self) -> None:
        """No interval will be added any more."""
        with self._lock:
            self._extent = replace(self._extent, is_growing=False)

    def _publish(self) -> None:
        """Update the extent, and drop what is before it."""
        recording = self._recording
        begin, start_s = recording.first_tick, recording.start_unix_s
        with self._lock:
            if begin >= self._extent.first:
                self._judgements.forget_before(begin + 1)
                self._moments = [
                    m for m in self._moments if (m.until_unix_s or m.time_unix_s) >= start_s
                ]
            last, end_s = len(recording) - 1, recording.end_unix_s
            self._extent = Extent(begin + 1, last, start_s, end_s)

    def visit(self, tick: int) -> Snapshot | None:
        """One interval; None if it is lost, or the machine was not connected."""
        return None if tick in self._over_gaps else super().visit(tick)

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        """Yield intervals, except those in which the machine was not connected."""
        intervals = super().walk(first, last, is_whole=is_whole)
        return (each for each in intervals if each[0] not in self._over_gaps)

    def moments(self) -> tuple[TimelineEvent, ...]:
        """The marks and gaps kept, by time."""
        with self._lock:
            return tuple(sorted(self._moments, key=lambda moment: moment.time_unix_s))

    def overview(self) -> Overview:
        """The findings of all intervals reported."""
        with self._lock:
            return self._findings.overview(self._judged_unix_s)

    def note(self, moment: TimelineEvent) -> None:
        """Add a mark or a gap to the time line; thread-safe."""
        with self._lock:
            if len(self._moments) < MAX_MOMENTS:
                self._moments.append(moment)
