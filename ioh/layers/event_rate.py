"""Finds an operation that costs too much to count: each event is a trap in the server."""

from __future__ import annotations

from collections.abc import Mapping

MOST_EVENTS_PER_S = 200_000  # 1 µs each: a fifth of a CPU
PAUSE_S = 600.0  # then it is tried again, at the cost of three readings
_EVENTS = 2  # per operation: start and end
_PATIENCE = 3  # readings in a row


class EventRate:
    """The event rate of several ops, from their running totals."""

    def __init__(self) -> None:
        self._last: Mapping[str, int] = {}
        self._last_s = 0.0
        self._too_fast = 0

    def busiest(self, totals: Mapping[str, int], now_s: float) -> tuple[str, float]:
        """The op with most events, and the events/s of all ops; ("", 0) while that is bearable.

        ``totals``: running totals by op, of the counted ops only.
        """
        before, spent_s = self._last, now_s - self._last_s
        self._last, self._last_s = totals, now_s
        if not before or spent_s <= 0:
            return "", 0.0
        events = {op: _EVENTS * (n - before.get(op, n)) for op, n in totals.items()}
        per_s = sum(events.values()) / spent_s
        self._too_fast = self._too_fast + 1 if per_s > MOST_EVENTS_PER_S else 0
        if self._too_fast < _PATIENCE:
            return "", 0.0
        self._too_fast = 0
        return max(events, key=lambda op: events[op]), per_s
