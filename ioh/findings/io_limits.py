"""I/O limits of control groups, and how much of them is used."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from ioh.findings.devices import devices
from ioh.findings.window import RecentIntervals
from ioh.model.snapshot import TableRow

# Shares of the limit, in %: with less it is not reached, with more I/O outside it uses the device.
USED_MIN_PCT, USED_MAX_PCT = 90.0, 110.0


class IoLimit(NamedTuple):
    """A limit of a control group on a device.

    Shape:
        ``row``: of the table ``limit`` of layer block.  ``unit``: ``bytes`` or ``ops``.

    Units:
        ``value``: of the whole device, and ``limit``: per second.
    """

    row: TableRow
    op: str
    unit: str
    value: float
    limit: float

    def is_reached(self, least_pct: float = USED_MIN_PCT, most_pct: float = USED_MAX_PCT) -> bool:
        """Whether the device does as much as the limit allows."""
        return least_pct <= 100 * self.value / self.limit <= most_pct

    @property
    def command(self) -> str:
        """The command that shows the limit; "" if a recording lacks the cgroup version."""
        version, group = self.row.values.get("cgroup_version"), self.row.key[0]
        # Names need quotes: systemd's contain backslashes, others may contain anything.
        if version == 2:
            return f"cat {shlex.quote(f'/sys/fs/cgroup{group}/io.max')}"
        folder = shlex.quote(f"/sys/fs/cgroup/blkio{group}")
        return f"grep . {folder}/blkio.throttle.{self.op}_*_device" if version == 1 else ""


def io_limits(recent: RecentIntervals) -> Iterator[IoLimit]:
    """Each limit on a device with I/O."""
    rows = recent[-1].rows("block", "limit")
    for op in ("read", "write") if rows else ():
        sums = {device.name: device.sum for device in devices(recent, op)}
        for row in rows:
            total = sums.get(row.key[1])
            for unit in ("bytes", "ops") if total is not None else ():
                if limit := row.values.get(f"{op}_limit_{unit}_per_s"):
                    value: float = getattr(total, f"{unit}_per_s")
                    yield IoLimit(row, op, unit, value, limit)
