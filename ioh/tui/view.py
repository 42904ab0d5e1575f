"""One machine on the screen: the interval shown, its place in time, and its past."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from ioh.model.filters import applied_options
from ioh.model.player import News, Player, TimelineEvent
from ioh.model.printable import printable
from ioh.model.snapshot import Snapshot
from ioh.tui.first_picture import STARTING
from ioh.tui.history import Past
from ioh.tui.options import ScreenOptions
from ioh.tui.prefetch import Found, Prefetch
from ioh.tui.render.compare import Compared
from ioh.tui.render.header import HeaderView
from ioh.tui.render.timeline import TimelineView, passed_moment
from ioh.tui.state import Narrow
from ioh.tui.time_navigation import FindingTimes, TimeNavigation

HISTORY_INTERVALS = 300
_NARROWED = 48  # columns
_REST = 10  # times as long as means took to read, until they are read again


class View:
    """The screen's data of one host of a player; one of several is shown.

    Shape:
        ``latest`` is the newest interval, ``shown`` the one on the screen; ``line`` is below the
        header.  ``report`` gets each past interval requested, in another thread.
    """

    def __init__(
        self, player: Player, host: int, options: ScreenOptions, report: Callable[[Found], None]
    ) -> None:
        self.player, self._options = player, options
        self.history = history = player.histories[host]
        self.latest: Snapshot | None = None
        self.shown: Snapshot | None = None
        self._latest_tick = 0
        self.findings = FindingTimes(lambda: player.overview(host))
        self.past = Past()
        self.seeker = Prefetch(history, self.past, report, HISTORY_INTERVALS)
        self.baseline = Baseline(self)
        self.travel = TimeNavigation(player, host, self.seeker.ask, self.findings, options.speed)
        self.news_s = time.monotonic()
        self.status = STARTING
        self.line = ""
        self.is_over = False

    def take(self, news: News) -> None:
        """Take a report of the player; show its interval when following."""
        self.status = news.status
        # A recording can be played again.
        self.is_over = news.is_over or (self.is_over and news.snapshot is None)
        if news.snapshot is None or news.tick is None:
            return
        self.news_s = time.monotonic()
        self.past.take(news.tick, news.snapshot)
        self.latest, self._latest_tick = news.snapshot, news.tick
        if self.travel.is_following:
            self.travel.tick = news.tick
            self.shown = news.snapshot
            # A recording that starts in the middle has a past that was not reported.
            is_live = self.player.mode == "live"
            if not is_live and self.past.missing(news.tick, 2, self.history.extent.first):
                self.seeker.ask(news.tick)

    def age_s(self) -> float | None:
        """The age of the newest interval; None if no further one is expected."""
        is_awaited = self.latest is not None and not self.is_over
        if not is_awaited or self.player.mode != "live" or not self.travel.is_following:
            return None
        return time.monotonic() - self.news_s

    def go_where(self, other: View) -> None:
        """Show the same time as another view."""
        if other.travel.is_following or other.shown is None:
            # Time runs for all of them: this one is at its newest interval.
            if not self.travel.is_following and self.latest is not None:
                self.travel.tick, self.shown = self._latest_tick, self.latest
            self.travel.is_following = True
            return
        # Matching intervals of two hosts end at most half an interval apart.
        self.travel.seek(other.shown.time_unix_s + self.history.cycle_s / 2)

    def look(self) -> bool:
        """Ask for a new line below the header and new findings; return whether there are any."""
        before = self.line
        self.line = before if self._options.line is None else self._options.line()
        return self.line != before or self.findings.look()

    def header(self, narrow: Narrow | None) -> HeaderView:
        """The data of the first line."""
        is_live = self.player.mode == "live"
        how = "ended" if self.is_over else "live" if is_live else "playing"
        # A disk is on itself: print the name once.
        only = [f"only {' '.join(dict.fromkeys(narrow.key))}"] if narrow else []
        options = [self._options.filters_text] if self._options.filters_text else []
        if self.shown and not options:  # a recording has them only in the layers' notes
            layers = self.shown.measured.values()
            options = [*applied_options(note for layer in layers for note in layer.notes)]
        return HeaderView(
            mode=self.player.mode,
            shown=how if self.travel.is_following else "paused",
            cycle_s=self.history.cycle_s,
            age_s=self.age_s(),
            speed=self.travel.speed,
            title=self.history.title,
            recording=self.player.recording,
            now_unix_s=time.time(),
            utc=self._options.utc,
            narrowed=printable("  ".join([*options, *only]), _NARROWED),
        )

    def timeline(self) -> TimelineView | None:
        """The time line at the interval shown; None if there is no past yet."""
        extent, shown = self.history.extent, self.shown
        if shown is None or extent.last <= extent.first:
            return None
        at, moments = shown.time_unix_s, self.history.moments()
        self.findings.take(shown)
        return TimelineView(
            extent,
            at,
            moments,
            self.findings.within(extent),
            self._options.utc,
            passed_moment(moments, at - shown.interval_s, at),
            self.findings.looked_until_unix_s(),
        )


class Baseline:
    """What the time since a mark is compared with: as many intervals before it.

    Shape:
        ``chosen`` from the list; None for the last mark before the interval shown.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self.chosen: TimelineEvent | None = None
        self._asked, self._asked_s, self._rested_s = (0, 0), 0.0, 0.0
        self._found: Found | None = None

    def marks(self) -> list[TimelineEvent]:
        """All marks, newest first, without gaps."""
        marks = (each for each in self._view.history.moments() if each.until_unix_s is None)
        return sorted(marks, key=lambda mark: -mark.time_unix_s)

    def mark(self) -> TimelineEvent | None:
        """The mark to compare at; the first if the interval shown is before it."""
        view, marks = self._view, self.marks()
        # A mark set just now is later than the interval shown.
        is_now = view.shown is None or (view.travel.is_following and view.player.mode == "live")
        until_s = inf if is_now or view.shown is None else view.shown.time_unix_s
        earlier = (mark for mark in marks if mark.time_unix_s <= until_s)
        return self.chosen or next(earlier, marks[-1] if marks else None)

    def take(self, found: Found) -> None:
        """Take the means requested; rest, so that long ones do not take all of a CPU."""
        now_s = time.monotonic()
        self._found, self._rested_s = found, now_s + _REST * (now_s - self._asked_s)

    def compared(self) -> Compared | None:
        """The data to draw; requests what is missing.  None if there is no mark."""
        view, mark, now_s = self._view, self.mark(), time.monotonic()
        if mark is None:
            return None
        # The first interval that ends after the mark.
        begin, last = view.history.tick_at(mark.time_unix_s) + 1, view.travel.tick
        is_rested = now_s >= self._rested_s or not view.travel.is_following
        if begin <= last and self._asked != (begin, last) and is_rested:
            self._asked, self._asked_s = (begin, last), now_s
            view.seeker.ask(last, "compare", begin)
        found = self._found
        means = found.means if found is not None and found.begin == begin <= last else None
        return Compared(mark, self.marks(), means, last + 1 - begin)
