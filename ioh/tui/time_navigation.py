"""Keys that move through time, live and in a recording alike, and when findings began."""

from __future__ import annotations

from collections.abc import Callable

from ioh.model.feed import Extent, Feed, Overview
from ioh.model.finding import Finding
from ioh.model.snapshot import Snapshot

_CYCLES_S = (1.0, 2.0, 5.0, 10.0)
_SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
Argument = str | int | float
_SAME_S = 1e-3  # moments closer to each other are one
MAX_SEEN = 500


class TimeNavigation:
    """Where on the time line the screen is, and how it gets elsewhere.

    Shape:
        ``tick`` is the number of the interval shown, 0 before there is any; ``is_following``: the
        next one told is shown as soon as it comes; ``actions`` by the names of keys.py, each gets
        the interval shown and returns what to say.
        ``request`` asks for an interval; the answer comes later.
    """

    def __init__(
        self,
        feed: Feed,
        request: Callable[[int], None],
        findings: FindingTimes,
        speed: float = 1.0,
    ) -> None:
        self._feed, self._request, self._findings = feed, request, findings
        self.tick, self.is_following = 0, True
        self.speed = speed
        self.actions: dict[str, Callable[[Argument, Snapshot | None], str | None]] = {
            "pause": lambda _, shown: self._pause(shown),
            "step": lambda ticks, _: self._go(self.tick + int(ticks)),
            "begin": lambda *_: self._go(feed.extent.first),
            "end": lambda *_: self._end(),
            "seek": lambda time_unix_s, _: self.seek(float(time_unix_s)),
            "moment": lambda direction, shown: self._moment(int(direction), shown),
            "speed": lambda direction, _: self._change_speed(1 if int(direction) > 0 else -1),
        }

    def _go(self, tick: int) -> None:
        """Show an interval, or the nearest there is."""
        extent = self._feed.extent
        if extent.last >= extent.first:
            self.tick, self.is_following = extent.nearest(tick), False
            self._feed.hold()
            self._request(self.tick)

    def seek(self, time_unix_s: float) -> None:
        """Show the last interval that ends not later than a time."""
        self._go(self._feed.tick_at(time_unix_s))

    def _pause(self, shown: Snapshot | None) -> None:
        if not self.is_following or self._is_at_the_end:
            self.follow()
        elif shown is not None:
            self.is_following = False
            self._feed.hold()

    @property
    def _is_at_the_end(self) -> bool:
        """Whether there is nothing left to play."""
        extent = self._feed.extent
        is_last = self.tick >= extent.last and not extent.is_growing
        return is_last and self._feed.can_play

    def follow(self) -> None:
        """Let time run on: a recording from where it stands, at its end anew, live from now."""
        self.is_following = True
        if self._is_at_the_end:
            self.tick = self._feed.extent.first
        if self._feed.mode != "live":
            self._feed.play_from(self.tick)
        elif self._feed.extent.last:
            self.tick = self._feed.extent.last
            self._request(self.tick)

    def _end(self) -> None:
        extent = self._feed.extent
        if self._feed.mode != "live":
            self._go(extent.last)
        if self._feed.mode == "live" or extent.is_growing:
            self.follow()

    def _moment(self, direction: int, shown: Snapshot | None) -> str:
        if shown is None:
            return ""
        extent, now_s = self._feed.extent, shown.time_unix_s
        self._findings.take(shown)
        times = [m.until_unix_s or m.time_unix_s for m in self._feed.moments()]
        times += self._findings.within(extent)
        if direction > 0:
            ahead = sorted(time_s for time_s in times if time_s > now_s + _SAME_S)
        else:
            ahead = sorted((time_s for time_s in times if time_s < now_s - _SAME_S), reverse=True)
        for time_s in ahead:
            # The interval that holds a moment is the one after the last that ends before it.
            tick = extent.nearest(self._feed.tick_at(time_s) + 1)
            if tick != self.tick:
                self._go(tick)
                return ""
        return "no further mark, gap or finding"

    def _change_speed(self, by: int) -> str:
        if self._feed.mode == "live":
            cycle_s = _next(_CYCLES_S, self._feed.cycle_s, -by)
            if self._feed.set_cycle(cycle_s):
                return f"interval: {cycle_s:g} s"
            return "the ioh that sends the data sets the interval"
        self.speed = _next(_SPEEDS, self.speed, by)
        self._feed.set_speed(self.speed)
        return f"speed {self.speed:g}x"


def _next(scale: tuple[float, ...], now: float, by: int) -> float:
    """The value so many further than the one nearest to ``now``, within the scale."""
    at = min(range(len(scale)), key=lambda i: abs(scale[i] - now)) + by
    return scale[max(0, min(at, len(scale) - 1))]


class FindingTimes:
    """What is known of a feed's findings: what it looked at by itself, and what was seen here."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._critical: set[tuple[str, str, str, float]] = set()
        self._overview = Overview()
        self._seen: dict[tuple[str, str, str, float], Finding] = {}  # in the order seen

    def take(self, shown: Snapshot) -> None:
        """Note the findings of an interval on the screen."""
        for finding in shown.findings:
            self._seen[finding.host, finding.rule, finding.subject, finding.since_unix_s] = finding
        while len(self._seen) > MAX_SEEN:
            self._seen.pop(next(iter(self._seen)))

    def look(self) -> bool:
        """Ask the feed again; whether there is more to show."""
        before, now = self._overview, self._feed.overview()
        self._overview = now
        return before.begins != now.begins or (
            (before.until_unix_s, before.is_under_way) != (now.until_unix_s, now.is_under_way)
            and (before.is_under_way or now.is_under_way)
        )

    def within(self, extent: Extent) -> list[float]:
        """When each one began, of those that can be visited."""
        known = self._overview
        # Where the feed has looked by itself, it knows better than a glance at some intervals.
        later = [since for *_, since in self._seen if since > known.until_unix_s]
        begins = (*known.begins, *later)
        return [since for since in begins if extent.start_unix_s <= since <= extent.end_unix_s]

    def found(self) -> tuple[Finding, ...]:
        """All that is known of: what was seen says more than what was found on the way."""
        return (*self._overview.found, *self._seen.values())

    def looked_until_unix_s(self) -> float | None:
        """How far the feed has looked; None where it is done, or does not look."""
        known = self._overview
        return known.until_unix_s if known.is_under_way else None

    def is_new_critical(self, newest: Snapshot) -> bool:
        """Whether a critical finding of the newest interval was not there before."""
        critical = {
            (found.host, found.rule, found.subject, found.since_unix_s)
            for found in newest.findings
            if found.severity == "critical"
        }
        is_new, self._critical = not critical <= self._critical, critical
        return is_new
