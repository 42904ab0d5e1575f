"""What is kept of the intervals before the one shown: of everything, and of the row narrowed to."""

from __future__ import annotations

from ioh.model.snapshot import Snapshot
from ioh.tui.drill_down import narrowed
from ioh.tui.history import TrendHistory, TrendPoint, point_of
from ioh.tui.state import Narrow


class Past:
    """The screen's history; filled by its thread and by the seeker's."""

    def __init__(self) -> None:
        self._whole = TrendHistory()
        self._row: tuple[Narrow, TrendHistory] | None = None

    def narrow(self, to: Narrow | None) -> bool:
        """Show one row from now on, None for everything; returns whether its past must be read."""
        if to == (self._row[0] if self._row else None):
            return False
        self._row = (to, TrendHistory()) if to is not None else None
        return to is not None

    @property
    def is_narrowed(self) -> bool:
        """Whether one row is shown."""
        return self._row is not None

    def take(self, tick: int, snapshot: Snapshot, *, is_whole: bool = True) -> None:
        """Keep one more interval; one without its tables says nothing of a row."""
        self._whole.take(tick, point_of(snapshot))
        row = self._row  # the other thread may narrow to another one meanwhile
        if row is not None and is_whole:
            row[1].take(tick, point_of(narrowed(snapshot, row[0])))

    def window(self, last: int, count: int) -> list[TrendPoint | None]:
        """The ``count`` intervals up to ``last``, as narrowed; None for each that is not known."""
        return (self._row[1] if self._row else self._whole).window(last, count)

    def missing(self, last: int, count: int, first_kept: int) -> tuple[int, int] | None:
        """First and last interval of that window that are kept somewhere and not known here."""
        histories = [self._whole, *([self._row[1]] if self._row else [])]
        gaps = [gap for h in histories if (gap := h.missing(last, count, first_kept))]
        return (min(g[0] for g in gaps), max(g[1] for g in gaps)) if gaps else None
