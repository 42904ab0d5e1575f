"""What watching costs a bench: measured in turns, and less is watched where it costs too much."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from ioh.bench import recorders
from ioh.bench.price import MOST_TURNS, TURNS, WATCHES, Price, Watch, measured, spec_for_price
from ioh.bench.results import TestSpec
from ioh.commands.bench import add_arguments

READS = TestSpec("r", "randread", "randread", 8192, users=16, run_s=40)
STREAM = TestSpec("s", "seqread", "read", 1 << 20, run_s=40)
WRITES = TestSpec("w", "write", "randwrite", 4096, users=64, run_s=40)
FILES = TestSpec("f", "files", "write", 4096, files=1000, run_s=40)
OPENS = TestSpec("o", "metadata", "open_read", 65536, users=16, files=1000, run_s=40)
STATS = TestSpec("m", "metadata", "stat", 65536, users=16, files=1000, run_s=40)
JOB = TestSpec("j", "job", job="[x]\nrw=read\n", run_s=40)


class Machine:
    """fio at a rate that falls while some layers are watched."""

    def __init__(self, alone: float, **watched: float) -> None:
        self.alone, self.watched = alone, watched
        self.now = ""
        self.order: list[str] = []

    def rate(self) -> float:
        self.order.append(self.now)
        return self.watched[self.now] if self.now else self.alone

    @contextlib.contextmanager
    def recording(self, watch: Watch) -> Iterator[None]:
        self.now = watch.name
        yield
        self.now = ""


def test_all_layers_are_watched_where_they_cost_little_in_turns() -> None:
    disk = Machine(500, all=495)
    watch, remarks = measured(disk.rate, disk.recording)
    assert watch == "all"
    assert disk.order == ["", "all"] * TURNS
    rates = "495 operations/s with all layers, 500 alone: 1 % less"
    assert remarks == (f"price of watching: {rates}, the median of 3 turns",)


def test_less_is_watched_where_it_costs_too_much_and_what_is_then_unseen_is_said() -> None:
    fast = Machine(71_000, all=50_800, storage=69_900)
    watch, remarks = measured(fast.rate, fast.recording)
    assert watch == "storage"
    assert len(remarks) == 3
    assert "50,800 operations/s with all layers, 71,000 alone: 28" in remarks[0]
    assert "69,900 operations/s with no system calls" in remarks[1]
    assert remarks[2].startswith("watched with no system calls: holes, compression")


def test_only_proc_is_left_where_even_the_device_layer_costs_too_much() -> None:
    memory = Machine(1e6, all=6e5, storage=9.2e5)
    watch, remarks = measured(memory.rate, memory.recording)
    assert watch == "proc"
    assert remarks[-1].startswith("watched with /proc only: there are no percentiles")


@pytest.mark.parametrize(
    ("alone", "watched", "is_too_high", "is_clear"),
    [
        ((100, 101, 99), (90, 91, 89), True, True),
        ((441, 440, 330), (347, 346, 348), True, False),  # one run was disturbed
        ((441, 440, 439), (347, 445, 348), True, False),
        ((441, 440, 439, 441), (347, 445, 348, 347), True, True),
        ((473, 330, 480), (400, 290, 405), True, True),  # slower and faster, but both alike
        ((100, 120, 80), (99, 119, 79), False, True),
        ((100, 101, 99), (98, 98, 98), False, True),
        ((100, 101, 99), (105, 106, 107), False, True),
        ((0, 0, 0), (0, 0, 0), False, True),
    ],
)
def test_a_price_is_the_median_loss_of_neighbouring_runs(
    alone: tuple[float, ...], watched: tuple[float, ...], is_too_high: bool, is_clear: bool
) -> None:
    price = Price(WATCHES[0], alone, watched)
    assert (price.is_too_high, price.is_clear) == (is_too_high, is_clear)


def test_the_rates_that_are_told_have_the_loss_that_is_told() -> None:
    price = Price(WATCHES[0], (473.0, 330.0, 480.0), (400.0, 290.0, 405.0))
    rates = "400 operations/s with all layers, 473 alone: 15.4 % less"
    assert str(price) == f"{rates}, the median of 3 turns"


@pytest.mark.parametrize(
    ("losses_pct", "turns", "watch"),
    [
        ((15, 15, 15), 3, "storage"),
        ((15, 0, 15, 15), 4, "storage"),
        ((15, 0, 0, 0), 4, "all"),
        ((15, 0, 15, 0, 15), MOST_TURNS, "storage"),
        ((0, 15, 0, 15, 0), MOST_TURNS, "all"),
    ],
)
def test_unclear_runs_are_repeated(losses_pct: tuple[int, ...], turns: int, watch: str) -> None:
    machine = Machine(100, storage=100)
    left = iter(losses_pct)
    taken = 0

    def rate() -> float:
        nonlocal taken
        if machine.now != "all":
            return machine.rate()
        taken += 1
        return 100 - next(left)

    assert measured(rate, machine.recording)[0] == watch
    assert taken == turns


class Recorder:
    """A recording of nothing."""

    def __init__(self, path: Path, options: tuple[str, ...]) -> None:
        self.path = path

    def begin(self, is_stopped: Callable[[], bool]) -> None:
        self.path.touch()

    def close(self) -> None:
        pass


def test_there_are_recordings_for_as_many_turns_as_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "BenchRecorder", Recorder)
    made = recorders.Recorders(tmp_path, "run.ioh", "", lambda: False)
    rates = cycle((100.0, 85.0, 100.0, 100.0))  # every other turn costs too much: 5 of each
    assert measured(lambda: next(rates), made.short)[0] == "storage"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("specs", "chosen"),
    [
        ((STREAM, READS, WRITES), READS),
        ((WRITES, FILES), WRITES),  # nothing is written that the plan does not write
        ((READS,), None),  # 40 s
        ((FILES, JOB), None),
        ((STATS, OPENS, STATS), OPENS),
        ((STATS, FILES), None),
    ],
)
def test_the_price_is_measured_by_the_most_operations_of_a_long_plan(
    specs: tuple[TestSpec, ...], chosen: TestSpec | None
) -> None:
    assert spec_for_price(specs) is chosen


@pytest.mark.parametrize("watch", WATCHES)
def test_each_watch_can_be_chosen(watch: Watch) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args(["--watch", watch.name]).watch == watch.name
    assert parser.parse_args([]).watch == ""
