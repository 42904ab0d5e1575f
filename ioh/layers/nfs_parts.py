"""Totals by file system under the names of their mounts, which come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ioh.layers.part_totals import OTHER_PARTS
from ioh.layers.per_owner_totals import Ops, OwnedTotals, has_grown
from ioh.model.sample import OTHERS, OpTotals


class Parts:
    """Names the probe's totals, which outlive the mounts: dev_t are used again, names are.

    A file system that is no longer mounted keeps its name.

    Args:
        find_name: What a dev_t is called now; None where it is not mounted (here).
    """

    def __init__(self, find_name: Callable[[int], str | None]) -> None:
        self._find_name = find_name
        self._totals = OwnedTotals()
        self._names: dict[int, str] = {}
        self._before: Mapping[int, Ops] = {}  # totals of the last reading
        self._ended: set[int] = set()  # no longer mounted, and write-back has come to its end

    def name(self, by_dev: Mapping[int, Ops]) -> dict[str, dict[str, OpTotals]]:
        """Each part's running totals."""
        for dev, ops in by_dev.items():
            found = OTHERS if dev == OTHER_PARTS else self._find_name(dev)
            if found is not None:
                self._names[dev] = found
                self._ended.discard(dev)
            elif not has_grown(self._before.get(dev, {}), ops):
                self._ended.add(dev)
            elif dev in self._ended or dev not in self._names:
                # Of another mount namespace: a new file system, or what is left of it.
                self._names[dev] = f"{dev >> 20}:{dev & 0xFFFFF}"
        self._before = by_dev
        parts = self._totals.update(by_dev, self._names.__getitem__)
        gone = parts.keys() - {self._names[dev] for dev in by_dev}
        self._totals.forget(gone)
        return {name: ops for name, ops in parts.items() if name not in gone}
