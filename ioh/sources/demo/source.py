"""Samples of the made-up machine, at its own pace or as fast as asked."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

from ioh.model.closing import Closing
from ioh.model.sample import Sample
from ioh.model.span import Maxima
from ioh.sources.demo.counts import Dice
from ioh.sources.demo.machine import DemoMachine

# Ticks that are made up for at once where the program was held up; time beyond is left out.
_CATCH_UP_TICKS = 600


class DemoSource(Closing):
    """A made-up machine, read each ``interval_s``; a context manager and an iterator.

    What sample N says is a function of the seed, the interval and N alone, its two clocks aside.

    Args:
        seed: Of all chance.
        interval_s: Time between two samples.
        start_unix_s: The clock at sample 0; None for such a time that sample 1 is of now.
        realtime: Whether to wait for each sample's time.
        speed: How many times as fast as time goes by.
    """

    def __init__(
        self,
        seed: int = 1,
        interval_s: float = 1.0,
        start_unix_s: float | None = None,
        *,
        realtime: bool = True,
        speed: float = 1.0,
    ) -> None:
        self._seed, self._interval_s = seed, interval_s
        self._realtime, self._pace_s = realtime, interval_s / speed
        # At another speed its clock is not the wall's, and none of its story shall be missing.
        self._keeps_up = realtime and speed == 1.0
        # The first interval is told at once, as if it had been watched before.
        first_s = time.time() - interval_s
        self._start_unix_s = first_s if start_unix_s is None else start_unix_s
        self._start_mono_ns = time.monotonic_ns() - round(interval_s * 1e9) if realtime else 0
        self._stopped = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def close(self) -> None:
        """Close what was opened."""
        if self._wake_read >= 0:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1

    def stop(self) -> None:
        """End the iteration at once; safe to call from a signal handler."""
        self._stopped = True
        try:
            os.write(self._wake_write, b"x")
        except OSError:  # full: it is awake already
            return

    def __iter__(self) -> Iterator[Sample]:
        """Yield samples 0, 1, 2 …; at speed 1, one stands for several where time was lost."""
        machine = DemoMachine(self._seed, self._interval_s)
        yield self._read(machine, Dice(self._seed, 0))
        due_s = time.monotonic()
        while not self._stopped:
            if self._keeps_up:
                due_s = max(due_s, time.monotonic() - _CATCH_UP_TICKS * self._pace_s)
            ticks = self._ticks_due(due_s)
            yield self._advance(machine, ticks)
            due_s += ticks * self._pace_s
            if self._realtime:
                self._sleep_until(due_s)

    def _advance(self, machine: DemoMachine, ticks: int) -> Sample:
        sample = self._read(machine, machine.advance())
        if ticks > 1:
            maxima = Maxima()
            maxima.take(sample)
            for _ in range(ticks - 1):
                sample = self._read(machine, machine.advance())
                maxima.take(sample)
            sample = maxima.onto(sample)
        return sample

    def _ticks_due(self, due_s: float) -> int:
        """How many ticks to take in now; one, unless the program was held up."""
        if not self._keeps_up:
            return 1
        return 1 + max(0, int((time.monotonic() - due_s) / self._pace_s))

    def _read(self, machine: DemoMachine, dice: Dice) -> Sample:
        return machine.read(dice, self._start_unix_s, self._start_mono_ns)

    def _sleep_until(self, due_s: float) -> None:
        while not self._stopped and (left := due_s - time.monotonic()) > 0:
            select.select([self._wake_read], [], [], left)
