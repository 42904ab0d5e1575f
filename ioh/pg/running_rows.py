"""Rows of a breakdown that only grow, however many different ones come along."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.sample import Row, Table, Value, others_key

MAX_ROWS = 2000

Key = tuple[str, ...]


class RunningRows:
    """Sums by key; those that were idle longest go into one row of all others when it is full."""

    def __init__(self, key_parts: int, max_rows: int = MAX_ROWS) -> None:
        self._others = others_key(key_parts)
        self._max_rows = max_rows
        self._rows: dict[Key, Row] = {}

    def add(self, key: Key, amounts: Sequence[Value], facts: Row = ()) -> None:
        """Add to the totals of a row; None stays unknown.

        Args:
            key: Which.
            amounts: By which each of its counters grew.
            facts: What stands behind them and is no sum.
        """
        before = self._rows.pop(key, None)  # and in again as the newest
        self._rows[key] = (*_sums(amounts, before), *facts)
        if len(self._rows) > self._max_rows:
            self._fold(len(amounts))

    def _fold(self, counters: int) -> None:
        idle = [key for key in self._rows if key != self._others][: self._max_rows // 4]
        others = self._rows.pop(self._others, None)
        facts: Row = ()
        for key in idle:
            row = self._rows.pop(key)
            others, facts = _sums(row[:counters], others), (None,) * (len(row) - counters)
        self._rows[self._others] = (*(others or ())[:counters], *facts)

    def table(self) -> Table:
        """All rows as they are now."""
        return dict(self._rows)


def _sums(amounts: Sequence[Value], before: Row | None) -> Row:
    if before is None:
        return tuple(amounts)
    return tuple(
        None if a is None or b is None else a + b for a, b in zip(amounts, before, strict=False)
    )
