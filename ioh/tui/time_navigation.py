"""Actions that move through time, live and in recordings, and when findings began."""

from __future__ import annotations

from collections.abc import Callable

from ioh.model.finding import Finding
from ioh.model.player import Extent, FindingBegin, Overview, Player
from ioh.model.snapshot import Snapshot
from ioh.terminal.line import Argument
from ioh.tui.render.findings import key_of

_CYCLES_S = (1.0, 2.0, 5.0, 10.0)
_SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_SAME_S = 1e-3  # closer moments are the same
MAX_SEEN = 500


class TimeNavigation:
    """The screen's position on the time line.

    Shape:
        ``tick`` is the number of the interval shown, 0 before the first; with ``is_following`` each
        new interval is shown; ``actions`` by the names in keys.py get the interval shown and return
        a message; ``request`` asks for an interval, which arrives later.
    """

    def __init__(
        self,
        player: Player,
        host: int,
        request: Callable[[int], None],
        findings: FindingTimes,
        speed: float = 1.0,
    ) -> None:
        self._player, self._host = player, host
        self._history, self._request, self._findings = player.histories[host], request, findings
        self.tick, self.is_following = 0, True
        self.speed = speed
        self.actions: dict[str, Callable[[Argument, Snapshot | None], str | None]] = {
            "pause": lambda _, shown: self._pause(shown),
            "step": lambda ticks, _: self._go(self.tick + int(ticks)),
            "begin": lambda *_: self._go(self._history.extent.first),
            "end": lambda *_: self._end(),
            "seek": lambda time_unix_s, _: self.seek(float(time_unix_s)),
            "moment": lambda direction, shown: self._moment(int(direction), shown),
            "speed": lambda direction, _: self._change_speed(1 if int(direction) > 0 else -1),
        }

    def _go(self, tick: int) -> None:
        """Show an interval, or the nearest one."""
        extent = self._history.extent
        if extent.last >= extent.first:
            self.tick, self.is_following = extent.nearest(tick), False
            self._player.hold()
            self._request(self.tick)

    def seek(self, time_unix_s: float) -> None:
        """Show the last interval that ends at or before a time."""
        self._go(self._history.tick_at(time_unix_s))

    def _pause(self, shown: Snapshot | None) -> None:
        if not self.is_following or self._is_at_the_end:
            self.follow()
        elif shown is not None:
            self.is_following = False
            self._player.hold()

    @property
    def _is_at_the_end(self) -> bool:
        """Whether there is nothing left to play."""
        extent = self._history.extent
        is_last = self.tick >= extent.last and not extent.is_growing
        return is_last and self._player.can_play

    def follow(self) -> None:
        """Continue: a recording from here, or from the start if it ended; live from now."""
        self.is_following = True
        if self._is_at_the_end:
            self.tick = self._history.extent.first
        if self._player.mode != "live":
            self._player.play_from(self.tick, self._host)
        elif self._history.extent.last:
            self.tick = self._history.extent.last
            self._request(self.tick)

    def _end(self) -> None:
        extent = self._history.extent
        if self._player.mode != "live":
            self._go(extent.last)
        if self._player.mode == "live" or extent.is_growing:
            self.follow()

    def _moment(self, direction: int, shown: Snapshot | None) -> str:
        if shown is None:
            return ""
        extent, now_s = self._history.extent, shown.time_unix_s
        self._findings.take(shown)
        times = [m.until_unix_s or m.time_unix_s for m in self._history.moments()]
        # The interval that ends then.
        times += [begin.told_unix_s - _SAME_S / 2 for begin in self._findings.within(extent)]
        ahead = (time_s for time_s in times if (time_s - now_s) * direction > _SAME_S)
        for time_s in sorted(ahead, reverse=direction < 0):
            # A moment is in the interval after the last one that ends before it.
            tick = extent.nearest(self._history.tick_at(time_s) + 1)
            if tick != self.tick:
                self._go(tick)
                return ""
        return "no further mark, gap or finding"

    def _change_speed(self, by: int) -> str:
        if self._player.mode == "live":
            cycle_s = _next(_CYCLES_S, self._history.cycle_s, -by)
            if self._player.set_cycle(cycle_s):
                return f"interval: {cycle_s:g} s"
            return "the ioh that sends the data sets the interval"
        self.speed = _next(_SPEEDS, self.speed, by)
        self._player.set_speed(self.speed)
        return f"speed {self.speed:g}x"


def _next(scale: tuple[float, ...], now: float, by: int) -> float:
    """The value ``by`` steps from the one nearest to ``now``, within the scale."""
    at = min(range(len(scale)), key=lambda i: abs(scale[i] - now)) + by
    return scale[max(0, min(at, len(scale) - 1))]


class FindingTimes:
    """A machine's findings: those of the player's search, and those seen on the screen."""

    def __init__(self, overview: Callable[[], Overview]) -> None:
        self._search = overview
        self._critical: set[str] = set()
        self._overview = Overview()
        self._seen: dict[str, tuple[Finding, float]] = {}  # and the first interval that has it

    def take(self, shown: Snapshot) -> None:
        """Note the findings of an interval on the screen."""
        for finding in shown.findings:
            key = key_of(finding)
            _, first_s = self._seen.get(key, (finding, shown.time_unix_s))
            self._seen[key] = finding, min(first_s, shown.time_unix_s)
        while len(self._seen) > MAX_SEEN:
            self._seen.pop(next(iter(self._seen)))

    def look(self) -> bool:
        """Ask the player again; return whether there is more to show."""
        before, now = self._overview, self._search()
        self._overview = now
        return before.begins != now.begins or (
            (before.until_unix_s, before.is_under_way) != (now.until_unix_s, now.is_under_way)
            and (before.is_under_way or now.is_under_way)
        )

    def within(self, extent: Extent) -> list[FindingBegin]:
        """The begin of each finding that can be visited."""
        known = self._overview
        # Where the player has searched, it knows more than the screen, which saw some intervals.
        seen = (FindingBegin(f.since_unix_s, f.severity, at) for f, at in self._seen.values())
        begins = (*known.begins, *(each for each in seen if each.since_unix_s > known.until_unix_s))
        first, last = extent.start_unix_s, extent.end_unix_s
        return [begin for begin in begins if first <= begin.since_unix_s <= last]

    def found(self) -> tuple[Finding, ...]:
        """All known findings; those seen come last, because they have more evidence."""
        return (*self._overview.findings, *(finding for finding, _ in self._seen.values()))

    def looked_until_unix_s(self) -> float | None:
        """How far the player has searched; None if it is done or does not search."""
        known = self._overview
        return known.until_unix_s if known.is_under_way else None

    def is_new_critical(self, newest: Snapshot) -> bool:
        """Whether the newest interval has a new critical finding."""
        critical = {key_of(f) for f in newest.findings if f.severity == "critical"}
        is_new, self._critical = not critical <= self._critical, critical
        return is_new
