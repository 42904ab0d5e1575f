"""A screen's feed from a recording in a file: played at any pace, and followed while it grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from ioh.model.closing import Closing
from ioh.model.derive import derive
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
from ioh.session.reader import Session
from ioh.session.records import Gap
from ioh.session.stream import Tick
from ioh.sources.judgements import Judgements, LookBack, MakeJudge, no_judge
from ioh.sources.moments import part_of
from ioh.sources.player import Player, walk
from ioh.sources.replay import POLL_S, Span, no_interval
from ioh.sources.scan import Scan

# However fast it plays, no more intervals a second are told than a screen can show.
MIN_TELL_S = 1 / 30
MAX_CYCLE_S = 1e6
MAX_UNIX_S = 1e11
MAX_DEBT_S = 0.5  # what playing may be late and still make up for
JOIN_TIMEOUT_S = 5.0
GROWTH_S = 1.0  # how often to look whether a recording has grown while it is not played
Choose = Callable[[Sample], "frozenset[str] | None"]


def sane_cycle_s(cycle_s: float) -> float:
    """A recording's own period; 1 where it is none."""
    return cycle_s if 0 < cycle_s < MAX_CYCLE_S else 1.0


def is_time(*unix_s: float) -> bool:
    """Whether clocks can show these times."""
    return all(0 <= time_s < MAX_UNIX_S for time_s in unix_s)


