"""Fetches intervals of the past in a thread: the one wanted at once, then those around it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ioh.model.feed import Feed
from ioh.model.snapshot import Snapshot
from ioh.tui.past import Past

# So long the screen has a CPU to itself to draw what was found: longer than that takes.
DRAW_S = 0.03
# Who goes from key to key gets the CPU; looking far back for findings takes most of a second of it.
REST_S = 0.25
FAR = 2


@dataclass(frozen=True, slots=True)
class Found:
    """What a request brought.

    Shape:
        ``snapshot`` None where that interval is lost; ``is_history``: only the history around
        it has grown, ``snapshot`` says nothing; ``is_baseline``: compare() asked for it.
    """

    tick: int
    snapshot: Snapshot | None
    is_history: bool = False
    is_baseline: bool = False


class Prefetch:
    """Serves the newest request only: who holds an arrow key down wants the last one.

    Args:
        feed: Where intervals come from.
        past: Filled with what lies before the interval wanted.
        tell: Called from the thread with each result.
        span: How many intervals of history are wanted.
    """

    def __init__(self, feed: Feed, past: Past, tell: Callable[[Found], None], span: int) -> None:
        self._feed = feed
        self._past = past
        self._tell = tell
        self._span = span
        self._wanted: int | None = None
        self._to_fill: int | None = None
        self._to_compare: int | None = None
        self._is_visiting = False
        self._is_over = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="seeker", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """End within the present interval."""
        with self._wake:
            self._is_over = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def request(self, tick: int) -> None:
        """Ask for an interval; what was asked for before and not begun is forgotten."""
        with self._wake:
            self._wanted = tick
            self._wake.notify()

    @property
    def is_visiting(self) -> bool:
        """Whether an interval that was asked for has not arrived yet."""
        return self._is_visiting or self._wanted is not None

    def fill(self, tick: int) -> None:
        """Ask for the past of an interval that is shown already."""
        with self._wake:
            self._to_fill = tick
            self._wake.notify()

    def compare(self, tick: int) -> None:
        """Ask for an interval that the one shown is compared with."""
        with self._wake:
            self._to_compare = tick
            self._wake.notify()

    def _next(self) -> tuple[int | None, int | None, int | None] | None:
        """The intervals to visit, to compare with, and to read the past of; None in the end."""
        with self._wake:
            self._wake.wait_for(
                lambda: self._has_other_work() or self._to_fill is not None, timeout=None
            )
            work = self._wanted, self._to_compare, self._to_fill
            self._is_visiting = self._wanted is not None
            self._wanted = self._to_compare = self._to_fill = None
            return None if self._is_over else work

    def _has_other_work(self) -> bool:
        return self._wanted is not None or self._to_compare is not None or self._is_over

    def _run(self) -> None:
        while (work := self._next()) is not None:
            tick, to_compare, to_fill = work
            if to_compare is not None:
                self._tell(Found(to_compare, self._feed.visit(to_compare), is_baseline=True))
            if tick is not None:
                found = self._feed.visit(tick)
                self._is_visiting = False
                self._tell(Found(tick, found))
                self._wait(DRAW_S)
                self._fill(tick)
                self._judge(tick)
            elif to_fill is not None:
                self._fill(to_fill)

    def _wait(self, seconds: float) -> None:
        with self._wake:
            self._wake.wait_for(self._has_other_work, seconds)

    def _judge(self, tick: int) -> None:
        """Findings come last: they take a look at several intervals before."""
        rested = False

        def is_wanted(left: int) -> bool:
            nonlocal rested
            if left >= FAR and not rested:
                rested = True
                self._wait(REST_S)
            return not self._has_other_work()

        judged = self._feed.judge(tick, is_wanted)
        if judged is not None and not self._has_other_work():
            self._tell(Found(tick, judged))

    def _fill(self, tick: int) -> None:
        missing = self._past.missing(tick, self._span, self._feed.extent.first)
        if missing is None or self._has_other_work():
            return
        is_whole = self._past.is_narrowed  # by tables and parts
        for at, snapshot in self._feed.walk(*missing, is_whole=is_whole):
            self._past.take(at, snapshot, is_whole=is_whole)
            if self._has_other_work():
                return
        self._tell(Found(tick, None, is_history=True))
