"""What the first lines say: the header's and the time line's view of the feed."""

from __future__ import annotations

import time

from ioh.model.feed import Feed
from ioh.model.filters import options_told
from ioh.model.printable import printable
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.tui.finding_times import FindingTimes
from ioh.tui.options import ScreenOptions
from ioh.tui.render.header import HeaderView
from ioh.tui.render.timeline import TimelineView, passed_moment
from ioh.tui.state import Narrow
from ioh.tui.time_navigation import TimeNavigation

_NARROWED = 48  # columns


class Headings:
    """Says what the first lines show now.

    Args:
        feed: Where intervals come from.
        travel: Where on the time line the screen is.
        findings: When there were any.
        options: How the user wants the screen.
    """

    def __init__(
        self,
        feed: Feed,
        travel: TimeNavigation,
        findings: FindingTimes,
        options: ScreenOptions,
    ) -> None:
        self._feed, self._travel, self._findings = feed, travel, findings
        self._options = options
        self.line = ""

    def look(self) -> bool:
        """Whether the line below the header has changed; ``line`` is then the new one."""
        before = self.line
        self.line = before if self._options.line is None else self._options.line()
        return self.line != before

    def header(
        self,
        shown: Snapshot | None,
        narrow: Narrow | None,
        age_s: float | None,
        *,
        is_over: bool,
    ) -> HeaderView:
        """The first line's.

        Args:
            shown: The interval on the screen.
            narrow: The row that it is narrowed to.
            age_s: How old the newest interval is, None while none is awaited.
            is_over: Whether no other will come by itself.
        """
        if is_over and self._travel.position.is_following:
            how = "ended"
        elif self._travel.position.is_following:
            how = "live" if self._feed.mode == "live" else "playing"
        else:
            how = "paused"
        # A disk is on itself.
        only = [f"only {' '.join(dict.fromkeys(narrow.key))}"] if narrow else []
        options = [self._options.filters_text] if self._options.filters_text else _told(shown)
        return HeaderView(
            mode=self._feed.mode,
            shown=how,
            cycle_s=self._feed.cycle_s,
            age_s=age_s,
            speed=self._travel.speed,
            title=self._feed.title,
            recording=self._feed.recording,
            now_unix_s=time.time(),
            utc=self._options.utc,
            narrowed=printable("  ".join([*options, *only]), _NARROWED),
        )

    def timeline(self, shown: Snapshot | None) -> TimelineView | None:
        """The time line's, for the interval shown; None where there is nothing to visit yet."""
        extent = self._feed.extent
        if shown is None or extent.last <= extent.first:
            return None
        at, moments = shown.time_unix_s, self._feed.moments()
        text = passed_moment(moments, at - shown.interval_s, at)
        self._findings.take(shown)
        return TimelineView(
            extent,
            at,
            moments,
            self._findings.within(extent),
            self._options.utc,
            text,
            self._findings.looked_until_unix_s(),
        )


def _told(shown: Snapshot | None) -> list[str]:
    """What layers say of options that they apply; of a recording nobody else does."""
    layers = shown.layers.values() if shown else ()
    notes = (note for x in layers if isinstance(x, LayerSnapshot) for note in x.notes)
    return list(options_told(notes))
