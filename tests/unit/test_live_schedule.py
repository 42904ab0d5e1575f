"""When the live source takes samples, which times they have, and what it costs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.bpf.channel import Loader
from ioh.live import attached, attaching
from ioh.live import source as live
from ioh.model.derive import derive
from ioh.model.sample import READ_STEP_US, LayerSample
from tests.unit.live_host import Host, make_layer, source


def test_the_duration_of_a_first_reading_is_in_no_interval(root: Host) -> None:
    """Otherwise, layers read before a slow one would have counted longer than the interval says."""
    looks: list[float] = []
    clock = Clock(root.patch)

    def look() -> LayerSample:
        looks.append(clock.now)
        clock.now += 0.3 if len(looks) == 1 else 0
        return LayerSample("bpf")

    root.know(make_layer("a", 10, has_probe=True), make_layer("b", 20, has_probe=True, look=look))
    root.attach("b")
    root.attach("a")
    with source() as running:
        first = running.read()
        assert len(looks) == 2
        assert first.mono_ns == int(looks[1] * 1e9)
        running.read()
    assert len(looks) == 3


def test_each_layer_has_the_time_when_it_was_read(root: Host) -> None:
    """Rates are right even if reading an earlier layer takes longer than in another tick."""
    takes_us = iter([0, 62_500, 250_000])  # the first of them is the warm-up
    clock = Clock(root.patch)

    def slow() -> LayerSample:
        clock.now += next(takes_us) / 1e6
        return LayerSample("bpf")

    root.know(make_layer("a", 10, has_probe=True, look=slow), make_layer("b", 20, has_probe=True))
    root.attach("a")
    root.attach("b")
    with source() as running:
        clock.now = 2000.0  # so that fractions of a second are exact
        for took_us in (62_500, 250_000):
            a, b = running.read().layers.values()
            assert isinstance(a, LayerSample)
            assert isinstance(b, LayerSample)
            assert (a.read_after_us, b.read_after_us) == (0, took_us // READ_STEP_US * READ_STEP_US)


class Clock:
    """Time that passes only when the source waits."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.late: Iterator[float] = itertools.repeat(0.0)
        self.calls: list[tuple[float, Callable[[], None]]] = []  # a time, and what happens then
        times = {"monotonic": lambda: self.now, "monotonic_ns": lambda: int(self.now * 1e9)}
        same = {"time": time.time, "process_time_ns": time.process_time_ns}
        for module in (live, attached, attaching):
            patch.setattr(module, "time", SimpleNamespace(**times, **same))
        patch.setattr(attaching, "select", SimpleNamespace(select=self.wait))

    def wait(self, *args: Any) -> tuple[list[Any], ...]:
        end = self.now + args[3]
        if self.calls and self.calls[0][0] < end:
            self.now, call = self.calls.pop(0)
            call()
        else:
            self.now = end
        return [], [], []

    def reading(self) -> LayerSample:
        self.now += next(self.late)
        return LayerSample("proc")


@pytest.mark.parametrize(
    ("interval_s", "late_s", "asked", "read_s"),
    [
        (1.0, [0] * 4, {}, [0.0, 0.2, 1.2, 2.2]),  # the first one is short
        (0.1, [0] * 4, {}, [0.0, 0.1, 0.2, 0.3]),  # but not longer than the interval
        (1.0, [0.2, 0.2, 0.9, 0.2], {}, [0.0, 0.2, 1.2, 2.2]),  # reading time shifts no tick
        (1.0, [0, 0, 3.5, 0, 0], {}, [0.0, 0.2, 1.2, 5.7, 6.7]),  # a late one is not made up for
        # A requested sample shifts no other; a new interval starts at once with a sample.
        (1.0, [0] * 6, {0.7: None, 2.1: None}, [0.0, 0.2, 0.7, 1.2, 2.1, 2.2]),
        (10.0, [0] * 5, {3.0: 2.0}, [0.0, 0.2, 3.0, 5.0, 7.0]),
    ],
)
def test_samples_are_taken_at_the_right_times(
    host: Host,
    interval_s: float,
    late_s: list[float],
    asked: dict[float, float | None],
    read_s: list[float],
) -> None:
    clock = Clock(host.patch)
    clock.late = iter(late_s)
    host.know(make_layer("a", 10, read=clock.reading))
    with source(interval_s=interval_s) as running:
        for at_s, new_s in asked.items():
            call = partial(running.set_interval, new_s) if new_s else running.sample_soon
            clock.calls.append((1000 + at_s, call))
        samples = itertools.islice(running, len(late_s))
        assert [round(s.mono_ns / 1e9 - 1000, 6) for s in samples] == read_s


