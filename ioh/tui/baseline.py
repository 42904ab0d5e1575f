"""What the screen is compared with: an interval that was pinned, or the one that holds a mark."""

from __future__ import annotations

from collections.abc import Callable

from ioh.model.feed import Feed, TimelineEvent
from ioh.model.snapshot import Snapshot
from ioh.tui.render.compare import Compared


class Baseline:
    """Pins what is shown, or has a mark's interval fetched.

    Shape:
        ``snapshot`` is None until there is one; ``text`` that of its mark, "" where it has none.

    ``request`` asks for an interval of the feed by its number; take() gets the answer.
    """

    def __init__(self, feed: Feed, request: Callable[[int], None]) -> None:
        self._feed, self._request = feed, request
        self.snapshot: Snapshot | None = None
        self.text = ""
        self._asked: TimelineEvent | None = None

    def pin(self, shown: Snapshot, text: str = "") -> None:
        """Compare with this one from now on; a mark's that is being fetched is not wanted."""
        self.snapshot, self.text, self._asked = shown, text, None

    def marks(self) -> list[TimelineEvent]:
        """All there are, the newest first; a gap is none."""
        marks = (moment for moment in self._feed.moments() if moment.until_unix_s is None)
        return sorted(marks, key=lambda mark: -mark.time_unix_s)

    def nearest(self, shown: Snapshot) -> TimelineEvent | None:
        """The last mark before the interval shown, else the first one after it."""
        marks, begin_s = self.marks(), shown.time_unix_s - shown.interval_s
        before = next((mark for mark in marks if mark.time_unix_s <= begin_s), None)
        after = (mark for mark in reversed(marks) if mark.time_unix_s > shown.time_unix_s)
        return before or next(after, None)

    def ask(self, mark: TimelineEvent) -> None:
        """Have the interval fetched that holds it: the one after the last that ends before it."""
        self._asked = mark
        self._request(self._feed.extent.nearest(self._feed.tick_at(mark.time_unix_s) + 1))

    def take(self, found: Snapshot | None) -> bool:
        """Compare with what ask() brought; False where that interval is lost."""
        if self._asked is not None and found is not None:
            self.pin(found, self._asked.text)
        return found is not None

    def compared(self) -> Compared | None:
        """What the screen is to draw of it; None where there is nothing."""
        if self.snapshot is None:
            return None
        return Compared(self.snapshot, self.text, self.marks())
