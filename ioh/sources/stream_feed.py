"""A screen's feed from samples that come by themselves: this machine, made-up load, or a pipe."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from ioh.model.closing import Closing
from ioh.model.derive import derive
from ioh.model.errors import IohError
from ioh.model.feed import (
    Extent,
    FeedEnded,
    IsWanted,
    Mode,
    Moment,
    News,
    Overview,
    RecordingState,
)
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.model.span import chosen_layers
from ioh.session.memory import MemoryRecording
from ioh.sources.judgements import Judgements, MakeJudge, no_judge
from ioh.sources.player import Player, walk
from ioh.sources.side_recording import SideRecording
from ioh.sources.tap import Tap

HISTORY_BYTES = 16_000_000
MAX_MOMENTS = 10_000
JOIN_TIMEOUT_S = 5.0


def all_layers(sample: Sample) -> None:
    """For feeds of whatever there is."""
    del sample


def no_remark(snapshot: Snapshot) -> str:
    """For feeds whose intervals speak for themselves."""
    del snapshot
    return ""


class StreamFeed(Closing):
    """What a Feed is, over any samples; keeps them in memory as far as HISTORY_BYTES go.

    Interval ``n`` lies between the samples ``n - 1`` and ``n``.  A context manager: leaving it
    ends run(), wherever that runs, and with it the recording.

    Args:
        samples: The source, iterated in run()'s thread only.
        stop: Ends that iteration soon; called from any thread.
        mode: What the header says.
        cycle_s: Time between two samples as asked for; may be set later.
        hostname: For the name of a recording, as it comes; may be set later.
        title: Of what is played, printable; "" where it is live.
        choose: The layers to show, of those in the first sample; None for all.
        awaited: Names of layers that are not there yet, for the status line.
        sample_soon: Asks for a sample at once, where the source can take one.
        set_speed: Takes the speed where the source has one.
        run_s: End the screen after so much time; None for never.
        make_judge: Makes what finds what is wrong.
        remark: What to say with an interval where nothing more urgent is, printable; or "".
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
        choose: Callable[[Sample], frozenset[str] | None] = all_layers,
        awaited: Callable[[], tuple[str, ...]] = tuple,
        sample_soon: Callable[[], None] | None = None,
        set_speed: Callable[[float], None] | None = None,
        run_s: float | None = None,
        make_judge: MakeJudge = no_judge,
        remark: Callable[[Snapshot], str] = no_remark,
    ) -> None:
        self.mode, self.title, self.cycle_s, self.hostname = mode, title, cycle_s, hostname
        self._stop_source = stop
        self._choose, self._awaited, self._set_speed = choose, awaited, set_speed
        self._run_s, self._remark = run_s, remark
        self._judge, self._judgements = make_judge(), Judgements()
        self._tap = Tap(samples)
        self._recording = SideRecording(self._tap, self.mark, sample_soon)
        self._history = MemoryRecording(HISTORY_BYTES)
        self._visits = Player(self._history)
        self._lock = threading.Lock()
        self._moments: list[Moment] = []
        self._begins: dict[tuple[str, str, float], float] = {}  # of findings
        self._judged_unix_s = 0.0
        self._times = array("d")  # of samples from _times_from on, never falling
        self._times_from = 0
        self._extent = Extent()
        self._is_stopped = self._ends_screen = False
        self._stopped = threading.Event()
        self._is_running = threading.Lock()

    def close(self) -> None:
        """End run(), wherever that runs, and the recording in order."""
        self.stop()
        if self._is_running.acquire(timeout=JOIN_TIMEOUT_S):
            self._is_running.release()
            self._history.close()
        self._recording.close()

    @property
    def extent(self) -> Extent:
        """What can be visited now."""
        return self._extent

    @property
    def recording(self) -> RecordingState:
        """The state of R."""
        return self._recording.state

    def run(self, tell: Callable[[News], None]) -> None:
        """Read until stop(); where the samples end by themselves, wait for it."""
        with self._is_running:
            failure: BaseException | None = None
            try:
                if not self._is_stopped:
                    self._read(tell)
            except BaseException as error:  # noqa: BLE001 (raised again by the screen's thread)
                failure = error
            self._recording.close()
            self._publish(is_growing=False)
            if failure is not None:
                tell(News(error=failure, is_over=True))
            elif not self._is_stopped:
                tell(News(status="the end", is_over=True))
                self._stopped.wait()
            if self._ends_screen:
                tell(News(error=FeedEnded(), is_over=True))

    def _read(self, tell: Callable[[News], None]) -> None:
        """Tell every interval."""
        if status := self._status():
            tell(News(status=status))
        names: frozenset[str] | None = None
        elapsed_s = 0.0
        older: Sample | None = None
        for whole in self._tap:
            names = self._choose(whole) if older is None else names
            newer = chosen_layers(whole, names)
            tick = self._keep(newer)
            if older is not None and newer.mono_ns > older.mono_ns:
                snapshot = self._judged(tick, derive(older, newer))
                elapsed_s += snapshot.interval_s
                tell(News(tick, snapshot, self._status() or self._remark(snapshot)))
                if self._run_s is not None and elapsed_s >= self._run_s - snapshot.interval_s / 10:
                    self.end()
            elif status := self._status():
                tell(News(status=status))
            older = newer
            if self._is_stopped:
                return

    def _judged(self, tick: int, snapshot: Snapshot) -> Snapshot:
        if self._judge is None:
            return snapshot
        judged = self._judge.judge(snapshot)
        self._judgements.keep(tick, judged)
        with self._lock:
            self._judged_unix_s = judged.time_unix_s
            for finding in judged.findings:
                key = (finding.rule, finding.subject, finding.since_unix_s)
                self._begins[key] = finding.since_unix_s
            while len(self._begins) > MAX_MOMENTS:
                del self._begins[next(iter(self._begins))]
        return judged

    def _status(self) -> str:
        """What the user should know now; "" for nothing."""
        if line := self._recording.failure_line():
            return line
        waiting = ", ".join(self._awaited())
        return f"compiling the probes: {waiting}" if waiting else ""

    def _keep(self, sample: Sample) -> int:
        """Put a sample into the history; returns its number.

        Raises:
            IohError: There is no memory for it.
        """
        if not self._history.write(sample):
            raise IohError("no memory left for the history", "End other programs, or use ioh text")  # noqa: EM101, TRY003
        now = sample.time_unix_s
        self._times.append(max(now, self._times[-1]) if self._times else now)
        self._publish(is_growing=True)
        return len(self._history) - 1

    def _publish(self, *, is_growing: bool) -> None:
        """Say what can be visited; moments before that are forgotten."""
        begin = self._history.first_tick
        with self._lock:
            if begin > self._times_from:
                self._times = self._times[begin - self._times_from :]
                self._times_from = begin
                self._judgements.forget_before(begin + 1)
                start = self._times[0] if self._times else 0.0
                self._moments = [
                    m for m in self._moments if (m.until_unix_s or m.time_unix_s) >= start
                ]
            if self._times:
                last = self._times_from + len(self._times) - 1
                times = (self._times[0], self._times[-1])
                self._extent = Extent(begin + 1, last, *times, is_growing=is_growing)

    def stop(self) -> None:
        """End run() soon."""
        self._is_stopped = True
        self._stop_source()
        self._stopped.set()

    def end(self) -> None:
        """End run() soon, and the screen with it; safe to call from a signal handler."""
        self._ends_screen = True
        self.stop()

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by its number; None where it is not kept any more."""
        extent = self._extent
        if not extent.first <= tick <= extent.last:
            return None
        self._visits.tick = tick
        found = self._visits.snapshot()
        return None if found is None else self._judgements.onto(tick, found)

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """As visit(): every interval was judged when it was told."""
        del is_wanted
        return self.visit(tick)

    def walk(self, first: int, last: int) -> Iterator[tuple[int, Snapshot]]:
        """Intervals without their tables and parts, much faster than visit() for each."""
        extent = self._extent
        return walk(self._history, max(first, extent.first), min(last, extent.last))

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends not later than a time, within the extent."""
        with self._lock:
            found = self._times_from + bisect_right(self._times, time_unix_s) - 1
            return max(self._extent.first, min(found, self._extent.last))

    def moments(self) -> tuple[Moment, ...]:
        """Marks and gaps of everything kept, by time."""
        with self._lock:
            return tuple(sorted(self._moments, key=lambda moment: moment.time_unix_s))

    def overview(self) -> Overview:
        """Every interval was judged when it was told."""
        with self._lock:
            return Overview(tuple(self._begins.values()), self._judged_unix_s)

    def note(self, moment: Moment) -> None:
        """Put a mark or a gap on the time line; from any thread."""
        with self._lock:
            if len(self._moments) < MAX_MOMENTS:
                self._moments.append(moment)

    def mark(self, text: str) -> None:
        """A mark now, by whoever called ``ioh mark``."""
        self.note(Moment(time.time(), printable(text)))

    def set_speed(self, speed: float) -> None:
        """Times the recording's pace, where the source has one."""
        if self._set_speed is not None:
            self._set_speed(speed)

    def play_from(self, tick: int) -> None:
        """Nothing: what comes by itself cannot be played again."""

    def hold(self) -> None:
        """Nothing: it goes on."""

    def toggle_recording(self) -> str:
        """Start or end a recording; returns one printable line saying what happened."""
        return self._recording.toggle(self.hostname, self.cycle_s)
