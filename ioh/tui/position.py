"""Where on the time line the screen is: following the newest interval, or at one of its own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ioh.model.feed import Extent


@dataclass(slots=True)
class Position:
    """The interval shown.

    Shape:
        ``tick`` is its number, 0 before there is any; ``is_following``: the next one told
        is shown as soon as it comes (a recording plays, live goes on).
    """

    tick: int = 0
    is_following: bool = True

    def step(self, ticks: int, extent: Extent) -> int | None:
        """The interval so many on (or back), stopping there; None where nothing can be shown."""
        return self.go(self.tick + ticks, extent)

    def go(self, tick: int, extent: Extent) -> int | None:
        """An interval by its number, or the nearest there is."""
        if extent.last < extent.first:
            return None
        self.tick = max(extent.first, min(tick, extent.last))
        self.is_following = False
        return self.tick


def next_moment(times: Sequence[float], now_unix_s: float, direction: int) -> float | None:
    """The next (1) or the previous (-1) of some sorted times; None where there is none."""
    if direction > 0:
        at = bisect_right(times, now_unix_s + 1e-3)
        return times[at] if at < len(times) else None
    at = bisect_left(times, now_unix_s - 1e-3) - 1
    return times[at] if at >= 0 else None
