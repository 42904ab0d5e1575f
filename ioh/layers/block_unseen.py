"""Counts the requests that ended without the kernel having run the probe for them."""

from __future__ import annotations

from collections.abc import Mapping

from ioh.model.sample import OpTotals

Parts = Mapping[str, Mapping[str, OpTotals]]

# /proc/diskstats counts write zeroes and zone appends as writes; flushes only where a queue
# has a write cache, so they are left out.  But one that request-based dm sends down (multipath)
# is no part of a flush sequence of the disk below, and a read to it (op_stat_group()).  Commands of
# programs (SG_IO) are reads or writes to it on 5.10, where they have times, and nothing on later
# kernels, which give them none: those are in no reading.
_COUNTED = ("read", "write", "write_zeroes", "zone_append", "discard")


class UnseenRequests:
    """By device, how many more requests /proc/diskstats counted than the probe.

    A kernel can leave raw tracepoint programs out on top of certain tasks without counting a
    miss: a sandbox's Linux 6.18 did so for every completion whose interrupt came while a thread
    of the sandbox's own agent ran, mostly below 0.3 % of all, and for no other.  Both sides
    start at 0 with the first note().
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._start: dict[str, int] = {}
        self._start_flushes: dict[str, int] = {}
        self._start_commands: dict[str, int] = {}
        self._grown: dict[str, int] = {}
        self._probed: dict[str, int] = {}
        self._probed_flushes: dict[str, int] = {}
        self._probed_commands: dict[str, int] = {}
        self._unseen: dict[str, int] = {}
        self._before = 0

    def note(self, disks: Parts, probed: Parts) -> int:
        """Compare two readings.

        Args:
            disks: From diskstats, growth since the first reading.
            probed: From the probe, totals since attach; a device that is not among them may
                have no requests at all (dm, md, zram) and is left out.

        Read diskstats before the probe's maps, at the first call after them: then what ends
        between the two readings never looks unseen, and the result is at most what was
        missed; it is all of it as soon as the device has been idle for a moment.

        Returns:
            All unseen so far; it never goes down.
        """
        counts = {name: _count(ops) for name, ops in probed.items()}
        flushes = {name: _flushes(ops) for name, ops in probed.items()}
        commands = {name: _commands(ops) for name, ops in probed.items()}
        if not self.has_begun:
            self.has_begun = True
            self._start, self._start_flushes = counts, flushes
            self._start_commands = commands
        for name, ops in disks.items():
            if name not in counts:
                continue
            grown = _count(ops)
            if grown < self._grown.get(name, 0):  # the name means another device now
                self._before += self._unseen.pop(name, 0)
                self._start[name] = self._probed.get(name, 0)
                self._start_flushes[name] = self._probed_flushes.get(name, 0)
                self._start_commands[name] = self._probed_commands.get(name, 0)
            self._grown[name] = grown
            flushed = flushes[name] - self._start_flushes.get(name, 0)
            as_reads = max(0, flushed - _flushes(ops)) if "flush" in ops else 0
            others = commands[name] - self._start_commands.get(name, 0)
            missing = grown - (counts[name] - self._start.get(name, 0)) - as_reads - others
            self._unseen[name] = max(missing, self._unseen.get(name, 0))
        self._probed, self._probed_flushes, self._probed_commands = counts, flushes, commands
        return self._before + sum(self._unseen.values())


def _count(ops: Mapping[str, OpTotals]) -> int:
    return sum(ops[name].count_total or 0 for name in _COUNTED if name in ops)


def _flushes(ops: Mapping[str, OpTotals]) -> int:
    return ops["flush"].count_total or 0 if "flush" in ops else 0


def _commands(ops: Mapping[str, OpTotals]) -> int:
    return ops["other"].count_total or 0 if "other" in ops else 0
