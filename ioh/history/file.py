"""The past of a machine in a recording's file, which may still grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ioh.history.findings_cache import Rejudge
from ioh.history.findings_index import FindingsIndex
from ioh.history.history import BaseHistory
from ioh.model.intervals import ChooseLayers, all_layers
from ioh.model.pairs import with_own_pairs
from ioh.model.player import Extent, IsWanted, Mode, Overview, TimelineEvent
from ioh.model.printable import printable
from ioh.model.snapshot import Pair, Snapshot
from ioh.pipeline import Judge, MakeJudge, no_judge
from ioh.playback.cursor import Cursor
from ioh.playback.joined import Companions, path_of
from ioh.playback.replay import no_interval
from ioh.playback.time_range import Span, excerpt_of
from ioh.session.reader import Session


@dataclass(frozen=True, slots=True)
class PlayOptions:
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


class NamedJudge:
    """Judges a host's intervals with the pairs of hosts, and adds its name to the findings."""

    def __init__(
        self, judge: Judge, host: str, pairs_of: Callable[[Snapshot], Sequence[Pair]]
    ) -> None:
        self._judge, self._host, self._pairs_of = judge, host, pairs_of
        self.look_back_s = judge.look_back_s

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """Judge an interval."""
        pairs = self._pairs_of(snapshot)
        judged = self._judge.judge(with_own_pairs(snapshot, pairs, self._host))
        findings = tuple(replace(finding, host=self._host) for finding in judged.findings)
        return replace(judged, findings=findings)


class FileHistory(BaseHistory):
    """A History of a file, or of host ``name`` in a file of several ``hosts``.

    IohError: it is not a recording, lacks the requested layers or the marks of the span, or there
    is nothing to show.
    """

    def __init__(
        self, path: str, options: PlayOptions, name: str = "", hosts: tuple[str, ...] = ()
    ) -> None:
        self.others = Companions(path, hosts, name) if name else None
        self.path = path_of(path, name)
        self._options = options
        self._session = Session(self.path)
        try:
            cycle_s = self._session.header.cycle_s
            super().__init__(self._session, name, printable(self.path), cycle_s)
            self._find_excerpt(options)
        except BaseException:
            self._session.close()
            raise
        # Its own cursor: looking back goes far from where the screen continues stepping.
        looks_back = Cursor(self._session)
        self.look_back = Rejudge(
            lambda tick: self._interval(looks_back, tick), self.make_judge, cycle_s
        )
        self._moments: tuple[int, tuple[TimelineEvent, ...]] = (-1, ())
        self._own_marks: list[TimelineEvent] = []
        self._index = FindingsIndex(
            self.path, options.span, choose=options.choose, make_judge=self.make_judge
        )
        if options.has_index:
            self._index.start()

    def make_judge(self, *, finds_pairs: bool = True) -> Judge | None:
        """A judge for a run of intervals, which may have the pairs of hosts already."""
        judge, others = self._options.make_judge(), self.others
        if judge is None or others is None:
            return judge

        def pairs_of(snapshot: Snapshot) -> Sequence[Pair]:
            return others.of(snapshot)[1] if finds_pairs else snapshot.pairs

        return NamedJudge(judge, self.name, pairs_of)

    def close(self) -> None:
        """Close the file, and end the search for findings."""
        self._index.close()
        self._session.close()
        if self.others is not None:
            self.others.close()

    def _find_excerpt(self, options: PlayOptions) -> None:
        session = self._session
        self.excerpt = excerpt_of(options.span, session)
        if options.run_s is not None:
            begin_s = max(self.excerpt.begin_unix_s, session.start_unix_s)
            end_s = min(self.excerpt.end_unix_s, begin_s + options.run_s)
            self.excerpt = replace(self.excerpt, end_unix_s=end_s)
        self._first = session.sample_at(self.excerpt.begin_tick)
        self.look(session)
        self._names = options.choose(self._first) if self._first is not None else None
        if self._extent.last < self._extent.first and not self._extent.is_growing:
            raise no_interval(self.path, options.span)

    def look(self, session: Session) -> bool:
        """Update the extent; return whether the recording will grow.

        ``session`` is the file as opened by the caller's thread.
        """
        excerpt = self.excerpt
        session.refresh()
        is_growing = session.is_growing
        last, end_s = len(session) - 1, session.end_unix_s
        if excerpt.is_over(last + 1, end_s) or end_s == excerpt.end_unix_s:
            last, end_s, is_growing = (
                excerpt.last_tick(session),
                min(end_s, excerpt.end_unix_s),
                False,
            )
        start_s = session.start_unix_s if self._first is None else self._first.time_unix_s
        self._extent = Extent(excerpt.begin_tick + 1, last, start_s, end_s, is_growing)
        return is_growing

    def _interval(self, cursor: Cursor, tick: int) -> Snapshot | None:
        if tick >= len(self._session):
            self._session.refresh()
        return super()._interval(cursor, tick)

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by number, with the pairs of hosts in it; None if it is lost."""
        snapshot = super().visit(tick)
        if snapshot is None or self.others is None:
            return snapshot
        return replace(snapshot, pairs=self.others.of(snapshot)[1])

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """Judge an interval, after those before it if they were not reported."""
        if tick not in self._judgements:
            judged = self.look_back.judge(tick, self._extent.first, is_wanted)
            if judged is None and not is_wanted(0):
                return None
            if judged is not None:
                self.keep(tick, judged)
        return self.visit(tick)

    def keep(self, tick: int, judged: Snapshot) -> None:
        """Keep the findings of an interval."""
        self._judgements.keep(tick, self._index.dated(judged))

    def judged_onto(self, tick: int, snapshot: Snapshot) -> Snapshot:
        """Add the findings kept of an interval to it."""
        return self._judgements.onto(tick, snapshot)

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends by a time, within the extent."""
        self._session.refresh()
        return super().tick_at(time_unix_s)

    def time_of(self, tick: int) -> float:
        """When an interval ends; the extent's start if its sample is lost."""
        sample = self._session.sample_at(tick)
        return self._extent.start_unix_s if sample is None else sample.time_unix_s

    def moments(self) -> tuple[TimelineEvent, ...]:
        """The span's marks and gaps, by time."""
        session, extent = self._session, self._extent
        session.refresh()
        if self._moments[0] != session.size_bytes:
            events = [
                TimelineEvent(m.time_unix_s, printable(m.text), m.until_unix_s)
                for m in (*session.marks(), *session.gaps())
                if extent.start_unix_s <= (m.until_unix_s or m.time_unix_s)
                and m.time_unix_s <= self.excerpt.end_unix_s
            ]
            events += self._own_marks
            events.sort(key=lambda moment: moment.time_unix_s)
            self._moments = (session.size_bytes, tuple(events))
        return self._moments[1]

    def note(self, moment: TimelineEvent) -> None:
        """Add a mark to the time line; the file is not changed."""
        self._own_marks.append(moment)
        self._moments = (-1, ())

    def overview(self) -> Overview:
        """The findings of the index."""
        return self._index.overview()
