"""The screen's feeds of recordings: files, played at any speed and followed, and pipes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ioh.feeds.findings_cache import MakeJudge, Rejudge, no_judge
from ioh.feeds.findings_index import FindingsIndex
from ioh.feeds.recorded_feed import RecordedFeed
from ioh.feeds.stream_feed import StreamFeed
from ioh.model.feed import (
    Extent,
    IsWanted,
    Mode,
    News,
    Overview,
    RecordingState,
    TimelineEvent,
)
from ioh.model.intervals import ChooseLayers, all_layers, interval
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.playback.cursor import Cursor, consecutive
from ioh.playback.replay import ReplaySource, no_interval
from ioh.playback.time_range import Span, part_of, sane_cycle_s
from ioh.session.reader import Session
from ioh.session.records import Gap, Header, Mark, to_text
from ioh.session.stream import LostTicks, Tick

# At high speed, no more intervals a second are reported than a screen can show.
MIN_REPORT_S = 1 / 30
MAX_UNIX_S = 1e11


def is_time(*unix_s: float) -> bool:
    """Whether these times can be shown as clock times."""
    return all(0 <= time_s < MAX_UNIX_S for time_s in unix_s)


@dataclass(frozen=True, slots=True)
class Played:
    """How a recording is played.

    ``speed`` is relative to the recording's pace.  ``run_s``: play only so much of the span, then
    end the screen; None: play all, and stay.  ``make_judge`` makes a judge for each run of
    intervals.  ``has_index``: also search the whole recording for findings.  Mode ``demo`` begins
    again at the end.
    """

    span: Span = field(default_factory=Span)
    speed: float = 1.0
    choose: ChooseLayers = all_layers
    run_s: float | None = None
    make_judge: MakeJudge = no_judge
    has_index: bool = False
    mode: Mode = "replay"


class FileFeed(RecordedFeed):
    """A Feed of a file, which each of the two threads opens separately.

    IohError: it is not a recording, lacks the requested layers or the marks of the span, or there
    is nothing to show.
    """

    can_play = True

    def __init__(self, path: str, played: Played) -> None:
        self.title, self.recording = printable(path), RecordingState()
        self._make_judge, self._loops = played.make_judge, played.mode == "demo"
        self._ends_after_play = played.run_s is not None
        self._reported_s = 0.0
        with ExitStack() as stack:
            self._playing = Session(path)
            self._source = stack.enter_context(
                ReplaySource(self._playing, speed=played.speed, on_wait=self._look)
            )
            self._visited = stack.enter_context(Session(path))
            super().__init__(played.mode, self._visited)
            self.cycle_s = sane_cycle_s(self._playing.header.cycle_s)
            self._find_span(played)
            self._names = played.choose(self._first) if self._first is not None else None
            if self._extent.last < self._extent.first and not self._extent.is_growing:
                raise no_interval(path, played.span)
            self._opened = stack.pop_all()
        # Its own cursor: looking back goes far from where the screen continues stepping.
        self._looks_back = Cursor(self._visited)
        self._look_back = Rejudge(
            lambda tick: self._interval(self._looks_back, tick), self._make_judge, self.cycle_s
        )
        self._moments: tuple[int, tuple[TimelineEvent, ...]] = (-1, ())
        self._own_marks: list[TimelineEvent] = []
        self._index = FindingsIndex(
            path, played.span, choose=played.choose, make_judge=played.make_judge
        )
        if played.has_index:
            self._index.start()

    def close(self) -> None:
        """End run(), whichever thread it is in, and the search for findings."""
        self.stop()
        self._index.close()
        super().close()

    def _release(self) -> None:
        self._opened.close()

    def _find_span(self, played: Played) -> None:
        session = self._playing
        part = part_of(played.span, session)
        if played.run_s is not None:
            begin_s = max(part.begin_unix_s, session.start_unix_s)
            part = replace(part, end_unix_s=min(part.end_unix_s, begin_s + played.run_s))
        self._source.part = part
        self._first = session.sample_at(part.begin_tick)
        self._look()

    def _look(self) -> bool:
        """Update the extent; return whether the recording will grow."""
        session, part = self._playing, self._source.part
        session.refresh()
        is_growing = session.is_growing
        last, end_s = len(session) - 1, session.end_unix_s
        if part.is_over(last + 1, end_s) or end_s == part.end_unix_s:
            last, end_s, is_growing = part.last_tick(session), min(end_s, part.end_unix_s), False
        start_s = session.start_unix_s if self._first is None else self._first.time_unix_s
        self._extent = Extent(part.begin_tick + 1, last, start_s, end_s, is_growing)
        return is_growing

    def _report(self, report: Callable[[News], None]) -> None:
        """Play, and report at most 1 / MIN_REPORT_S intervals a second."""
        start: int | None = self._extent.first
        while start is not None:
            self._play(start, report)
            self._look()  # the recording may have ended
            if not self._source.is_interrupted:
                if self._ends_after_play:
                    self.end()
                elif self._loops:
                    continue
                else:
                    report(News(status="the end of the recording", is_over=True))
            start = self._source.next_start()

    def _play(self, first: int, report: Callable[[News], None]) -> None:
        """Report intervals from one on, to the end, or until play_from() or stop()."""
        judge, unjudged = self._make_judge(), None
        begin = self._look_back.begin_for(first, self._extent.first) if judge else first
        self._reported_s = 0.0
        for older, newer in consecutive(self._source.play(self._playing, begin - 1, first)):
            tick = newer.tick
            if tick > self._extent.last:
                self._look()  # so that reported intervals can be visited
            if tick < first:
                looked_back = self._between(older.sample, newer.sample)
                if judge is not None and looked_back is not None:
                    judge.judge(looked_back)
                continue
            if not self._is_to_report(tick):
                continue
            snapshot = self._between(older.sample, newer.sample)
            if snapshot is not None and judge is not None:
                # If it plays too fast to report each one, several are judged as one.
                together = self._between(unjudged, newer.sample) or snapshot
                self._keep(tick, judge.judge(together))
                snapshot = self._judgements.onto(tick, snapshot)
                unjudged = newer.sample
            if snapshot is not None:
                report(News(tick, snapshot))

    def _between(self, older: Sample | None, newer: Sample) -> Snapshot | None:
        found = interval(older, newer)
        return None if found is None else self.chosen(found)

    def _is_to_report(self, tick: int) -> bool:
        """Whether it is time to report an interval; True for the last one."""
        now = time.monotonic()
        if now - self._reported_s < MIN_REPORT_S and tick < self._extent.last:
            return False
        self._reported_s = now
        return True

    def stop(self) -> None:
        """End run() soon."""
        super().stop()
        self._source.stop()

    def _interval(self, cursor: Cursor, tick: int) -> Snapshot | None:
        if tick >= len(self._visited):
            self._visited.refresh()
        return super()._interval(cursor, tick)

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """Judge an interval, after those before it if they were not reported."""
        if tick not in self._judgements:
            judged = self._look_back.judge(tick, self._extent.first, is_wanted)
            if judged is None and not is_wanted(0):
                return None
            if judged is not None:
                self._keep(tick, judged)
        return self.visit(tick)

    def _keep(self, tick: int, judged: Snapshot) -> None:
        self._judgements.keep(tick, self._index.dated(judged))

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends by a time, within the extent."""
        self._visited.refresh()
        return self._extent.nearest(self._visited.tick_at(time_unix_s))

    def moments(self) -> tuple[TimelineEvent, ...]:
        """The span's marks and gaps, by time."""
        session, extent = self._visited, self._extent
        session.refresh()
        if self._moments[0] != session.size_bytes:
            found = [
                TimelineEvent(m.time_unix_s, printable(m.text), m.until_unix_s)
                for m in (*session.marks(), *session.gaps())
                if is_time(m.time_unix_s, m.until_unix_s or 0.0)
                and extent.start_unix_s <= (m.until_unix_s or m.time_unix_s)
                and m.time_unix_s <= self._source.part.end_unix_s
            ]
            found += self._own_marks
            found.sort(key=lambda moment: moment.time_unix_s)
            self._moments = (session.size_bytes, tuple(found))
        return self._moments[1]

    def overview(self) -> Overview:
        """The findings of the index."""
        return self._index.overview()

    def set_speed(self, speed: float) -> None:
        """Set the speed, relative to the recording's pace."""
        self._source.set_speed(speed)

    def set_cycle(self, cycle_s: float) -> bool:
        """False: a recording's interval cannot be changed."""
        del cycle_s
        return False

    def play_from(self, tick: int) -> None:
        """Continue from an interval."""
        self._source.play_from(max(self._extent.first, min(tick, max(self._extent.last, 1))))

    def hold(self) -> None:
        """Report no new interval until play_from()."""
        self._source.hold()

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to this screen's time line; the file is not changed."""
        at = self._extent.end_unix_s if time_unix_s is None else time_unix_s
        self._own_marks.append(TimelineEvent(at, printable(text)))
        self._moments = (-1, ())
        return "marked on this screen; the file is not changed"

    def toggle_recording(self) -> str:
        """Nothing to record; return a line that says so."""
        return "this is already a recording: copy the file instead"


