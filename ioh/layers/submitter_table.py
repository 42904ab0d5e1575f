"""Block requests by submitting process: running totals that outlive the probe's entries."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ioh.model.printable import printable
from ioh.model.sample import Table

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

_SUBMITTER = struct.Struct("=II16s")  # tgid, write, comm
_IDLE_TICKS = 60
# Above this share of the map, drop idle entries after one tick.  Otherwise a host that starts
# hundreds of processes a second has no room for new ones.
_CROWDED_SHARE = 4
_CROWDED_IDLE_TICKS = 1


class SubmitterTable:
    """Reads and writes by submitting process; kernel threads appear under their own names.

    Entries that have been idle for long are removed from the map together with their rows, or
    short-lived processes would fill it over the weeks.
    """

    def __init__(self) -> None:
        self._tick = 0
        self._seen: dict[bytes, tuple[int, int, int]] = {}  # count, bytes, tick of last change
        self._rows: dict[tuple[str, ...], tuple[int, ...]] = {}

    def read(self, submitters: Map) -> Table:
        """Add everything submitted since the last tick; return the table."""
        self._tick += 1
        idle: list[tuple[bytes, tuple[int, int, int]]] = []
        is_crowded = len(self._seen) > submitters.spec.max_entries // _CROWDED_SHARE
        idle_ticks = _CROWDED_IDLE_TICKS if is_crowded else _IDLE_TICKS
        for key, (count, made, merged) in submitters.sums(3):
            size = made + merged
            before = self._seen.get(key, (0, 0, 0))
            if (count, size) != before[:2]:  # a merged bio adds only bytes
                self._add(key, count - before[0], size - before[1])
                self._seen[key] = (count, size, self._tick)
            elif self._tick - before[2] > idle_ticks:
                idle.append((key, before))
        # Last: now it is known whether the row's other direction came back in this tick.
        for key, before in idle:
            self._retire(submitters, key, before)
        return dict(self._rows)

    def _row_key(self, key: bytes) -> tuple[tuple[str, ...], int]:
        tgid, write, comm = _SUBMITTER.unpack(key)
        return (str(tgid), printable(comm.split(b"\0")[0])), write

    def _add(self, key: bytes, count: int, size: int) -> None:
        row_key, write = self._row_key(key)
        row = list(self._rows.get(row_key, (0, 0, 0, 0)))
        row[2 * write] += count
        row[2 * write + 1] += size
        self._rows[row_key] = tuple(row)

    def _retire(self, submitters: Map, key: bytes, seen: tuple[int, int, int]) -> None:
        """Drop an idle entry; keep the row if it was used again in between."""
        value = submitters.take(key)
        del self._seen[key]
        if value is not None:
            count, *sizes = submitters.sum_cpus(value)
            size = sum(sizes)
            if (count, size) != seen[:2]:
                self._add(key, count - seen[0], size - seen[1])
                return
        row_key, write = self._row_key(key)
        sibling = _SUBMITTER.pack(*_SUBMITTER.unpack(key)[:1], 1 - write, key[8:])
        if sibling not in self._seen:
            self._rows.pop(row_key, None)
