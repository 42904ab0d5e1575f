"""Rows of a table that come and go, while their totals stay."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.sample import Row, Table, Value, others_key

_MAX_ROWS = 2000


class RunningRows:
    """Sums by key; when full, the keys idle for longest are added to one row of others."""

    def __init__(self, key_parts: int, max_rows: int = _MAX_ROWS) -> None:
        self._others = others_key(key_parts)
        self._max_rows = max_rows
        self._rows: dict[tuple[str, ...], Row] = {}

    def add(self, key: tuple[str, ...], amounts: Sequence[Value], facts: Row = ()) -> None:
        """Add ``amounts`` to a row's totals; None stays unknown.  ``facts`` are not summed."""
        before = self._rows.pop(key, None)  # re-inserted as the newest
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
        """The present rows."""
        return dict(self._rows)


def _sums(amounts: Sequence[Value], before: Row | None) -> Row:
    if before is None:
        return tuple(amounts)
    return tuple(
        None if a is None or b is None else a + b for a, b in zip(amounts, before, strict=False)
    )
