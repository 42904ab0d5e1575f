"""Play a file of several hosts: in rounds of intervals, or along with one of the hosts."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice

from ioh.model.closing import Closing
from ioh.model.errors import IohError
from ioh.model.intervals import Intervals
from ioh.model.pairs import HostInterval, HostState, Round, pairs
from ioh.model.rounds import round_edge, take_round
from ioh.model.snapshot import Pair, Snapshot
from ioh.playback.cursor import Cursor
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import Span, When, check_order, unix_s_of
from ioh.session.reader import Session
from ioh.session.records import to_text
from ioh.session.stream import Item


def path_of(path: str, host: str) -> str:
    """The path of one host's recording in a joined file; "" is the host of any other file."""
    return f"{path}#{host}" if host else path


def spans_of(path: str, names: Sequence[str], span: Span) -> dict[str, Span]:
    """Translate a span of time for every host; seconds count from the start of the first one.

    Without names, the file is of one host, "".
    IohError: no host has such a mark, or the end is not after the begin.
    """
    if not names:
        return {"": span}
    with ExitStack() as stack:
        sessions = [stack.enter_context(Session(path_of(path, name))) for name in names]
        in_order = sorted(sessions, key=lambda session: session.start_unix_s)
        begin_s = _first_known(span.begin, in_order, utc=span.utc)
        end_s = _first_known(span.end, in_order, utc=span.utc, after_unix_s=begin_s)
        check_order(span, begin_s, end_s)
        return {
            name: Span(_since(span.begin, begin_s, session), _since(span.end, end_s, session))
            for name, session in zip(names, sessions, strict=True)
        }


def _first_known(
    when: When | None,
    sessions: Sequence[Session],
    *,
    utc: bool,
    after_unix_s: float | None = None,
) -> float | None:
    errors = []
    for session in sessions:
        try:
            return unix_s_of(when, session, utc=utc, after_unix_s=after_unix_s)
        except IohError as error:  # a mark of another host  # noqa: PERF203
            errors.append(error)
    raise errors[0]


def _since(when: When | None, unix_s: float | None, session: Session) -> When | None:
    if when is None or unix_s is None:
        return None
    return When(when.text, offset_s=unix_s - session.start_unix_s)


def addresses_of(session: Session) -> tuple[str, ...]:
    """The recorded host's own addresses."""
    return tuple(map(to_text, session.header.addresses))


def joined_rounds(
    sources: Mapping[str, ReplaySource],
    make_intervals: Callable[[], Intervals],
    cycle_s: float,
    take: Callable[[str, Item], object],
) -> Iterator[Round]:
    """Play all hosts of a file: yield rounds by time, until all sources have ended.

    ``cycle_s`` is the length of an interval; ``take`` gets the items other than samples, in order,
    with their host's name.
    """

    def intervals(name: str, source: ReplaySource) -> Iterator[HostInterval]:
        addresses = () if source.session is None else addresses_of(source.session)
        for snapshot in make_intervals().each(source.samples(partial(take, name))):
            yield HostInterval(name, addresses, snapshot)

    played = {name: intervals(name, source) for name, source in sources.items()}
    ready: dict[str, deque[HostInterval]] = {name: deque() for name in played}
    edge_s = math.nan
    while True:
        for name, waiting in ready.items():
            if not waiting:
                waiting.extend(islice(played[name], 1))
        ends_s = [each[0].snapshot.time_unix_s for each in ready.values() if each]
        if not ends_s:
            return
        edge_s = round_edge(ends_s, cycle_s, edge_s)
        matching = take_round(ready, cycle_s, edge_s)
        names = {interval.name for interval in matching}
        states = tuple(HostState(name, name in names, is_recorded=True) for name in ready)
        yield Round(
            min(interval.snapshot.time_unix_s for interval in matching), tuple(matching), states
        )


# Other hosts' intervals of the same time, with their numbers, by host.
Beside = dict[str, tuple[int, HostInterval]]


class Companions(Closing):
    """Finds the other hosts' intervals for an interval of host ``own``; thread-safe."""

    def __init__(self, path: str, names: Sequence[str], own: str) -> None:
        self._path, self._names, self._own = path, names, own
        self._addresses: tuple[str, ...] = ()
        self._cycle_s = 1.0
        self._cursors: dict[str, Cursor] = {}
        self._sessions: dict[str, Session] = {}
        self._earlier: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._which = (0.0, 0.0)  # end and length of the last interval requested
        self._result: tuple[Beside, tuple[Pair, ...]] = ({}, ())

    def close(self) -> None:
        """Close the other hosts' recordings."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()

    def of(self, snapshot: Snapshot) -> tuple[Beside, tuple[Pair, ...]]:
        """Other hosts' intervals that end within half an interval of this one, and all pairs."""
        with self._lock:
            which = (snapshot.time_unix_s, snapshot.interval_s)
            if self._which != which:
                others = self._others(snapshot)
                own = HostInterval(self._own, self._addresses, snapshot)
                hosts = [own, *(there for _, there in others.values())]
                self._which, self._result = which, (others, pairs(hosts, self._earlier))
            return self._result

    def _others(self, snapshot: Snapshot) -> Beside:
        self._open()
        others: Beside = {}
        for name, session in self._sessions.items():
            until_s = snapshot.time_unix_s + self._cycle_s / 2
            end = session.tick_at(until_s)
            # At high speed, several intervals are judged as one.
            begin = min(end - 1, session.tick_at(until_s - snapshot.interval_s))
            there = self._cursors[name].between(begin, end)
            if there is not None and self._is_near(there, snapshot):
                others[name] = (end, HostInterval(name, addresses_of(session), there))
        return others

    def _is_near(self, there: Snapshot, here: Snapshot) -> bool:
        """Whether both have about the same end and length: after a gap, one may span several."""
        if abs(there.interval_s - here.interval_s) > self._cycle_s:
            return False
        return abs(there.time_unix_s - here.time_unix_s) <= self._cycle_s / 2

    def _open(self) -> None:
        if self._sessions:
            return
        for name in self._names:
            session = Session(path_of(self._path, name))
            if name == self._own:
                self._addresses = addresses_of(session)
                self._cycle_s = session.header.cycle_s
                session.close()
            else:
                self._sessions[name], self._cursors[name] = session, Cursor(session)
