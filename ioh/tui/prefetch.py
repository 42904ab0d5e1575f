"""Fetches past intervals in a thread: first the one to show, then those near it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ioh.model.player import History, Means
from ioh.model.snapshot import Snapshot
from ioh.tui.history import ROW_INTERVALS, Past

# The screen gets the CPU for this long to draw an interval, which takes less.
DRAW_S = 0.03
# A key pressed in this time gets the CPU: searching far back for findings takes most of a second.
REST_S = 0.25
FAR = 2

# To show, with its past; up to it, to compare; only the past of the one shown.
Purpose = Literal["show", "compare", "history"]


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a request; ``snapshot`` of one to show, None if it is lost.

    Shape:
        ``means`` of the intervals from ``begin`` to ``tick`` and of as many before, to compare.
    """

    tick: int
    snapshot: Snapshot | None
    purpose: Purpose = "show"
    begin: int = 0
    means: Means = (None, None)


class Prefetch:
    """Serves only the newest request: a held arrow key needs only the last one.

    Fills ``past`` with ``span`` intervals up to the one requested; calls ``report`` in its thread.
    """

    def __init__(
        self, history: History, past: Past, report: Callable[[Found], None], span: int
    ) -> None:
        self._history, self._past, self._report, self._span = history, past, report, span
        self._asked: dict[Purpose, tuple[int, int]] = {}
        self._is_visiting = False
        self._is_over = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="seeker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current interval."""
        with self._wake:
            self._is_over = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def ask(self, tick: int, purpose: Purpose = "show", begin: int = 0) -> None:
        """Request an interval, or those from ``begin`` on; drop a request that has not started."""
        with self._wake:
            self._asked[purpose] = begin, tick
            self._wake.notify()

    @property
    def is_visiting(self) -> bool:
        """Whether an interval to show is still missing."""
        return self._is_visiting or "show" in self._asked

    def _has_other_work(self) -> bool:
        return self._is_over or "show" in self._asked

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._is_over or self._asked)
                if self._is_over:
                    return
                asked, self._is_visiting = self._asked, "show" in self._asked
                self._asked = {}
            _, tick = asked.get("show", asked.get("history", (0, 0)))
            if "show" in asked:
                found = self._history.visit(tick)
                self._is_visiting = False
                self._report(Found(tick, found))
                self._wait(DRAW_S)
            if "compare" in asked:
                self._compare(*asked["compare"])
            if tick:
                self._fill(tick)
            if "show" in asked:
                self._judge(tick)

    def _compare(self, begin: int, last: int) -> None:
        """Join intervals; later, if there is other work."""
        means = self._history.means(begin, last, lambda _: not self._has_other_work())
        if self._has_other_work():
            self._asked.setdefault("compare", (begin, last))
        else:
            self._report(Found(last, None, "compare", begin, means))

    def _wait(self, seconds: float) -> None:
        with self._wake:
            self._wake.wait_for(self._has_other_work, seconds)

    def _judge(self, tick: int) -> None:
        """Evaluate the findings last: they need several intervals before this one."""
        rested = False

        def is_wanted(left: int) -> bool:
            nonlocal rested
            if left >= FAR and not rested:
                rested = True
                self._wait(REST_S)
            return not self._has_other_work()

        judged = self._history.judge(tick, is_wanted)
        if judged is not None and not self._has_other_work():
            self._report(Found(tick, judged))

    def _fill(self, tick: int) -> None:
        last = min(self._span, ROW_INTERVALS), True  # with tables and parts, for the rows' trends
        has_read = False
        for span, is_whole in (last, (self._span, self._past.is_narrowed)):
            missing = self._past.missing(tick, span, self._history.extent.first)
            if self._has_other_work():
                return
            for at, snapshot in self._history.walk(*missing, is_whole=is_whole) if missing else ():
                self._past.take(at, snapshot, is_whole=is_whole)
                has_read = True
                if self._has_other_work():
                    return
        if has_read:
            self._report(Found(tick, None, "history"))
