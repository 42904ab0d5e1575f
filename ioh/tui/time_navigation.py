"""Keys that move through time: pause, step, jump, speed; live and in a recording alike."""

from __future__ import annotations

from collections.abc import Callable

from ioh.model.feed import Feed
from ioh.model.snapshot import Snapshot
from ioh.tui.finding_times import FindingTimes
from ioh.tui.position import Position, next_moment

_CYCLES_S = (1.0, 2.0, 5.0, 10.0)
_SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
Argument = str | int | float


class TimeNavigation:
    """Where on the time line the screen is, and how it gets elsewhere.

    Args:
        feed: What there is to visit.
        request: Asks for an interval; the answer comes later.
        speed: Of a recording, to begin with.
        findings: When there were any.
    """

    def __init__(
        self,
        feed: Feed,
        request: Callable[[int], None],
        speed: float = 1.0,
        findings: FindingTimes | None = None,
    ) -> None:
        self._feed = feed
        self._findings = findings or FindingTimes(feed)
        self._request = request
        self.position = Position()
        self.speed = speed
        self.actions: dict[str, Callable[[Argument, Snapshot | None], str]] = {
            "pause": self._pause,
            "step": self._step,
            "begin": self._begin,
            "end": self._end,
            "seek": self._seek,
            "moment": self._moment,
            "speed": self._change_speed,
        }

    def _visit(self, tick: int | None) -> None:
        if tick is not None:
            self._feed.hold()
            self._request(tick)

    def _go(self, tick: int) -> None:
        self._visit(self.position.go(tick, self._feed.extent))

    def _pause(self, argument: Argument, shown: Snapshot | None) -> str:
        del argument
        if self.position.is_following and not self._is_at_the_end:
            if shown is not None:
                self.position.is_following = False
                self._feed.hold()
        else:
            self.follow()
        return ""

    @property
    def _is_at_the_end(self) -> bool:
        """Whether there is nothing left to play."""
        extent = self._feed.extent
        is_last = self.position.tick >= extent.last and not extent.is_growing
        return is_last and self._feed.can_play

    def follow(self) -> None:
        """Let time run on: a recording from where it stands, at its end anew, live from now."""
        self.position.is_following = True
        if self._is_at_the_end:
            self.position.tick = self._feed.extent.first
        if self._feed.mode != "live":
            self._feed.play_from(self.position.tick)
        elif self._feed.extent.last:
            self.position.tick = self._feed.extent.last
            self._request(self.position.tick)

    def _step(self, argument: Argument, shown: Snapshot | None) -> str:
        del shown
        self._visit(self.position.step(int(argument), self._feed.extent))
        return ""

    def _begin(self, argument: Argument, shown: Snapshot | None) -> str:
        del argument, shown
        self._go(self._feed.extent.first)
        return ""

    def _end(self, argument: Argument, shown: Snapshot | None) -> str:
        del argument, shown
        extent = self._feed.extent
        if self._feed.mode != "live":
            self._go(extent.last)
        if self._feed.mode == "live" or extent.is_growing:
            self.follow()
        return ""

    def _seek(self, argument: Argument, shown: Snapshot | None) -> str:
        del shown
        self._go(self._feed.tick_at(float(argument)))
        return ""

    def _moment(self, argument: Argument, shown: Snapshot | None) -> str:
        if shown is None:
            return ""
        forward = int(argument) > 0
        times = [m.until_unix_s or m.time_unix_s for m in self._feed.moments()]
        self._findings.take(shown)
        times += self._findings.within(self._feed.extent)
        found = next_moment(sorted(times), shown.time_unix_s, 1 if forward else -1)
        # The interval that holds a moment is the one after the last that ends before it.
        while found is not None:
            tick = self._feed.tick_at(found) + 1
            extent = self._feed.extent
            if max(extent.first, min(tick, extent.last)) != self.position.tick:
                self._go(tick)
                return ""
            found = next_moment(sorted(times), found, 1 if forward else -1)
        return "no further mark, gap or finding"

    def _change_speed(self, argument: Argument, shown: Snapshot | None) -> str:
        del shown
        by = 1 if int(argument) > 0 else -1
        if self._feed.mode == "live":
            return self._change_interval(by)
        at = min(range(len(_SPEEDS)), key=lambda i: abs(_SPEEDS[i] - self.speed)) + by
        self.speed = _SPEEDS[max(0, min(at, len(_SPEEDS) - 1))]
        self._feed.set_speed(self.speed)
        return f"speed {self.speed:g}x"

    def _change_interval(self, by: int) -> str:
        at = min(range(len(_CYCLES_S)), key=lambda i: abs(_CYCLES_S[i] - self._feed.cycle_s)) - by
        cycle_s = _CYCLES_S[max(0, min(at, len(_CYCLES_S) - 1))]
        if self._feed.set_cycle(cycle_s):
            return f"one interval every {cycle_s:g} s"
        return "what another ioh sends has that one's interval"
