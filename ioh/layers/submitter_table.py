"""Block requests by submitting process: running totals that outlive the probe's entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout
from ioh.model.printable import printable
from ioh.model.rows import IDLE_TICKS, Rows
from ioh.model.sample import Table

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

SUBMITTER = Layout("submitter", "u32 tgid, write; char comm[16];")
SUBMITTED = Layout("submitted", "u64 count, bytes, merged_bytes;")
_MOST = 4096
# Above this share of the map, drop idle entries after one tick.  Otherwise a host that starts
# hundreds of processes a second has no room for new ones.
_CROWDED_SHARE = 4
_CROWDED_IDLE_TICKS = 1


class SubmitterTable:
    """Reads and writes by submitting process; kernel threads appear under their own names.

    Entries that have been idle for long are removed from the map, or short-lived processes would
    fill it over the weeks.
    """

    def __init__(self) -> None:
        self._tick = 0
        self._last: dict[bytes, tuple[int, int, int]] = {}  # count, bytes, tick of last change
        self._rows = Rows(2, _MOST)

    def read(self, submitters: Map) -> Table:
        """Add everything submitted since the last tick; return the table."""
        self._tick += 1
        is_crowded = len(self._last) > submitters.spec.max_entries // _CROWDED_SHARE
        idle_ticks = _CROWDED_IDLE_TICKS if is_crowded else IDLE_TICKS
        for key, (count, made_bytes, merged_bytes) in submitters.sums(SUBMITTED.words):
            size = made_bytes + merged_bytes
            before = self._last.get(key, (0, 0, 0))
            if (count, size) != before[:2]:  # a merged bio adds only bytes
                self._add(key, count - before[0], size - before[1])
                self._last[key] = (count, size, self._tick)
            elif self._tick - before[2] > idle_ticks:
                self._retire(submitters, key)
        return self._rows.table()

    def _add(self, key: bytes, count: int, size: int) -> None:
        tgid, write, comm = SUBMITTER.unpack(key)
        name = printable(comm.split(b"\0")[0])
        self._rows.add((str(tgid), name), (0, 0, count, size) if write else (count, size, 0, 0))

    def _retire(self, submitters: Map, key: bytes) -> None:
        """Drop an idle entry, and add what it has counted since it was read."""
        value = submitters.take(key)
        count, size, _ = self._last.pop(key)
        if value is not None:
            now, *sizes = submitters.sum_cpus(value)
            if (now, sum(sizes)) != (count, size):
                self._add(key, now - count, sum(sizes) - size)
