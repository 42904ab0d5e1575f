"""Running totals by key, for a table: the totals of dropped rows move to one row of others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from operator import add

from ioh.model.sample import Row, Table, Value, others_key

# More than the tallest terminal shows, and few enough for a host that opens thousands of files a
# second.
MAX_ROWS = 256
IDLE_TICKS = 60
FOREVER = sys.maxsize

Key = tuple[str, ...]


class Rows:
    """Running totals by key; the rows of a table add up to everything ever added.

    Rows that nothing was added to for ``idle_ticks`` tables, and those above ``most``, the longest
    idle ones first, become part of the row of the others; derive_table() does not take that for
    activity.  Keys have ``key_parts`` parts; a row ends with ``facts`` values that are not summed.
    """

    def __init__(
        self, key_parts: int, most: int = MAX_ROWS, idle_ticks: int = IDLE_TICKS, facts: int = 0
    ) -> None:
        self.most, self._idle_ticks, self._facts = most, idle_ticks, facts
        self._others_key = others_key(key_parts)
        self._others: Row = ()
        self._rows: dict[Key, Row] = {}  # the longest idle first
        self._changed: dict[Key, int] = {}  # the tick of the last addition
        self._tick = 0
        self.dropped: list[Key] = []  # by the last table()

    def add(self, key: Key, amounts: Sequence[Value], facts: Row = ()) -> None:
        """Add to a row's totals, which become unknown with None; replace its facts."""
        before = self._rows.pop(key, None)
        total = tuple(amounts) if before is None else _sums(before, amounts)
        self._rows[key] = (*total, *facts) if facts else total
        self._changed[key] = self._tick

    def add_to_others(self, amounts: Sequence[Value]) -> None:
        """Add what is not told apart."""
        self._others = _sums(self._others, amounts) if self._others else tuple(amounts)

    def table(self) -> Table:
        """All rows, once a tick; a table that was returned never changes."""
        rows, oldest = self._rows, self._tick - self._idle_ticks
        self.dropped = list(islice(rows, max(0, len(rows) - self.most)))
        for key in islice(rows, len(self.dropped), None):
            if self._changed[key] >= oldest:
                break
            self.dropped.append(key)
        for key in self.dropped:
            row = rows.pop(key)
            self.add_to_others(row[: len(row) - self._facts])
            del self._changed[key]
        self._tick += 1
        table = dict(rows)
        if any(self._others):
            table[self._others_key] = (*self._others, *(None,) * self._facts)
        return table


def _sums(before: Row, amounts: Sequence[Value]) -> Row:
    try:
        return tuple(map(add, before, amounts))
    except TypeError:  # some are unknown
        pairs = zip(before, amounts, strict=False)
        return tuple(None if a is None or b is None else a + b for a, b in pairs)