def test_stop_ends_the_iteration_at_once(host: Host) -> None:
    with source(interval_s=60.0) as running:
        iterator = iter(running)
        next(iterator)
        next(iterator)
        thread = threading.Timer(0.05, running.stop)
        thread.start()
        started = time.monotonic()
        assert list(iterator) == []
        assert time.monotonic() - started < 60.0
        thread.join()


def test_the_cost_of_each_probe_is_measured_in_a_short_window(root: Host) -> None:
    root.know(make_layer("a", 10, has_probe=True), make_layer("b", 20, has_probe=True))
    root.attach("a")
    root.attach("b")
    clock = Clock(root.patch)
    cheap, dear = itertools.count(0, 1_000_000), itertools.count(0, 4_000_000)  # ns a window
    with source() as running:
        root.patch.setattr(running.attached["a"], "run_time_ns", lambda: next(cheap))
        root.patch.setattr(running.attached["b"], "run_time_ns", lambda: next(dear))
        root.patch.setattr(Loader, "ask", lambda *_: stats_answer())
        told = [(sample, clock.now) for sample in itertools.islice(running, 4)]
    (first, _), _, (_, since_s), (last, then_s) = told
    assert first.bpf_ns_total is None
    (older, newer), passed_s = (sample for sample, _ in told[2:]), then_s - since_s
    assert None not in {older.bpf_ns_total, newer.bpf_ns_total}
    assert (newer.bpf_ns_total or 0) - (older.bpf_ns_total or 0) == pytest.approx(
        passed_s * 0.05 * 1e9
    )
    shares = {
        name: layer.metrics["probe_cpu_pct"] for name, layer in derive(older, last).measured.items()
    }
    assert shares == {"a": pytest.approx(1.0), "b": pytest.approx(4.0)}


def stats_answer() -> tuple[dict[str, str], list[int]]:
    return {"verb": "stats"}, [os.open(os.devnull, os.O_RDONLY)]


def test_run_time_is_unknown_if_the_kernel_does_not_count_it(root: Host) -> None:
    with source("a") as running:
        thread = threading.Timer(0.03, root.answer, [{"verb": "stats"}])
        thread.start()
        with running.counting_run_time() as run_times_ns:
            assert run_times_ns() == {}
        thread.join()


RESIDENT = """
from ioh.live.memory import give_back, give_back_large

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
"""

# Prints how much goes back of 54 MB that are freed.
FRAGMENTED = """
kept = [bytes(3000) for _ in range(20_000)][::10]
before = resident()
give_back()
print(before - resident())
"""

# Prints how much goes back of 30 MB.
LARGE = """
give_back_large()
bytearray(2 << 20)  # by which glibc learns to keep pieces of that size
large, kept = zip(*[(bytearray(b"x" * 300_000), bytes(20_000)) for _ in range(100)])
before = resident()
del large
print(before - resident())
"""


@pytest.mark.parametrize("script", [LARGE, FRAGMENTED], ids=["large pieces", "holes"])
def test_freed_memory_goes_back_to_the_kernel(script: str) -> None:
    command = [sys.executable, "-c", RESIDENT + script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 25_000_000


def test_a_live_source_gives_back_memory_now_and_then(host: Host) -> None:
    given: list[float] = []
    freed: list[str] = []
    clock = Clock(host.patch)
    host.patch.setattr(live, "give_back", lambda: given.append(clock.now))
    host.patch.setattr(
        attached.AttachedLayer, "give_back", lambda self: freed.append(self.layer.spec.name)
    )
    with source(use_bpf=False) as running:
        list(itertools.islice(running, 40))
        assert freed == len(given) * list(running.attached)
    assert len(given) > 1
