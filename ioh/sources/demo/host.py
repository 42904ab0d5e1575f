"""The demo's machine as a whole: CPU, memory, pressure."""

from __future__ import annotations

from ioh.model.sample import HostSample
from ioh.sources.demo.counts import Dice
from ioh.sources.demo.story import Load
from ioh.sources.demo.traffic import Traffic

_CPUS = 8
_TICKS_PER_S = 100
_GIB = 1 << 30


class DemoHost:
    """Running totals of a machine of eight CPUs and 64 GiB."""

    def __init__(self) -> None:
        self._total = self._idle = self._iowait = 0.0
        self._some_us = self._full_us = 0
        self._dirty_bytes = self._writeback_bytes = 0
        self._load1 = 0.3

    def take(self, traffic: Traffic, load: Load, dice: Dice, interval_s: float) -> None:
        """Let one tick go by."""
        calls = sum(work.batch.operations for work in traffic.app) / interval_s
        waiting = load.readers + load.scanners
        busy = min(0.8, 0.03 + calls / 250_000 + dice.around(0.02, 0.5))
        iowait = min(0.95 - busy, waiting / _CPUS * 0.45)
        ticks = _CPUS * _TICKS_PER_S * interval_s
        self._total += ticks
        self._iowait += ticks * iowait
        self._idle += ticks * (1 - busy - iowait)
        some = min(0.97, 0.02 + waiting * 0.09)
        self._some_us += int(some * interval_s * 1e6)
        self._full_us += int(some * 0.6 * interval_s * 1e6)
        # What write-back has not sent yet: some two seconds of what is written.
        self._dirty_bytes = int(dice.around(4e6 + load.dirty_bytes_per_s * 2, 0.2))
        self._writeback_bytes = int(load.dirty_bytes_per_s * 0.05)
        target = waiting + busy * _CPUS
        self._load1 += (target - self._load1) * min(1.0, interval_s / 60)

    def sample(self) -> HostSample:
        """The machine as it is now."""
        return HostSample(
            cpu_total_ticks=int(self._total),
            cpu_idle_ticks=int(self._idle),
            cpu_iowait_ticks=int(self._iowait),
            cpu_steal_ticks=0,
            cpu_count=_CPUS,
            load1=round(self._load1, 2),
            load5=round(self._load1 * 0.8 + 0.4, 2),
            load15=round(self._load1 * 0.6 + 0.6, 2),
            mem_total_bytes=64 * _GIB,
            mem_available_bytes=41 * _GIB,
            cached_bytes=30 * _GIB,
            dirty_bytes=self._dirty_bytes,
            writeback_bytes=self._writeback_bytes,
            dirty_limit_bytes=8 * _GIB,
            dirty_background_bytes=4 * _GIB,
            psi_io_some_us_total=self._some_us,
            psi_io_full_us_total=self._full_us,
        )
