"""The screen's feed of samples from a live source: this machine, the demo, or a pipe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from ioh.feeds.findings_cache import KnownFindings, MakeJudge, no_judge
from ioh.feeds.memory_recording import MemoryRecording
from ioh.feeds.recorded_feed import RecordedFeed
from ioh.feeds.screen_recorder import ScreenRecorder
from ioh.model.errors import IohError
from ioh.model.feed import (
    Extent,
    IsWanted,
    Mode,
    News,
    Overview,
    RecordingState,
    TimelineEvent,
)
from ioh.model.intervals import ChooseLayers, Intervals, all_layers
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot

HISTORY_BYTES = 16_000_000
MAX_MOMENTS = 10_000


class StreamFeed(RecordedFeed):
    """A Feed of any samples, the last ``history_bytes`` of which are kept in memory.

    Closing it also ends a recording that the user started.

    Args:
        samples: The source, iterated in run()'s thread only.
        stop: Ends that iteration soon; called from any thread.
        mode: Shown in the header.
        cycle_s: The requested interval; may be set later.
        hostname: For the name of a recording, unescaped; may be set later.
        title: Of what is played, printable; "" if it is live.
        choose: Chooses the layers to show.
        awaited: Names of layers that are not ready yet, for the status line.
        sample_soon: Requests a sample now, if the source can take one.
        set_speed: Sets the speed, if the source has one.
        set_cycle: Changes the interval, if the source can.
        run_s: End the screen after this time; None for never.
        make_judge: Makes the judge of intervals.
        remark: A printable status for an interval if nothing is more urgent, or "".
        history_bytes: The limit of the history in memory.
    """

    can_play = False

    def __init__(  # noqa: PLR0913
        self,
        samples: Iterable[Sample],
        stop: Callable[[], None],
        *,
        mode: Mode,
        cycle_s: float,
        hostname: str,
        title: str = "",
        choose: ChooseLayers = all_layers,
        awaited: Callable[[], tuple[str, ...]] = tuple,
        sample_soon: Callable[[], None] | None = None,
        set_speed: Callable[[float], None] = lambda _: None,
        set_cycle: Callable[[float], None] | None = None,
        run_s: float | None = None,
        make_judge: MakeJudge = no_judge,
        remark: Callable[[Snapshot], str] = lambda _: "",
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        self._history = MemoryRecording(history_bytes)
        super().__init__(mode, self._history)
        self.title, self.cycle_s, self.hostname = title, cycle_s, hostname
        self._stop_source = stop
        self._choose, self._awaited, self.set_speed = choose, awaited, set_speed
        self._set_cycle, self._run_s, self._remark = set_cycle, run_s, remark
        self._judge = make_judge()
        self._samples, self._recorder = samples, ScreenRecorder(self.mark, sample_soon)
        self._lock = threading.Lock()
        self._moments: list[TimelineEvent] = []
        self._known = KnownFindings()
        self._judged_unix_s = 0.0
        # Filled by stop().  An Event would deadlock in a signal handler that interrupts its set().
        self._stops = SimpleQueue[None]()

    def close(self) -> None:
        """End run(), whichever thread it is in, and close the recording properly."""
        super().close()
        self._recorder.close()

    def _release(self) -> None:
        self._history.close()

    @property
    def recording(self) -> RecordingState:
        """The state of the recording by key R."""
        return self._recorder.state

    def _report(self, report: Callable[[News], None]) -> None:
        """Read; if the samples end by themselves, wait for stop()."""
        try:
            self._read(report)
        finally:
            self._recorder.close()
            self._publish(is_growing=False)
        if not self._is_stopped:
            report(News(status="the end", is_over=True))
            self._stops.get()

    def _read(self, report: Callable[[News], None]) -> None:
        """Report every interval."""
        if status := self._status():
            report(News(status=status))
        elapsed_s = 0.0
        intervals = Intervals(self._choose)
        for sample in self._samples:
            self._recorder.write(sample)
            found = intervals.take(sample)
            tick = self._keep(intervals.newest)
            if found is not None:
                snapshot = self._judged(found)
                if self._judge is not None:
                    self._judgements.keep(tick, snapshot)
                elapsed_s += snapshot.interval_s
                report(News(tick, snapshot, self._status() or self._remark(snapshot)))
                if self._run_s is not None and elapsed_s >= self._run_s - snapshot.interval_s / 10:
                    self.end()
            elif status := self._status():
                report(News(status=status))
            if self._is_stopped:
                return

    def _judged(self, snapshot: Snapshot) -> Snapshot:
        if self._judge is None:
            return snapshot
        judged = self._judge.judge(snapshot)
        with self._lock:
            self._judged_unix_s = judged.time_unix_s
            for finding in judged.findings:
                self._known.add(finding)
        return judged

    def _status(self) -> str:
        """The present status line, or ""."""
        if line := self._recorder.failure_line():
            return line
        waiting = ", ".join(self._awaited())
        return f"compiling the probes: {waiting}" if waiting else ""

    def _keep(self, sample: Sample) -> int:
        """Add a sample to the history; return its number.  IohError: there is no memory for it."""
        if not self._history.write(sample):
            cause = "no memory left for the history"
            raise IohError(cause, "End other programs, or use ioh text")
        self._publish(is_growing=True)
        return len(self._history) - 1

    def _publish(self, *, is_growing: bool) -> None:
        """Update the extent, and drop what is before it."""
        history = self._history
        if not len(history):
            return
        begin, start_s = history.first_tick, history.start_unix_s
        with self._lock:
            if begin >= self._extent.first:
                self._judgements.forget_before(begin + 1)
                self._moments = [
                    m for m in self._moments if (m.until_unix_s or m.time_unix_s) >= start_s
                ]
            last, end_s = len(history) - 1, history.end_unix_s
            self._extent = Extent(begin + 1, last, start_s, end_s, is_growing=is_growing)

    def stop(self) -> None:
        """End run() soon."""
        super().stop()
        self._stop_source()
        self._stops.put(None)

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """As visit(): intervals are judged when they are reported."""
        del is_wanted
        return self.visit(tick)

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends by a time, within the extent."""
        return self._extent.nearest(self._history.tick_at(time_unix_s))

    def moments(self) -> tuple[TimelineEvent, ...]:
        """The marks and gaps of the history, by time."""
        with self._lock:
            return tuple(sorted(self._moments, key=lambda moment: moment.time_unix_s))

    def overview(self) -> Overview:
        """The findings of all intervals reported."""
        with self._lock:
            return self._known.overview(self._judged_unix_s)

    def note(self, moment: TimelineEvent) -> None:
        """Add a mark or a gap to the time line; thread-safe."""
        with self._lock:
            if len(self._moments) < MAX_MOMENTS:
                self._moments.append(moment)

    def mark(self, text: str) -> None:
        """Add a mark now, for ``ioh mark``."""
        self.note(TimelineEvent(time.time(), printable(text)))

    def set_cycle(self, cycle_s: float) -> bool:
        """Change the interval, if the source can; return whether it did."""
        if self._set_cycle is None:
            return False
        self._set_cycle(cycle_s)
        self.cycle_s = cycle_s
        return True

    def play_from(self, tick: int) -> None:
        """Do nothing: a live source cannot be played again."""

    def hold(self) -> None:
        """Do nothing: a live source cannot be paused."""

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to the time line; one of now also to a running recording."""
        self.note(TimelineEvent(time_unix_s or time.time(), printable(text)))
        return self._recorder.mark(text) if time_unix_s is None else "marked"

    def toggle_recording(self) -> str:
        """Start or end a recording; return a printable line about it."""
        return self._recorder.toggle(self.hostname, self.cycle_s)
