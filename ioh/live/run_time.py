"""What the probes cost, carried on from a share that is measured now and then."""

from __future__ import annotations

import time


class RunTime:
    """CPU time of the probes: counting it all the time would cost too much."""

    def __init__(self) -> None:
        self._ns = 0.0
        self._at_ns = 0
        self._share: float | None = None

    def learn(self, share: float) -> None:
        """Go on with this share of a core from now on."""
        if self._share is None:
            self._at_ns = time.monotonic_ns()
        self._share = share

    def total_ns(self) -> int | None:
        """Run time since the first share was learned; None before."""
        if self._share is None:
            return None
        now_ns = time.monotonic_ns()
        self._ns += self._share * (now_ns - self._at_ns)
        self._at_ns = now_ns
        return int(self._ns)
