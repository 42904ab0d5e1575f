"""The screen's port: what it needs of whoever reads Samples, and what passes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ioh.model.finding import Finding
from ioh.model.pairs import HostState
from ioh.model.snapshot import Snapshot

Mode = Literal["live", "replay", "demo"]
MAX_FOUND = 1000
IsWanted = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A mark or a gap on the time line.

    Shape:
        ``text`` printable; ``until_unix_s`` only for a gap.
    """

    time_unix_s: float
    text: str
    until_unix_s: float | None = None


@dataclass(frozen=True, slots=True)
class Extent:
    """What of the time line can be visited.

    Shape:
        Intervals are numbered ``first`` to ``last``, both inside; ``last < first``: none yet.
        A number stays with its interval; ``first`` grows as the oldest are dropped.
        ``is_growing``: more will come.
    """

    first: int = 1
    last: int = 0
    start_unix_s: float = 0.0
    end_unix_s: float = 0.0
    is_growing: bool = True

    def nearest(self, tick: int) -> int:
        """An interval by its number, or the nearest there is."""
        return max(self.first, min(tick, self.last))


@dataclass(frozen=True, slots=True)
class Overview:
    """What the rules found of everything kept, whether it was shown or not.

    Shape:
        ``begins``: when each finding began, as far as ``until_unix_s``; ``found``: the newest of
        them, MAX_FOUND at most; ``is_under_way``: it goes further by itself.
    """

    begins: tuple[float, ...] = ()
    until_unix_s: float = 0.0
    is_under_way: bool = False
    found: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordingState:
    """The recording that the user started with a key, if any.

    Shape:
        ``path`` printable, "" where none is under way; ``failure`` why the last one ended,
        "" where it did not fail.

    Units:
        ``since_unix_s`` when it began; ``size_bytes`` written so far.
    """

    path: str = ""
    since_unix_s: float = 0.0
    size_bytes: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """What a feed reports from its thread.

    Shape:
        ``tick`` and ``snapshot`` of the newest interval, or None where there is only a
        ``status`` to show (what it waits for, why it ended); ``error`` ends the screen:
        one line with cause and next step.  ``host``: which one's, of several.
    """

    tick: int | None = None
    snapshot: Snapshot | None = None
    status: str = ""
    error: BaseException | None = None
    is_over: bool = False
    host: int = 0


class FeedEnded(Exception):  # noqa: N818 (no error: what was asked for)
    """Ends the screen without a word: a signal came, or the time asked for is over."""


class Feed(Protocol):
    """Where the screen's intervals come from.

    run() is called in a thread of its own; visit(), judge(), walk(), tick_at(), extent and
    moments() from another one, meanwhile; the rest from the main thread.  None of them blocks for
    more than 50 ms, walk() and judge() for one interval each.
    """

    mode: Mode
    can_play: bool  # play_from() does something: what has ended can be played again
    title: str  # the recording's name, printable; "" where it is live
    cycle_s: float  # as asked for; an interval is late when it takes much longer

    @property
    def extent(self) -> Extent:
        """What can be visited now."""

    @property
    def recording(self) -> RecordingState:
        """The state of R."""

    def run(self, tell: Callable[[News], None]) -> None:
        """Read until stop(); reports every new interval once, at the feed's pace."""

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""

    def visit(self, tick: int) -> Snapshot | None:
        """One interval by its number; None where it is lost or not kept any more.

        It has findings if it was reported or judged before.
        """

    def judge(self, tick: int, is_wanted: IsWanted) -> Snapshot | None:
        """The same with its findings, for which several intervals before it are looked at.

        None as soon as ``is_wanted``, given how many are yet to be looked at, says no.
        """

    def walk(
        self, first: int, last: int, *, is_whole: bool = False
    ) -> Iterator[tuple[int, Snapshot]]:
        """Intervals, much faster than visit() for each; only ``is_whole`` has tables and parts."""

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last interval that ends not later than a time, within the extent."""

    def moments(self) -> tuple[TimelineEvent, ...]:
        """Marks and gaps of everything kept, by time."""

    def overview(self) -> Overview:
        """What was found without being visited; from the main thread."""

    def set_speed(self, speed: float) -> None:
        """Times the recording's pace at which run() reports intervals; nothing for a live feed."""

    def set_cycle(self, cycle_s: float) -> bool:
        """Read this machine at another interval from now on; False where nobody can."""

    def play_from(self, tick: int) -> None:
        """Continue from an interval of a recording; does nothing for a live feed."""

    def hold(self) -> None:
        """Report no new interval of a recording until play_from(); a live feed goes on."""

    def set_mark(self, text: str, time_unix_s: float | None) -> str:
        """Put a mark on the time line, now if it has no time; returns one printable line on it."""

    def toggle_recording(self) -> str:
        """Start or end a recording; returns one printable line saying what happened."""


@runtime_checkable
class Hosts(Protocol):
    """Feeds of several hosts that are read together; run() is that of all of them."""

    @property
    def names(self) -> Sequence[str]:
        """As the user calls the hosts; printable."""

    @property
    def feeds(self) -> Sequence[Feed]:
        """One for each."""

    @property
    def states(self) -> Sequence[HostState]:
        """How each one stands now."""

    def run(self, tell: Callable[[News], None]) -> None:
        """Read until stop(), as Feed.run()."""

    def stop(self) -> None:
        """End run() soon; safe to call from a signal handler."""
