"""The first interval of a live run, measured while the screen's libraries are being imported.

The imports take longer than attaching the first probe, on a busy machine by seconds.  So the user
sees numbers before they finish.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ioh.model.closing import Closing

if TYPE_CHECKING:
    from ioh.live.attaching import Attaching
    from ioh.model.sample import Sample

EARLY_INTERVAL_S = 0.1  # while the user waits for the screen: a tenth of its time budget
JOIN_SPACING_S = 0.1  # shortest interval caused by a newly attached layer

# Called with the two samples of the first interval.
ReportFirst = Callable[["Sample", "Sample"], None]


class FirstInterval(Closing):
    """Takes the first two samples in a thread, and reports them from there.

    A thread has the privileges of its creator, and nobody else can drop them.  So exit this context
    manager before dropping root, and do not use ``attaching`` until then.  The interval is at most
    EARLY_INTERVAL_S.  ``read`` reads every layer now.
    """

    def __init__(
        self,
        attaching: Attaching,
        read: Callable[[], Sample],
        interval_s: float,
        report: ReportFirst,
    ) -> None:
        self._attaching, self._take = attaching, read
        self._interval_s, self._report = interval_s, report
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="early", daemon=True)
        self._read_s = 0.0
        self._awaited: tuple[str, ...] = ()
        self._samples: list[Sample] = []
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._is_over = True
        self._attaching.wake()
        self._thread.join()

    def samples_so_far(self) -> tuple[list[Sample], float]:
        """The first samples of the iteration, and when the next is due, as time.monotonic().

        Layers attached since the last sample get a baseline, as in the iteration.
        """
        if self._attaching.awaited == self._awaited:
            is_begun = len(self._samples) > 1
            return self._samples, self._read_s + (self._interval_s if is_begun else self._first_s)
        time.sleep(max(0.0, self._read_s + JOIN_SPACING_S - time.monotonic()))
        self._read()
        return self._samples, self._read_s + self._first_s

    @property
    def has_begun(self) -> bool:
        """Whether there is a sample."""
        return bool(self._samples)

    @property
    def _first_s(self) -> float:
        return min(EARLY_INTERVAL_S, self._interval_s)

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # it fails again in the iteration, which reports it
            self._look()

    def _look(self) -> None:
        count = self._attaching.awaited
        while count and self._attaching.awaited == count and not self._is_over:
            self._attaching.wait(float("inf"))
        if not self._is_over:
            self._read()
        due = time.monotonic() + self._first_s
        while time.monotonic() < due and not self._is_over:
            self._attaching.wait(due)
        if not self._is_over:
            self._read()
            self._report(*self._samples)
        while not self._is_over:  # each answer requests the next probe
            self._attaching.wait(float("inf"))

    def _read(self) -> None:
        self._awaited, self._read_s = self._attaching.awaited, time.monotonic()
        self._samples.append(self._take())
