"""The CPU time of a layer's probe, extrapolated from short windows, and what it means to programs.

The kernel can count every program's run time (kernel.bpf_stats_enabled), but counting always would
cost too much: so it counts for COST_WINDOW_S in every COST_PERIOD_S.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

from ioh.model.metric import LayerSpec, numbers
from ioh.procfs.processes import read_cpu_ticks

COST_PERIOD_S = 10.0
COST_WINDOW_S = 0.1
_NUMBERS = numbers(
    """
    probe_cpu_ns_total | | CPU time of this layer's probe, with its traps, extrapolated from a tenth
        of a second in every ten.
    probe_cpu_pct = 1e-7 * probe_cpu_ns_total | | Share of one core that the probe takes.
    probe_program_pct | | CPU time of this layer's probe as a share of that of the busiest program,
        all processes of that name together; unknown if the program takes less than half a core.
    """
)
TOTAL = "probe_cpu_ns_total"
OF_PROGRAM = "probe_program_pct"
# In cores.  A program that takes less waits more than it computes, and hardly notices the probes;
# nor does one that takes more, if all probes together take less than a fiftieth of a core.
_PROGRAM_MIN, _PROBES_MIN = 0.5, 0.02
_TICKS_PER_NS = os.sysconf("SC_CLK_TCK") / 1e9


def with_cost(spec: LayerSpec) -> LayerSpec:
    """A layer's spec with the numbers of its probe's cost."""
    return replace(spec, metrics=(*spec.metrics, *_NUMBERS))


class ProbeCost:
    """Extrapolates one probe's CPU time from its share in the last window."""

    def __init__(self) -> None:
        self._share: float | None = None
        self._total_ns, self._at_ns = 0.0, 0
        self.program_pct: float | None = None

    def note(self, share: float, now_ns: int, busiest: float | None) -> None:
        """Take the shares of a core in a window that has just ended, by the monotonic clock.

        ``busiest``: of BusiestProgram.
        """
        self.program_pct = 100 * share / busiest if busiest else None
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


class BusiestProgram:
    """The CPU time of the program that takes most, ioh aside."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, str], tuple[str, int]] = {}
        self._at_ns = 0

    def cores(self, probes: float, now_ns: int) -> float | None:
        """How many cores it has taken since the last call; None if it does not matter.

        Reads /proc only if the probes take so many cores that a program could notice; None then
        also means that the last call did not read it.
        """
        before, passed_ns = self._ticks, now_ns - self._at_ns
        self._ticks = read_cpu_ticks() if probes >= _PROBES_MIN else {}
        self._at_ns = now_ns
        spent: Counter[str] = Counter()
        for process, (comm, ticks) in self._ticks.items():
            if process in before and process[0] != os.getpid():
                spent[comm] += ticks - before[process][1]
        cores = max(spent.values(), default=0) / (passed_ns * _TICKS_PER_NS)
        return cores if cores >= _PROGRAM_MIN else None
