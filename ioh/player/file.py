"""Plays a recording at any speed and follows it while it grows; all hosts of a joined file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ioh.history.file import FileHistory, PlayOptions
from ioh.model.intervals import interval
from ioh.model.pairs import HostState, with_own_pairs
from ioh.model.player import News, Player, TimelineEvent
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.pipeline import Judge
from ioh.playback.cursor import consecutive
from ioh.playback.joined import spans_of
from ioh.playback.replay import ReplaySource
from ioh.session.reader import Session

# At high speed, no more intervals a second are reported than a screen can show.
MIN_REPORT_S = 1 / 30
_DEMO_PAST = 46  # intervals before the first one shown: a minute of trends, and a busy moment
_AGAIN_S = 10.0  # intervals farther apart than this do not follow each other: judge anew


class FilePlayer(Player):
    """Plays a file, or one of its ``hosts`` with the others along; raises as FileHistory."""

    can_play = True
    histories: Sequence[FileHistory]

    def __init__(self, path: str, options: PlayOptions, hosts: tuple[str, ...] = ()) -> None:
        self.mode, self._options = options.mode, options
        spans = spans_of(path, hosts, options.span) if hosts else {"": options.span}
        self._reported_s = self._played_unix_s = 0.0
        self._judges: dict[str, Judge | None] = {}
        with ExitStack() as stack:
            histories = [
                stack.enter_context(FileHistory(path, replace(options, span=span), name, hosts))
                for name, span in spans.items()
            ]
            super().__init__(histories)
            # The longest one is played; what lies outside of it can only be visited.
            self._main = max(
                self.histories, key=lambda each: each.extent.end_unix_s - each.extent.start_unix_s
            )
            self._session = Session(self._main.path)
            self._source = stack.enter_context(
                ReplaySource(self._session, speed=options.speed, on_wait=self._look)
            )
            self._source.excerpt = self._main.excerpt
            self._opened = stack.pop_all()

    @property
    def states(self) -> tuple[HostState, ...]:
        """All hosts, as recorded ones."""
        return tuple(HostState(name, is_here=True, is_recorded=True) for name in self.names)

    def _release(self) -> None:
        self._opened.close()

    def _look(self) -> bool:
        return self._main.look(self._session)

    def _report(self, report: Callable[[News], None]) -> None:
        """Play, and report at most 1 / MIN_REPORT_S intervals a second.

        The demo begins in its middle, so that its trends are full.
        """
        extent = self._main.extent
        past = _DEMO_PAST if self.mode == "demo" else 0
        start: int | None = min(extent.first + past, extent.last)
        while start is not None:
            self._play(start, report)
            self._look()  # the recording may have ended
            if not self._source.is_interrupted:
                if self._options.run_s is not None:
                    self.end()
                elif self.mode == "demo":
                    continue
                else:
                    for host in range(len(self.histories)):
                        report(News(status="the end of the recording", is_over=True, host=host))
            start = self._source.next_start()

    def _play(self, first: int, report: Callable[[News], None]) -> None:
        """Report intervals from one on, to the end, or until play_from() or stop()."""
        main = self._main
        judge, unjudged = main.make_judge(), None
        begin = main.look_back.begin_for(first, main.extent.first) if judge else first
        self._reported_s = 0.0
        for older, newer in consecutive(self._source.play(self._session, begin - 1, first)):
            tick = newer.tick
            if tick > main.extent.last:
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
                main.keep(tick, judge.judge(together))
                snapshot = main.judged_onto(tick, snapshot)
                unjudged = newer.sample
            if snapshot is not None:
                self._report_interval(tick, snapshot, report)

    def _between(self, older: Sample | None, newer: Sample) -> Snapshot | None:
        snapshot = interval(older, newer)
        return None if snapshot is None else self._main.select_layers(snapshot)

    def _is_to_report(self, tick: int) -> bool:
        """Whether it is time to report an interval; True for the last one."""
        now = time.monotonic()
        if now - self._reported_s < MIN_REPORT_S and tick < self._main.extent.last:
            return False
        self._reported_s = now
        return True

    def _report_interval(
        self, tick: int, snapshot: Snapshot, report: Callable[[News], None]
    ) -> None:
        """Report an interval, and those of the other hosts at the same time."""
        main = self._main
        if main.others is None:
            report(News(tick, snapshot))
            return
        others, pairs = main.others.of(snapshot)
        report(News(tick, replace(snapshot, pairs=pairs), host=self.names.index(main.name)))
        if not 0 < snapshot.time_unix_s - self._played_unix_s < _AGAIN_S:
            judges = ((each.name, each.make_judge(finds_pairs=False)) for each in self.histories)
            self._judges = dict(judges)
        self._played_unix_s = snapshot.time_unix_s
        for name, (its_tick, beside) in others.items():
            host = self.names.index(name)
            there = with_own_pairs(self.histories[host].select_layers(beside.snapshot), pairs, name)
            if (judge := self._judges[name]) is not None:
                there = judge.judge(there)
            report(News(its_tick, replace(there, pairs=pairs), host=host))

    def stop(self) -> None:
        """End run() soon."""
        super().stop()
        self._source.stop()

    def set_speed(self, speed: float) -> None:
        """Set the speed, relative to the recording's pace."""
        self._source.set_speed(speed)

    def play_from(self, tick: int, host: int = 0) -> None:
        """Continue all hosts from an interval of one of them."""
        main, history = self._main, self.histories[host]
        if history is not main:
            tick = main.tick_at(history.time_of(tick) + main.cycle_s / 2)
        extent = main.extent
        self._source.play_from(max(extent.first, min(tick, max(extent.last, 1))))

    def hold(self) -> None:
        """Report no new interval until play_from()."""
        self._source.hold()

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to this screen's time line; the file is not changed."""
        at = self._main.extent.end_unix_s if time_unix_s is None else time_unix_s
        for history in self.histories:
            history.note(TimelineEvent(at, printable(text)))
        return "marked on this screen; the file is not changed"

    def toggle_recording(self) -> str:
        """Nothing to record; return a line that says so."""
        return "this is already a recording: copy the file instead"
