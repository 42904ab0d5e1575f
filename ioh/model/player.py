"""What the screen shows: a player of rounds, the history of each machine, and their news."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from ioh.model.closing import Closing
from ioh.model.finding import Finding, Severity
from ioh.model.pairs import HostState, Round
from ioh.model.snapshot import Snapshot

Mode = Literal["live", "replay", "demo"]
MAX_FINDINGS = 1000
JOIN_TIMEOUT_S = 5.0
IsWanted = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A mark or a gap on the time line.

    Shape:
        ``text`` is printable; only a gap has ``until_unix_s``.
    """

    time_unix_s: float
    text: str
    until_unix_s: float | None = None


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of the time line that can be visited.

    Shape:
        Intervals are numbered ``first`` to ``last``, inclusive; ``last < first``: none yet.  The
        numbers do not change; ``first`` increases when the oldest are dropped.  ``is_growing``:
        more will come.
    """

    first: int = 1
    last: int = 0
    start_unix_s: float = 0.0
    end_unix_s: float = 0.0
    is_growing: bool = True

    def nearest(self, tick: int) -> int:
        """The interval number, or the nearest available one."""
        return max(self.first, min(tick, self.last))


class FindingBegin(NamedTuple):
    """When a finding began, and the end of the first interval that reports it.

    A rule reports a problem once it has lasted some seconds.
    """

    since_unix_s: float
    severity: Severity
    told_unix_s: float


@dataclass(frozen=True, slots=True)
class Overview:
    """The findings of all kept intervals, shown or not.

    Shape:
        ``begins``: of each finding, up to ``until_unix_s``.  ``findings``: the newest ones, at
        most MAX_FINDINGS.  ``is_under_way``: the search is still running.
    """

    begins: tuple[FindingBegin, ...] = ()
    until_unix_s: float = 0.0
    is_under_way: bool = False
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingState:
    """The recording that the user started with a key, if any.

    Shape:
        ``path`` is printable, "" if none is running.  ``failure``: why the last one failed, or "".

    Units:
        ``since_unix_s`` when it began; ``size_bytes`` written so far.
    """

    path: str = ""
    since_unix_s: float = 0.0
    size_bytes: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """A report of a player, from its thread.

    Shape:
        ``tick`` and ``snapshot`` of the newest interval, or None if there is only a ``status`` to
        show (what it waits for, why it ended).  ``error`` ends the screen: one line with cause and
        next step.  ``host``: the host's index, if there are several.
    """

    tick: int | None = None
    snapshot: Snapshot | None = None
    status: str = ""
    error: BaseException | None = None
    is_over: bool = False
    host: int = 0


class PlayerEnded(Exception):  # noqa: N818 (not an error but requested)
    """Ends the screen without a message: a signal came, or the requested time is over."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Consecutive intervals as one, and how much they differ.

    Shape:
        ``snapshot`` is derived from their first and last sample, so its means and percentiles are
        of all their operations; ``count`` of them.  ``spread``: by layer and op, the standard
        deviation of fields of OpStats over them, of those known in at least two.  ``remarks`` name
        the layers that do not cover all of them.
    """

    snapshot: Snapshot
    count: int
    spread: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


Means = tuple[Mean | None, Mean | None]


class RoundSource:
    """Yields rounds as they come; a subclass needs __iter__() and stop(), the rest does nothing."""

    states: tuple[HostState, ...] = ()  # each host's present one; none for a single machine
    sample_soon: Callable[[], None] | None = None  # requests a sample now

    def __iter__(self) -> Iterator[Round]:
        """Yield rounds, in one thread."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the iteration soon; called from any thread, and from a signal handler."""
        raise NotImplementedError

    def status(self) -> str:
        """What it waits for, for the status line; printable, "" for nothing."""
        return ""

    def remark(self, snapshot: Snapshot) -> str:
        """A printable status for an interval if nothing is more urgent, or ""."""
        del snapshot
        return ""

    def set_speed(self, speed: float) -> None:
        """Set the speed, if it has one."""

    def set_cycle(self, cycle_s: float) -> bool:
        """Change the interval; return whether it did."""
        del cycle_s
        return False


