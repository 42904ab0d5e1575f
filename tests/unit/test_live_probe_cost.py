"""What the probes' CPU time is to the busiest program."""

from __future__ import annotations

import os

import pytest

from ioh.live import probe_cost
from ioh.live.probe_cost import BusiestProgram, ProbeCost

PERIOD_NS = 10_000_000_000
TICKS = os.sysconf("SC_CLK_TCK") * 10  # of one core in that time
Ticks = dict[tuple[int, str], tuple[str, int]]


def cores(patch: pytest.MonkeyPatch, *readings: Ticks, probes: float = 0.04) -> float | None:
    """What it says after the last of these readings, one a period."""
    left = list(readings)
    patch.setattr(probe_cost, "read_cpu_ticks", lambda: left.pop(0))
    busiest, told = BusiestProgram(), None
    for at in range(1, len(readings) + 1):
        told = busiest.cores(probes, at * PERIOD_NS)
    return told


def test_processes_of_one_name_are_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight copies of fio that take 0.6 of a core each lose little to 4 % of a core."""
    before: Ticks = {(pid, "5"): ("fio", 77) for pid in range(10, 18)}
    after = dict.fromkeys(before, ("fio", 77 + TICKS * 6 // 10))
    assert cores(monkeypatch, before, {**after, (9, "1"): ("sh", TICKS)}) == pytest.approx(4.8)


@pytest.mark.parametrize(
    "second",
    [
        {(10, "5"): ("fio", TICKS * 49 // 100)},  # too little to matter
        {(10, "6"): ("fio", TICKS)},  # another process that has the number of an older one
        {(os.getpid(), "5"): ("python3", TICKS)},  # ioh
        {},
    ],
)
def test_where_no_program_is_busy_the_share_is_unknown(
    monkeypatch: pytest.MonkeyPatch, second: Ticks
) -> None:
    first: Ticks = {(10, "5"): ("fio", 0), (os.getpid(), "5"): ("python3", 0)}
    assert cores(monkeypatch, first, second) is None
    cost = ProbeCost()
    cost.note(0.04, PERIOD_NS, None)
    assert cost.program_pct is None


def test_a_busy_program_is_found_and_proc_is_not_read_for_cheap_probes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first: Ticks = {(10, "5"): ("fio", 0)}
    busy: Ticks = {(10, "5"): ("fio", TICKS // 2)}
    assert cores(monkeypatch, first, busy) == pytest.approx(0.5)
    cost = ProbeCost()
    cost.note(0.04, PERIOD_NS, 0.5)
    assert cost.program_pct == pytest.approx(8)
    monkeypatch.setattr(probe_cost, "read_cpu_ticks", pytest.fail)
    assert BusiestProgram().cores(0.019, PERIOD_NS) is None