def pipe_feed(
    source: ReplaySource,
    choose: ChooseLayers,
    run_s: float | None = None,
    make_judge: MakeJudge = no_judge,
) -> StreamFeed:
    """Make a feed of a pipe's open source; marks and gaps become moments."""

    def samples() -> Iterator[Sample]:
        lost = 0
        for item in source:
            if isinstance(item, Header):
                feed.cycle_s, feed.hostname = sane_cycle_s(item.cycle_s), to_text(item.hostname)
            elif isinstance(item, Mark) and is_time(item.time_unix_s):
                feed.note(TimelineEvent(item.time_unix_s, printable(to_text(item.text))))
            elif isinstance(item, Gap) and is_time(item.from_unix_s, item.to_unix_s):
                reason = printable(to_text(item.reason))
                feed.note(TimelineEvent(item.from_unix_s, reason, item.to_unix_s))
            elif isinstance(item, LostTicks):
                lost += item.count
            elif isinstance(item, Tick):
                if lost:
                    feed.note(TimelineEvent(item.sample.time_unix_s, f"{lost} samples are lost"))
                    lost = 0
                yield item.sample

    feed = StreamFeed(
        samples(),
        source.stop,
        mode="replay",
        cycle_s=1.0,
        hostname="host",
        title="stdin",
        choose=choose,
        set_speed=source.set_speed,
        run_s=run_s,
        make_judge=make_judge,
    )
    return feed
