"""When findings began, for the time line: those of the whole recording, and those seen here."""

from __future__ import annotations

from ioh.model.feed import Extent, Feed, Overview
from ioh.model.finding import Finding
from ioh.model.snapshot import Snapshot

MAX_SEEN = 500


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