class FileFeed(Closing):
    """What a Feed is, over a recording; a context manager.

    Interval ``n`` lies between the samples ``n - 1`` and ``n``.  Each of the two threads has the
    file open for itself.

    Args:
        path: The file.
        span: Which part of it can be visited.
        speed: Times its own pace.
        choose: The layers to show, of those in the first sample; None for all.
        run_s: Only so much of the span, and end the screen then; None for all, and stay.
        utc: Whether clock times of ``span`` are UTC.
        make_judge: Makes what finds what is wrong, one for each run of intervals.
        scan: What looks for the findings of all of it; started and closed by the feed.

    Raises:
        IohError: It is no recording, lacks the moments of ``span`` or layers asked for, or
            there is nothing to show.
    """

    can_play = True

    def __init__(  # noqa: PLR0913
        self,
        path: str,
        span: Span,
        *,
        speed: float,
        choose: Choose,
        run_s: float | None = None,
        utc: bool = False,
        make_judge: MakeJudge = no_judge,
        scan: Scan | None = None,
    ) -> None:
        self._path, self._scan = path, scan
        # Reentrant: a signal handler may call end() while its thread holds it.
        self._change = threading.Condition(threading.RLock())
        self._speed = speed
        self._ends_after_play = run_s is not None
        self._make_judge, self._judgements = make_judge, Judgements()
        self._jump: int | None = None
        self._is_held = self._is_stopped = self._ends_screen = False
        self._is_running = threading.Lock()
        self._told_at = self._due = 0.0
        self._played = Session(path)
        try:
            self._visited = Session(path)
        except BaseException:
            self._played.close()
            raise
        try:
            self._find_span(span, run_s, utc=utc)
            self._names = choose(self._first) if self._first is not None else None
            if self._extent.last < self._extent.first and not self._extent.is_growing:
                raise no_interval(path, span)  # noqa: TRY301
        except BaseException:
            self._played.close()
            self._visited.close()
            raise
        # One each: what is looked back at lies far from where the screen goes on stepping.
        self._visits, self._looks_back = Player(self._visited), Player(self._visited)
        self._look_back = LookBack(self._before, make_judge, self.cycle_s)
        self._moments: tuple[int, tuple[Moment, ...]] = (-1, ())
        if scan is not None:
            scan.start()

    def close(self) -> None:
        """End run(), wherever that runs."""
        self.stop()
        if self._scan is not None:
            self._scan.close()
        if self._is_running.acquire(timeout=JOIN_TIMEOUT_S):
            self._is_running.release()
            self._played.close()
            self._visited.close()

    def _find_span(self, span: Span, run_s: float | None, *, utc: bool) -> None:
        session = self._played
        part = part_of(span.begin, span.end, session, utc=utc)
        if run_s is not None:
            begin_s = max(part.begin_unix_s, session.start_unix_s)
            part = replace(part, end_unix_s=min(part.end_unix_s, begin_s + run_s))
        self._part = part
        self._first = session.sample_at(part.begin_tick)
        self._look()

    def _look(self) -> None:
        """See how far the recording goes by now."""
        session, part = self._played, self._part
        session.refresh()
        is_growing = session.is_growing
        last, end_s = len(session) - 1, session.end_unix_s
        if part.is_over(last + 1, end_s) or end_s == part.end_unix_s:
            last, end_s, is_growing = part.last_tick(session), min(end_s, part.end_unix_s), False
        start_s = session.start_unix_s if self._first is None else self._first.time_unix_s
        self._extent = Extent(part.begin_tick + 1, last, start_s, end_s, is_growing)

    @property
    def mode(self) -> Mode:
        """What the header says."""
        return "replay"

    @property
    def title(self) -> str:
        """The recording's name."""
        return printable(self._path)

    @property
    def cycle_s(self) -> float:
        """Time between two samples as it was asked for."""
        return sane_cycle_s(self._played.header.cycle_s)

    @property
    def extent(self) -> Extent:
        """What can be visited now."""
        return self._extent

    @property
    def recording(self) -> RecordingState:
        """There is none beside a recording."""
        return RecordingState()

    def run(self, tell: Callable[[News], None]) -> None:
        """Play until stop(); every interval is told once, at most 1 / MIN_TELL_S a second."""
        with self._is_running:
            try:
                start: int | None = None if self._is_stopped else self._extent.first
                while start is not None:
                    self._play(start, tell)
                    start = self._next_start()
            except BaseException as error:  # noqa: BLE001 (raised again by the screen's thread)
                tell(News(error=error, is_over=True))
            if self._ends_screen:
                tell(News(error=FeedEnded(), is_over=True))

    def _next_start(self) -> int | None:
        """Wait for play_from() or stop(); meanwhile the recording may grow."""
        with self._change:
            while self._jump is None and not self._is_stopped:
                self._change.wait(GROWTH_S if self._extent.is_growing else None)
                self._look()
            if self._is_stopped:
                return None
            start, self._jump = self._jump, None
            return start

    def _play(self, first: int, tell: Callable[[News], None]) -> None:
        """Tell intervals from one on, to the end, or until play_from() or stop()."""
        judge, unjudged = self._make_judge(), None
        begin = self._look_back.begin_for(first, self._extent.first) if judge else first
        self._due = self._told_at = 0.0
        for tick, older, sample in self._pairs(begin):
            interval_s = (sample.mono_ns - older.mono_ns) / 1e9
            if tick < first:
                if judge is not None and interval_s > 0:
                    judge.judge(derive(older, sample))  # its rules look back at this
                continue
            if not self._wait_for(max(0.0, interval_s)):
                return
            if interval_s > 0 and self._is_to_tell(tick):
                snapshot = derive(older, sample)
                if judge is not None:
                    # Where it plays too fast for each to be told, several are judged as one.
                    since = older if unjudged is None else unjudged
                    judged = judge.judge(snapshot if since is older else derive(since, sample))
                    self._judgements.keep(tick, self._with_begins(judged))
                    snapshot = self._judgements.onto(tick, snapshot)
                    unjudged = sample
                tell(News(tick, snapshot))
        if self._ends_after_play and not self._is_interrupted:
            self.end()
        elif not self._is_interrupted:
            tell(News(status="the end of the recording", is_over=True))

    def _pairs(self, first: int) -> Iterator[tuple[int, Sample, Sample]]:
        """Each interval from one on: its number, and the samples that it lies between."""
        older: Tick | None = None
        for item in self._items(first - 1):
            if isinstance(item, Gap):
                self._due = 0.0  # nobody wants to sit through it
                continue
            is_over = self._part.is_over(item.tick, item.sample.time_unix_s)
            if is_over or self._is_interrupted:
                return
            if older is not None and item.tick == older.tick + 1:
                yield item.tick, older.sample, item.sample
            older = item

    def _items(self, tick: int) -> Iterator[Tick | Gap]:
        """Samples and gaps from a sample on, following the file as long as it grows."""
        reader, at = self._played.reader(tick)
        while not self._is_interrupted:
            piece = self._played.read_chunk(at)
            at += len(piece)
            reader.feed(piece)
            if self._extent.is_growing:
                self._look()  # first, so that what is told can be visited
            for item in reader.items():
                if isinstance(item, Tick):
                    yield Tick(item.tick, chosen_layers(item.sample, self._names))
                elif isinstance(item, Gap):
                    yield item
            if not piece:
                if reader.ended or not (self._extent.is_growing or self._played.size_bytes > at):
                    return
                with self._change:
                    self._change.wait(POLL_S)

    @property
    def _is_interrupted(self) -> bool:
        return self._is_stopped or self._jump is not None

    def _wait_for(self, interval_s: float) -> bool:
        """Wait until the next interval is due; False for play_from() and stop()."""
        with self._change:
            while not self._is_interrupted:
                now = time.monotonic()
                if self._is_held:
                    self._change.wait(GROWTH_S if self._extent.is_growing else None)
                    self._look()
                    self._due = 0.0
                    continue
                due = (self._due or now - interval_s / self._speed) + interval_s / self._speed
                if due <= now:
                    self._due = max(due, now - MAX_DEBT_S)
                    return True
                self._change.wait(due - now)
        return False

    def _is_to_tell(self, tick: int) -> bool:
        """Whether a screen could show one more interval by now; the last one always."""
        now = time.monotonic()
        if now - self._told_at < MIN_TELL_S and tick < self._extent.last:
            return False
        self._told_at = now
        return True

    def stop(self) -> None:
        """End run() soon."""
        with self._change:
            self._is_stopped = True
            self._change.notify_all()

    def end(self) -> None:
        """End run() soon, and the screen with it; safe to call from a signal handler."""
        self._ends_screen = True
        self.stop()

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by its number; None where it is lost."""
        found = self._snapshot(self._visits, tick)
        return None if found is None else self._judgements.onto(tick, found)

    def _before(self, tick: int) -> Snapshot | None:
        return self._snapshot(self._looks_back, tick)

    def _snapshot(self, player: Player, tick: int) -> Snapshot | None:
        extent = self._extent
        if not extent.first <= tick <= extent.last:
            return None
        if tick >= len(self._visited):
            self._visited.refresh()
        player.tick = tick
        found = player.snapshot()
        return None if found is None else self._chosen(found)

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """The same judged, with the intervals before it where they were not told."""
        if tick not in self._judgements:
            judged = self._look_back.judge(tick, self._extent.first, is_wanted)
            if judged is None and not is_wanted(0):
                return None
            if judged is not None:
                self._judgements.keep(tick, self._with_begins(judged))
        return self.visit(tick)

    def _with_begins(self, judged: Snapshot) -> Snapshot:
        """Findings that began before what a judge looked back at, as the scan knows them."""
        scan, at = self._scan, judged.time_unix_s
        if scan is None:
            return judged
        known = (replace(f, since_unix_s=scan.begin_of(f, at)) for f in judged.findings)
        return replace(judged, findings=tuple(known))

    def walk(self, first: int, last: int) -> Iterator[tuple[int, Snapshot]]:
        """Intervals without their tables and parts, much faster than visit() for each."""
        extent = self._extent
        found = walk(self._visited, max(first, extent.first), min(last, extent.last))
        return ((tick, self._chosen(snapshot)) for tick, snapshot in found)

    def _chosen(self, snapshot: Snapshot) -> Snapshot:
        names = self._names
        if names is None:
            return snapshot
        layers = {name: layer for name, layer in snapshot.layers.items() if name in names}
        return replace(snapshot, layers=layers)

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends not later than a time, within the extent."""
        self._visited.refresh()
        found = self._visited.tick_at(time_unix_s)
        return max(self._extent.first, min(found, self._extent.last))

    def moments(self) -> tuple[Moment, ...]:
        """Marks and gaps of the span, by time."""
        session, extent = self._visited, self._extent
        session.refresh()
        if self._moments[0] != session.size_bytes:
            found = [
                Moment(m.time_unix_s, printable(m.text), m.until_unix_s)
                for m in (*session.marks(), *session.gaps())
                if is_time(m.time_unix_s, m.until_unix_s or 0.0)
                and extent.start_unix_s <= (m.until_unix_s or m.time_unix_s)
                and m.time_unix_s <= self._part.end_unix_s
            ]
            found.sort(key=lambda moment: moment.time_unix_s)
            self._moments = (session.size_bytes, tuple(found))
        return self._moments[1]

    def overview(self) -> Overview:
        """What the scan has found."""
        return Overview() if self._scan is None else self._scan.overview()

    def set_speed(self, speed: float) -> None:
        """Times the recording's pace at which run() tells intervals."""
        with self._change:
            self._speed = speed
            self._change.notify_all()

    def play_from(self, tick: int) -> None:
        """Go on telling from an interval."""
        with self._change:
            self._jump = max(self._extent.first, min(tick, max(self._extent.last, 1)))
            self._is_held = False
            self._change.notify_all()

    def hold(self) -> None:
        """Tell no new interval until play_from()."""
        with self._change:
            self._is_held = True
            self._change.notify_all()

    def toggle_recording(self) -> str:
        """There is nothing to record; returns a line that says so."""
        return "this is a recording already: copy the file instead"
