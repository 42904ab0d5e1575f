"""Programs are loaded on all CPUs at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial

import pytest

from ioh.bpf.program import at_once


def refuse(name: str) -> int:
    raise OSError(22, f"{name}: refused")


@pytest.mark.parametrize("cpus", [1, 2, 8])
def test_results_are_in_the_order_of_the_jobs(monkeypatch: pytest.MonkeyPatch, cpus: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    assert at_once([partial(int, str(at)) for at in range(23)]) == list(range(23))
    assert at_once([]) == []


def test_as_many_jobs_run_as_there_are_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    met = threading.Barrier(3)  # broken unless three wait for it at the same time
    assert sorted(at_once([partial(met.wait, 60)] * 3)) == [0, 1, 2]


def test_an_error_ends_it_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    begun: list[int] = []

    def later() -> int:
        begun.append(1)
        return 0

    jobs: list[Callable[[], int]] = [
        partial(int, "7"),
        *[partial(refuse, "on_exit")] * 2,
        later,
        later,
    ]
    with pytest.raises(OSError, match="on_exit: refused"):
        at_once(jobs)
    assert not begun
