"""Finds operations that cost too much to count: each event is a trap in the server."""

from __future__ import annotations

from collections.abc import Mapping

MOST_CPU = 0.2  # of one CPU, for all operations of the known servers together
MOST_CPU_NAMED = 0.1  # of the functions that the user named: any may be as short as malloc
MOST_EXCESS_S = 0.15  # of CPU time above that, until operations are dropped
CHECK_S = 0.25  # between two checks
PAUSE_S = 600.0  # then it is tried again, at that cost


class TrapBudget:
    """The CPU time that the traps of several ops take, from running totals."""

    def __init__(self, most_cpu: float) -> None:
        self._most_cpu = most_cpu
        self._last: Mapping[str, int] = {}
        self._last_s: float | None = None
        self._excess_s = 0.0

    def overload(self, spent_ns: Mapping[str, int], now_s: float) -> dict[str, float]:
        """The ops to drop, costliest first, with their shares of a CPU, until the rest is bearable.

        ``spent_ns``: running totals by op of the CPU time of its traps.
        """
        before, passed_s = self._last, now_s - (now_s if self._last_s is None else self._last_s)
        if self._last_s is not None and passed_s <= 0:
            return {}
        self._last, self._last_s = dict(spent_ns), now_s
        if not passed_s:
            return {}
        shares = {op: (ns - before.get(op, 0)) / 1e9 / passed_s for op, ns in spent_ns.items()}
        total = sum(shares.values())
        self._excess_s = max(0.0, self._excess_s + (total - self._most_cpu) * passed_s)
        if self._excess_s <= MOST_EXCESS_S:
            return {}
        self._excess_s, costly = 0.0, {}
        for op in sorted(shares, key=shares.__getitem__, reverse=True):
            if total > self._most_cpu:
                costly[op] = shares[op]
                total -= shares[op]
        return costly