class History(Protocol):
    """The past of one machine.

    visit(), judge(), walk(), means(), tick_at(), extent and moments() are called from one thread,
    while a player adds intervals in another one.  No call blocks for more than 50 ms; for walk(),
    judge() and means() this holds per interval.
    """

    @property
    def name(self) -> str:
        """The host's name as given by the user, printable; "" for a single machine."""

    @property
    def title(self) -> str:
        """The recording's printable name, "" if live."""

    @property
    def cycle_s(self) -> float:
        """The interval as requested; one that takes much longer is late."""

    @property
    def extent(self) -> Extent:
        """The part of the time line that can be visited now."""

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by its number; None if it is lost or no longer kept.

        It has findings if it was reported or judged before.
        """

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """As visit(), with findings; this reads several intervals before it.

        None as soon as ``is_wanted``, called with the number left to read, returns False.
        """

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        """Intervals, much faster than visit(); with tables and parts only if ``is_whole``."""

    def means(self, begin: int, last: int, is_wanted: IsWanted) -> Means:
        """The intervals from ``begin`` to ``last`` as one, and as many before them.

        Joined as ``ioh compare`` does.  None of each if all are lost or no longer kept, or as soon
        as ``is_wanted``, called with the number left to read, returns False.
        """

    def tick_at(self, time_unix_s: float) -> int:
        """The number of the last interval that ends by that time, within the extent."""

    def moments(self) -> tuple[TimelineEvent, ...]:
        """All kept marks and gaps, by time."""

    def overview(self) -> Overview:
        """The findings of all kept intervals."""

    def close(self) -> None:
        """Release what it uses."""


class Player(Closing):
    """What the screen shows now, of one machine or of several hosts.

    run() is called in its own thread, everything else from the main thread.  A context manager
    that ends it.

    Shape:
        ``histories``: the past of each machine.  ``names``: the hosts', none for a single machine.
        ``can_play``: whether play_from() and hold() work; a live source goes on.
    """

    can_play = False
    mode: Mode

    def __init__(self, histories: Sequence[History]) -> None:
        self.histories: Sequence[History] = tuple(histories)
        self.names = tuple(history.name for history in histories if history.name)
        self._is_stopped = self._ends_screen = False
        self._is_running = threading.Lock()

    @property
    def states(self) -> tuple[HostState, ...]:
        """The present state of each host; none for a single machine."""
        return ()

    @property
    def recording(self) -> RecordingState:
        """The state of the recording that key R started."""
        return RecordingState()

    def run(self, report: Callable[[News], None]) -> None:
        """Read until stop(); report every new interval once, at the player's pace."""
        with self._is_running:
            try:
                if not self._is_stopped:
                    self._report(report)
            except BaseException as error:  # noqa: BLE001 (raised again by the screen's thread)
                report(News(error=error, is_over=True))
            else:
                if self._ends_screen:
                    report(News(error=PlayerEnded(), is_over=True))

    def _report(self, report: Callable[[News], None]) -> None:
        """The body of run()."""
        raise NotImplementedError

    def _release(self) -> None:
        """Close what run() uses, after it has ended."""
        for history in self.histories:
            history.close()

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""
        self._is_stopped = True

    def end(self) -> None:
        """End run() soon, and the screen with it; safe to call from a signal handler."""
        self._ends_screen = True
        self.stop()

    def close(self) -> None:
        """End run(), whichever thread it is in, and release what it used."""
        self.stop()
        if self._is_running.acquire(timeout=JOIN_TIMEOUT_S):
            self._is_running.release()
            self._release()

    def overview(self, host: int = 0) -> Overview:
        """The begins of one host's findings, and all hosts' findings."""
        own = self.histories[host].overview()
        if len(self.histories) == 1:
            return own
        each = (history.overview() for history in self.histories)
        return replace(own, findings=tuple(finding for one in each for finding in one.findings))

    def set_speed(self, speed: float) -> None:
        """Set the speed of run() relative to the recording's pace; does nothing live."""

    def set_cycle(self, cycle_s: float) -> bool:
        """Read this machine at another interval from now on; False if that is not possible."""
        del cycle_s
        return False

    def play_from(self, tick: int, host: int = 0) -> None:
        """Continue a recording from an interval of one host; does nothing live."""

    def hold(self) -> None:
        """Report no new interval of a recording until play_from(); does nothing live."""

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Set a mark, now if ``time_unix_s`` is None; return a printable line about it."""
        raise NotImplementedError

    def toggle_recording(self) -> str:
        """Start or end a recording; return a printable line about it."""
        raise NotImplementedError
