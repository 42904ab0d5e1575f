"""Failed calls by process, operation, errno and mount: running totals."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout
from ioh.layers.flows import ABSOLUTE_PATH
from ioh.model.printable import printable
from ioh.model.rows import Rows
from ioh.model.sample import Table
from ioh.procfs.diskstats import dev_text

if TYPE_CHECKING:
    from ioh.procfs.mountinfo import MountTable

FAILURE = Layout("failure", "u32 tgid, op, dev, error;")  # error: an errno
FAILED = Layout("failed", "u64 count; char comm[16];")
_MOST = 64


class FailureTable:
    """Rows of the probe's map ``failures``."""

    def __init__(self, ops: tuple[str, ...]) -> None:
        self._ops = ops
        self._rows = Rows(5, _MOST)

    def table(self, failed: Iterable[tuple[bytes, bytes]], mounts: MountTable) -> Table:
        """Add the entries drained in this tick; return the table."""
        for key, value in failed:
            count, comm = FAILED.unpack(value)
            self._rows.add(self._row_key(key, comm, mounts), (count,))
        return self._rows.table()

    def _row_key(self, key: bytes, comm: bytes, mounts: MountTable) -> tuple[str, ...]:
        tgid, op, dev, code = FAILURE.unpack(key)
        mount = mounts.of_dev(dev)
        where = dev_text(dev) if dev else ABSOLUTE_PATH
        if mount is not None:
            where = printable(mount.mount_point)
        error = errno.errorcode.get(code, str(code))
        return str(tgid), printable(comm.split(b"\0")[0]), self._ops[op], error, where
