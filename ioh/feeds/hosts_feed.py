"""The screen's feeds of several live hosts: each keeps its history, and what they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from ioh.feeds.findings_cache import MakeJudge
from ioh.feeds.recorded_feed import RunningFeed
from ioh.feeds.screen_recorder import HostsRecorder
from ioh.feeds.stream_feed import HISTORY_BYTES, StreamFeed
from ioh.model.feed import News, Overview, RecordingState, TimelineEvent
from ioh.model.finding import Finding, worst_first
from ioh.model.pairs import HostInterval, HostState, Round, pairs
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.snapshot import Pair, Snapshot
from ioh.pipeline import Judge
from ioh.playback.joined import with_own_pairs

_STAYS = 1.5  # how many intervals a pair and another host's findings are shown


class Rounds(Protocol):
    """A source of rounds: intervals of several hosts that belong together."""

    @property
    def states(self) -> tuple[HostState, ...]:
        """Each host's present state."""

    def stop(self) -> None:
        """End the iteration; safe to call from a signal handler."""

    def __iter__(self) -> Iterator[Round]:
        """Yield rounds as they come."""


class NamedJudge:
    """Adds the host's name to the findings of a judge."""

    def __init__(self, judge: Judge, host: str) -> None:
        self._judge, self._host = judge, host
        self.look_back_s = judge.look_back_s

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """Judge an interval."""
        judged = self._judge.judge(snapshot)
        found = (replace(finding, host=self._host) for finding in judged.findings)
        return replace(judged, findings=tuple(found))


def of_all(own: Overview, each: Iterable[Overview]) -> Overview:
    """Combine one host's begins of findings with all hosts' findings."""
    return replace(own, found=tuple(finding for one in each for finding in one.found))


class HostFeed(StreamFeed):
    """A Feed of one host, filled by HostsFeed."""

    def __init__(self, name: str, owner: HostsFeed, make_judge: MakeJudge) -> None:
        super().__init__(
            (),
            lambda: None,
            mode="live",
            cycle_s=owner.cycle_s,
            hostname=name,
            make_judge=make_judge,
            history_bytes=HISTORY_BYTES // len(owner.names),
        )
        self._owner = owner
        self._newest: Sample | None = None
        self._lost: set[int] = set()  # intervals that span a gap

    def put(self, part: HostInterval) -> tuple[int, Snapshot]:
        """Keep an interval and judge it; return its number and the result."""
        if part.samples is None:
            raise LookupError
        older, newer = part.samples
        if older is not self._newest:
            tick = self._keep(older)
            if (newest := self._newest) is not None:
                self._lost.add(tick)
                gap = TimelineEvent(newest.time_unix_s, "not measured", older.time_unix_s)
                self.note(gap)
        self._newest = newer
        tick = self._keep(newer)
        return tick, self._judged(part.snapshot)

    def join(
        self, tick: int, snapshot: Snapshot, found: tuple[Pair, ...], elsewhere: Iterable[Finding]
    ) -> Snapshot:
        """Add what is known of all hosts to an interval, and keep it."""
        findings = tuple(sorted((*snapshot.findings, *elsewhere), key=worst_first))
        joined = replace(snapshot, pairs=found, findings=findings, name=self.hostname)
        self._judgements.keep(tick, joined, found)
        self._lost = {lost for lost in self._lost if lost >= self._extent.first}
        return joined

    def visit(self, tick: int) -> Snapshot | None:
        """One interval; None if it is lost, or the host was not connected."""
        found = None if tick in self._lost else super().visit(tick)
        return found and replace(found, name=self.hostname)

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        """Yield intervals, except those in which the host was not connected."""
        found = super().walk(first, last, is_whole=is_whole)
        return (each for each in found if each[0] not in self._lost)

    def overview(self) -> Overview:
        """The begins of this host's findings, and all hosts' findings."""
        return of_all(super().overview(), map(StreamFeed.overview, self._owner.feeds))

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to every host's time line."""
        return self._owner.set_mark(text, time_unix_s)

    @property
    def recording(self) -> RecordingState:
        """The state of the recording by key R, which is of all hosts."""
        return self._owner.recorder.state

    def toggle_recording(self) -> str:
        """Start or end a recording of all hosts; return a printable line about it."""
        return self._owner.recorder.toggle()


class HostsFeed(RunningFeed):
    """Feeds of several hosts; a context manager that ends run().

    ``names`` are the hosts as given by the user; ``make_judge`` is called for each; ``run_s``: end
    the screen after this time, None for never.
    """

    def __init__(
        self,
        rounds: Rounds,
        names: Sequence[str],
        *,
        cycle_s: float,
        make_judge: MakeJudge,
        run_s: float | None = None,
    ) -> None:
        super().__init__()
        self._rounds, self.cycle_s, self._run_s = rounds, cycle_s, run_s
        self.names = tuple(names)
        # Each with the time of its round.
        self._pairs: dict[tuple[str, str], tuple[float, Pair]] = {}
        self._paired: set[tuple[str, str]] = set()  # all pairs ever found
        self._found: dict[int, tuple[float, tuple[Finding, ...]]] = {}

        def judge_of(name: str) -> Judge | None:
            judge = make_judge()
            return judge if judge is None or len(names) == 1 else NamedJudge(judge, name)

        self.recorder = HostsRecorder(self.names, cycle_s)
        self.feeds = tuple(HostFeed(name, self, partial(judge_of, name)) for name in names)

    @property
    def states(self) -> tuple[HostState, ...]:
        """Each host's present state."""
        return self._rounds.states

    def _report(self, report: Callable[[News], None]) -> None:
        for at in range(len(self.names)):
            report(News(status="no data from this host yet", host=at))
        first_s: float | None = None
        for each in self._rounds:
            self._take(each, report)
            first_s = each.time_unix_s if first_s is None else first_s
            seen_s = each.time_unix_s - first_s + self.cycle_s
            if self._run_s is not None and seen_s >= self._run_s - self.cycle_s / 10:
                self.end()

    def _take(self, each: Round, report: Callable[[News], None]) -> None:
        found = pairs(each.intervals, self._paired)
        put = []
        for part in each.intervals:
            self.recorder.write(part)
            at = self.names.index(part.name)
            snapshot = with_own_pairs(part.snapshot, found, part.name)
            put.append((at, *self.feeds[at].put(replace(part, snapshot=snapshot))))
            self._found[at] = (each.time_unix_s, put[-1][2].findings)
        for pair in found:
            own_pair = replace(pair, there=None)
            self._pairs[pair.client, pair.server] = (each.time_unix_s, own_pair)
        # Kept for later rounds: a late host's interval comes in the next one.
        oldest_s = each.time_unix_s - _STAYS * self.cycle_s
        self._pairs = {key: kept for key, kept in self._pairs.items() if kept[0] >= oldest_s}
        known = tuple(self._pairs[key][1] for key in sorted(self._pairs))
        for at, tick, judged in put:
            others = (kept for number, kept in sorted(self._found.items()) if number != at)
            elsewhere = (one for time_s, all_ in others if time_s >= oldest_s for one in all_)
            joined = self.feeds[at].join(tick, judged, known, elsewhere)
            report(News(tick, joined, host=at))

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to every host's time line."""
        at = time.time() if time_unix_s is None else time_unix_s
        for feed in self.feeds:
            feed.note(TimelineEvent(at, printable(text)))
        return self.recorder.mark(text) if time_unix_s is None else "marked"

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""
        super().stop()
        self._rounds.stop()

    def _release(self) -> None:
        self.recorder.close()
        for feed in self.feeds:
            feed.close()
