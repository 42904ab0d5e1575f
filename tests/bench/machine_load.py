"""How much of the machine's time its host gave to others: figures of a busy host prove nothing."""

from __future__ import annotations

from pathlib import Path

_STEAL = 7  # column of the first line of /proc/stat, without its name
_COUNTED = 8  # guest time, behind these, is part of user time


class StealClock:
    """Share of CPU time stolen since it was made."""

    def __init__(self) -> None:
        self._then = self._read()

    @staticmethod
    def _read() -> list[int]:
        first = Path("/proc/stat").read_text().split("\n", 1)[0]
        return [int(n) for n in first.split()[1 : 1 + _COUNTED]]

    def steal_pct(self) -> float:
        spent = [b - a for a, b in zip(self._then, self._read(), strict=True)]
        return 100 * spent[_STEAL] / max(1, sum(spent))
