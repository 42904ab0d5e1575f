"""The CPU time of a layer's probe, extrapolated from short windows.

The kernel can count every program's run time (kernel.bpf_stats_enabled), but counting always would
cost too much: so it counts for COST_WINDOW_S in every COST_PERIOD_S.
"""

from __future__ import annotations

from dataclasses import replace

from ioh.model.metric import LayerSpec, numbers

COST_PERIOD_S = 10.0
COST_WINDOW_S = 0.1
_NUMBERS = numbers(
    """
    probe_cpu_ns_total | | CPU time of this layer's probe, with its traps, extrapolated from a tenth
        of a second in every ten.
    probe_cpu_pct = 1e-7 * probe_cpu_ns_total | | Share of one core that the probe takes.
    """
)
TOTAL = "probe_cpu_ns_total"


def with_cost(spec: LayerSpec) -> LayerSpec:
    """A layer's spec with the numbers of its probe's cost."""
    return replace(spec, metrics=(*spec.metrics, *_NUMBERS))


class ProbeCost:
    """Extrapolates one probe's CPU time from its share in the last window."""

    def __init__(self) -> None:
        self._share: float | None = None
        self._total_ns, self._at_ns = 0.0, 0

    def note(self, share: float, now_ns: int) -> None:
        """Take the share of a core in a window that has just ended, by the monotonic clock."""
        if self._share is None:
            self._at_ns = now_ns
        self.total_ns(now_ns)
        self._share = share

    def total_ns(self, now_ns: int) -> int | None:
        """The CPU time since the first window; None before."""
        if self._share is None:
            return None
        self._total_ns += self._share * (now_ns - self._at_ns)
        self._at_ns = now_ns
        return int(self._total_ns)
