"""One feed on the screen: what is shown of it, where on its time line, and what it keeps."""

from __future__ import annotations

import time
from collections.abc import Callable

from ioh.model.feed import Feed, News
from ioh.model.snapshot import Snapshot
from ioh.tui.baseline import Baseline
from ioh.tui.finding_times import FindingTimes
from ioh.tui.first_picture import STARTING
from ioh.tui.headings import Headings
from ioh.tui.options import ScreenOptions
from ioh.tui.past import Past
from ioh.tui.prefetch import Found, Prefetch
from ioh.tui.time_navigation import TimeNavigation

HISTORY_INTERVALS = 300


class View:
    """What the screen knows of one feed; of several, one is looked at.

    Shape:
        ``latest`` is the newest interval, ``shown`` the one on the screen.

    Args:
        feed: Where intervals come from.
        options: How the user wants the screen.
        tell: Gets each interval of the past that was asked for, from another thread.
    """

    def __init__(self, feed: Feed, options: ScreenOptions, tell: Callable[[Found], None]) -> None:
        self.feed = feed
        self.latest: Snapshot | None = None
        self.shown: Snapshot | None = None
        self._latest_tick = 0
        self.findings = FindingTimes(feed)
        self.past = Past()
        self.seeker = Prefetch(feed, self.past, tell, HISTORY_INTERVALS)
        self.baseline = Baseline(feed, self.seeker.compare)
        self.travel = TimeNavigation(feed, self.seeker.request, options.speed, self.findings)
        self.headings = Headings(feed, self.travel, self.findings, options)
        self.news_s = time.monotonic()
        self.status = STARTING
        self.is_over = False

    def take(self, news: News) -> None:
        """Note what the feed reports; show it where the newest interval is looked at."""
        self.status = news.status
        # A recording can be played again.
        self.is_over = news.is_over or (self.is_over and news.snapshot is None)
        if news.snapshot is None or news.tick is None:
            return
        self.news_s = time.monotonic()
        self.past.take(news.tick, news.snapshot)
        self.latest, self._latest_tick = news.snapshot, news.tick
        if self.travel.position.is_following:
            self.travel.position.tick = news.tick
            self.shown = news.snapshot
            # A recording that starts in its middle has a past that was never told.
            is_live = self.feed.mode == "live"
            if not is_live and self.past.missing(news.tick, 2, self.feed.extent.first):
                self.seeker.request(news.tick)

    def age_s(self) -> float | None:
        """How old the newest interval is; None while none is awaited."""
        is_awaited = self.latest is not None and not self.is_over
        if not is_awaited or self.feed.mode != "live" or not self.travel.position.is_following:
            return None
        return time.monotonic() - self.news_s

    def go_where(self, other: View) -> None:
        """Show the time that another view shows."""
        if other.travel.position.is_following or other.shown is None:
            # Time runs for all of them: what came last is where this one is.
            position = self.travel.position
            if not position.is_following and self.latest is not None:
                position.tick, self.shown = self._latest_tick, self.latest
            position.is_following = True
            return
        # Intervals of two hosts that belong together end within half of one.
        self.travel.actions["seek"](other.shown.time_unix_s + self.feed.cycle_s / 2, self.shown)
