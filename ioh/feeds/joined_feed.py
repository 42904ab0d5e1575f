"""The screen's feeds of a joined file: one host is played, the others go along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ioh.feeds.file_feed import FileFeed, Played
from ioh.feeds.hosts_feed import NamedJudge, of_all
from ioh.model.closing import Closing
from ioh.model.feed import News, Overview
from ioh.model.pairs import HostState
from ioh.model.snapshot import Snapshot
from ioh.pipeline import Judge
from ioh.playback.joined import Companions, path_of, spans_of, with_own_pairs
from ioh.playback.time_range import Span

_AGAIN_S = 10.0  # intervals farther apart than this do not follow each other: judge anew


class _PairedJudge(NamedJudge):
    """Adds the pairs of hosts to each interval before it is judged."""

    def __init__(self, judge: Judge, host: str, others: Companions) -> None:
        super().__init__(judge, host)
        self._others = others

    def judge(self, snapshot: Snapshot) -> Snapshot:
        """Judge an interval."""
        return super().judge(with_own_pairs(snapshot, self._others.of(snapshot)[1], self._host))


class _HostFeed(FileFeed):
    """One host's feed; its controls of time apply to all hosts."""

    def __init__(self, name: str, owner: JoinedFeed, span: Span, played: Played) -> None:
        self.name, self._owner = name, owner
        self.others = Companions(owner.path, owner.names, name)

        def make_judge() -> Judge | None:
            judge = played.make_judge()
            return None if judge is None else _PairedJudge(judge, name, self.others)

        path = path_of(owner.path, name)
        super().__init__(path, replace(played, span=span, make_judge=make_judge))

    def close(self) -> None:
        super().close()
        self.others.close()

    def visit(self, tick: int) -> Snapshot | None:
        found = super().visit(tick)
        return found and replace(found, pairs=self.others.of(found)[1], name=self.name)

    def overview(self) -> Overview:
        return of_all(super().overview(), map(FileFeed.overview, self._owner.feeds))

    def play_from(self, tick: int) -> None:
        sample, main = self._visited.sample_at(tick), self._owner.main
        time_unix_s = self.extent.start_unix_s if sample is None else sample.time_unix_s
        FileFeed.play_from(main, main.tick_at(time_unix_s + main.cycle_s / 2))

    def hold(self) -> None:
        FileFeed.hold(self._owner.main)

    def set_speed(self, speed: float) -> None:
        FileFeed.set_speed(self._owner.main, speed)

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        return self._owner.set_mark(text, time_unix_s)


class JoinedFeed(Closing):
    """Feeds of all hosts of a file; a context manager that ends run(); raises as FileFeed."""

    def __init__(self, path: str, names: Sequence[str], played: Played) -> None:
        self.path, self.names = path, tuple(names)
        spans = spans_of(path, names, played.span)
        self._played = played
        with ExitStack() as stack:
            made = (_HostFeed(name, self, spans[name], played) for name in names)
            self.feeds = tuple(map(stack.enter_context, made))
            self._opened = stack.pop_all()
        # The longest one is played; what lies outside of it can only be visited.
        self.main = max(self.feeds, key=lambda f: f.extent.end_unix_s - f.extent.start_unix_s)
        self._judges: dict[str, NamedJudge] = {}
        self._played_unix_s = 0.0

    @property
    def states(self) -> tuple[HostState, ...]:
        """All hosts, as recorded ones."""
        return tuple(HostState(name, is_here=True, is_recorded=True) for name in self.names)

    def run(self, report: Callable[[News], None]) -> None:
        """Play until stop(); report every interval of every host once."""
        self.main.run(lambda news: self._report(news, report))

    def _report(self, news: News, report: Callable[[News], None]) -> None:
        main = self.main
        if news.snapshot is None:
            for at in range(len(self.names) if news.error is None else 1):
                report(replace(news, host=at))
            return
        others, found = main.others.of(news.snapshot)
        shown = replace(news.snapshot, pairs=found, name=main.name)
        report(replace(news, snapshot=shown, host=self.feeds.index(main)))
        if not 0 < news.snapshot.time_unix_s - self._played_unix_s < _AGAIN_S:
            self._judges = self._new_judges()
        self._played_unix_s = news.snapshot.time_unix_s
        for name, (tick, other) in others.items():
            at = self.names.index(name)
            there = self.feeds[at].chosen(other.snapshot)
            if (judge := self._judges.get(name)) is not None:
                there = judge.judge(with_own_pairs(there, found, name))
            report(News(tick, replace(there, pairs=found, name=name), host=at))

    def _new_judges(self) -> dict[str, NamedJudge]:
        made = ((name, self._played.make_judge()) for name in self.names)
        return {name: NamedJudge(judge, name) for name, judge in made if judge is not None}

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Add a mark to every host's time line."""
        at = self.main.extent.end_unix_s if time_unix_s is None else time_unix_s
        said = [FileFeed.set_mark(feed, text, at) for feed in self.feeds]
        return said[0]

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""
        self.main.stop()

    def end(self) -> None:
        """End run() soon, and the screen with it; safe to call from a signal handler."""
        self.main.end()

    def close(self) -> None:
        """End run(), whichever thread it is in, and close the recordings."""
        self._opened.close()
