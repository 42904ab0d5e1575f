"""Counts the requests for which the kernel did not run the probe."""

from __future__ import annotations

from operator import sub
from typing import NamedTuple

from ioh.layers.block_rows import Parts
from ioh.layers.per_owner_totals import Ops

# /proc/diskstats counts write zeroes and zone appends as writes.  It counts flushes only if the
# queue has a write cache, so they are left out.  Except: a flush that request-based dm (multipath)
# sends down is not part of a flush sequence of the disk below and counts as a read
# (op_stat_group()).  Passthrough commands (SG_IO) count as reads or writes on 5.10, where they have
# times.  Later kernels give them no times and count them nowhere; neither reading has those.
_COUNTED = ("read", "write", "write_zeroes", "zone_append", "discard")


class _Counts(NamedTuple):
    requests: int
    flushes: int
    commands: int


_NONE = _Counts(0, 0, 0)


class UnseenRequests:
    """By device, how many more requests /proc/diskstats counted than the probe.

    A kernel can skip raw tracepoint programs on top of certain tasks without counting a miss.  A
    sandbox's Linux 6.18 did so for each completion whose interrupt came while a thread of the
    sandbox's agent ran: mostly below 0.3 % of all.  Both sides start at 0 with the first note().
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._start: dict[str, _Counts] = {}
        self._probed: dict[str, _Counts] = {}
        self._requests: dict[str, int] = {}
        self._unseen: dict[str, int] = {}
        self._before = 0
        self._last: tuple[Parts, Parts] = {}, {}

    def note(self, disks: Parts, probed: Parts) -> int:
        """Compare two readings; return all unseen requests so far, which never goes down.

        ``disks``: growth of diskstats since its first reading; ``probed``: the probe's totals since
        attach.  A device missing in ``probed`` may have no requests at all (dm, md, zram) and is
        left out.  Read diskstats before the probe's maps, but after them for the first call.
        Then a request that ends in between never looks unseen, and the result is at most the number
        missed.  Once the device has been idle for a moment, it is exact.
        """
        old_disks, old_probed = self._last
        self._last = disks, probed
        now = {
            name: self._probed[name] if ops is old_probed.get(name) else _counts(ops)
            for name, ops in probed.items()
        }
        if not self.has_begun:
            self.has_begun, self._start = True, now
        for name, ops in disks.items():
            is_idle = ops is old_disks.get(name) and now.get(name) is self._probed.get(name)
            if name not in now or is_idle:
                continue
            requests = _counts(ops).requests
            if requests < self._requests.get(name, 0):  # the name belongs to another device now
                self._before += self._unseen.pop(name, 0)
                self._start[name] = self._probed.get(name, _NONE)
            self._requests[name] = requests
            counts = _Counts(*map(sub, now[name], self._start.get(name, _NONE)))
            as_reads = max(0, counts.flushes - _counts(ops).flushes) if "flush" in ops else 0
            missing = requests - counts.requests - as_reads - counts.commands
            self._unseen[name] = max(missing, self._unseen.get(name, 0))
        self._probed = now
        return self._before + sum(self._unseen.values())


def _counts(ops: Ops) -> _Counts:
    # The kernel counts failed requests like the others.
    count = {name: (op.count_total or 0) + (op.errors_total or 0) for name, op in ops.items()}
    requests = sum(count.get(name, 0) for name in _COUNTED)
    return _Counts(requests, count.get("flush", 0), count.get("other", 0))
