"""Measure another host's clock by round trips on the stream's connection."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

from ioh.hosts.ssh import CLOCK

AGAIN_S = 60.0
_TIME = re.compile(r"[0-9]{1,12}\.[0-9]{3,9}")
_TRIPS = 5  # of which the shortest is used


def steady_clock() -> Callable[[], float]:
    """A clock of unix seconds that is never set, and continues while this machine is suspended."""
    start_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return lambda: start_s + time.clock_gettime(time.CLOCK_BOOTTIME)


class FarClock:
    """How far a host's clock is ahead of ours, ``now``; measured every minute.

    ``offset_s`` is positive if it is ahead.  Its error is at most ``error_s``, half of the shortest
    round trip.  Both are None until known.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._measured_s: float | None = None
        self.error_s: float | None = None
        self._trips: list[tuple[float, float]] = []  # error, offset
        self._number = 0
        self._asked_s: float | None = None  # when the pending question was sent
        self._due_s = now()
        # The far clock minus the far monotonic clock: at the last sample, and when we measured.
        self._newest: float | None = None
        self._then: float | None = None

    @property
    def offset_s(self) -> float | None:
        """The present offset, including changes of the far clock since the measurement."""
        if self._measured_s is None:
            return None
        return self._measured_s + (self._newest or 0.0) - (self._then or 0.0)

    def question(self) -> bytes:
        """What to send now; b"" if nothing is due."""
        if self._asked_s is not None or self._now() < self._due_s:
            return b""
        self._number += 1
        self._asked_s = self._now()
        return b"%d\n" % self._number

    def answer(self, line: str) -> bool:
        """Process a line from the far end; return whether it was an answer of the clock."""
        words = line.split()
        if not words or words[0] != CLOCK:
            return False
        sent_s, came_s = self._asked_s, self._now()
        if sent_s is None or len(words) != 3 or words[1] != str(self._number):
            return True
        self._asked_s = None
        if not _TIME.fullmatch(words[2]):  # a date command without %N
            self._due_s = math.inf
            return True
        far_s = float(words[2])
        self._trips.append(((came_s - sent_s) / 2, far_s - (sent_s + came_s) / 2))
        if self._measured_s is None or len(self._trips) >= _TRIPS:
            self.error_s, self._measured_s = min(self._trips)
            self._then = self._newest
        if len(self._trips) >= _TRIPS:
            self._trips.clear()
            self._due_s = came_s + AGAIN_S
        return True

    def ours(self, far_unix_s: float, far_mono_ns: int) -> float:
        """Our time of a sample that has just arrived: now, if the offset is unknown."""
        now = self._now()
        if not math.isfinite(far_unix_s):
            return now
        self._newest = far_unix_s - far_mono_ns / 1e9
        if self._then is None:
            self._then = self._newest
        offset_s = self.offset_s
        ours = now if offset_s is None else far_unix_s - offset_s
        return ours if abs(ours - now) < AGAIN_S else now
