"""Failed calls by process, operation, errno and mount: running totals."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ioh.model.printable import printable
from ioh.model.sample import Table, others_key
from ioh.procfs.diskstats import split_dev

if TYPE_CHECKING:
    from ioh.procfs.mountinfo import MountTable

_KEY = struct.Struct("=IIII")  # tgid, op, dev, errno
_VALUE = struct.Struct("=Q16s")  # count, comm
_MOST = 64
_IDLE_TICKS = 60

Key = tuple[str, ...]


class FailureTable:
    """Rows of the probe's map ``failures``; those idle for a minute are dropped.

    A failure beyond the most rows counts for the row of the others.
    """

    def __init__(self, ops: tuple[str, ...]) -> None:
        self._ops = ops
        self._tick = 0
        self._totals: dict[Key, int] = {}
        self._touched: dict[Key, int] = {}

    def table(self, failed: Iterable[tuple[bytes, bytes]], mounts: MountTable) -> Table:
        """Add the entries drained in this tick; return the table."""
        self._tick += 1
        for key, value in failed:
            count, comm = _VALUE.unpack(value)
            row = self._row_key(key, comm, mounts)
            if row not in self._totals and len(self._totals) >= _MOST:
                row = others_key(len(row))
            self._totals[row] = self._totals.get(row, 0) + count
            self._touched[row] = self._tick
        for row in [row for row, at in self._touched.items() if self._tick - at > _IDLE_TICKS]:
            del self._totals[row], self._touched[row]
        return {row: (count,) for row, count in self._totals.items()}

    def _row_key(self, key: bytes, comm: bytes, mounts: MountTable) -> Key:
        tgid, op, dev, code = _KEY.unpack(key)
        mount = mounts.of_dev(dev)
        where = "{}:{}".format(*split_dev(dev)) if mount is None else printable(mount.mount_point)
        error = errno.errorcode.get(code, str(code))
        return str(tgid), printable(comm.split(b"\0")[0]), self._ops[op], error, where
