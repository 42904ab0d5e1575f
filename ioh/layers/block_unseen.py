"""Counts the requests that ended without the kernel having run the probe for them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import NamedTuple

from ioh.model.sample import OpTotals

Parts = Mapping[str, Mapping[str, OpTotals]]

# /proc/diskstats counts write zeroes and zone appends as writes; flushes only where a queue
# has a write cache, so they are left out.  But one that request-based dm sends down (multipath)
# is no part of a flush sequence of the disk below, and a read to it (op_stat_group()).  Commands of
# programs (SG_IO) are reads or writes to it on 5.10, where they have times, and nothing on later
# kernels, which give them none: those are in no reading.
_COUNTED = ("read", "write", "write_zeroes", "zone_append", "discard")


class _Counts(NamedTuple):
    requests: int
    flushes: int
    commands: int


_NONE = _Counts(0, 0, 0)


class UnseenRequests:
    """By device, how many more requests /proc/diskstats counted than the probe.

    A kernel can leave raw tracepoint programs out on top of certain tasks without counting a
    miss: a sandbox's Linux 6.18 did so for every completion whose interrupt came while a thread
    of the sandbox's own agent ran, mostly below 0.3 % of all, and for no other.  Both sides
    start at 0 with the first note().
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._start: dict[str, _Counts] = {}
        self._probed: dict[str, _Counts] = {}
        self._grown: dict[str, int] = {}
        self._unseen: dict[str, int] = {}
        self._before = 0
        self._last: tuple[Parts, Parts] = {}, {}

    def note(self, disks: Parts, probed: Parts) -> int:
        """All unseen so far, of two readings; it never goes down.

        ``disks`` is what diskstats has grown by since its first reading, ``probed`` the probe's
        totals since attach; a device that is not among them may have no requests at all (dm, md,
        zram) and is left out.  Read diskstats before the probe's maps, at the first call after
        them: then what ends in between never looks unseen, and the result is at most what was
        missed; it is all of it as soon as the device has been idle for a moment.
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
            grown = _counts(ops).requests
            if grown < self._grown.get(name, 0):  # the name means another device now
                self._before += self._unseen.pop(name, 0)
                self._start[name] = self._probed.get(name, _NONE)
            self._grown[name] = grown
            seen = _Counts(*map(sub, now[name], self._start.get(name, _NONE)))
            as_reads = max(0, seen.flushes - _counts(ops).flushes) if "flush" in ops else 0
            missing = grown - seen.requests - as_reads - seen.commands
            self._unseen[name] = max(missing, self._unseen.get(name, 0))
        self._probed = now
        return self._before + sum(self._unseen.values())


def _counts(ops: Mapping[str, OpTotals]) -> _Counts:
    count = {name: op.count_total or 0 for name, op in ops.items()}
    requests = sum(count.get(name, 0) for name in _COUNTED)
    return _Counts(requests, count.get("flush", 0), count.get("other", 0))
