"""What the feeds of a file, of a live source and of a pipe have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from ioh.history.file import PlayOptions
from ioh.history.mean import deviation
from ioh.model.derive import derive
from ioh.model.intervals import Intervals
from ioh.model.pairs import Round
from ioh.model.player import Player, PlayerEnded, RoundSource
from ioh.model.span import Carried
from ioh.pipeline import alone
from ioh.playback.replay import ReplaySource
from ioh.player import file
from ioh.player.file import FilePlayer
from ioh.player.live import LivePlayer
from ioh.player.pipe import pipe_player
from tests.support.players import SAMPLES, SNAPSHOTS, Counting, Listener, told
from tests.support.sessions import recorded


class Given(RoundSource):
    """SAMPLES, all at once."""

    def __init__(self, choose: Any) -> None:
        self._choose = choose

    def __iter__(self) -> Iterator[Round]:
        return alone(SAMPLES, Intervals(self._choose))

    def stop(self) -> None:
        """Nothing waits."""


Make = Callable[..., Player]


@pytest.fixture(params=["file", "live", "pipe"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Makes a player of SAMPLES that is closed after the test."""
    monkeypatch.setattr(file, "MIN_REPORT_S", 0.0)
    kind, data = request.param, recorded(SAMPLES)
    with ExitStack() as stack:

        def made(choose: Any = lambda _: None, **options: Any) -> Player:
            if kind == "file":
                path = tmp_path / "a.ioh"
                path.write_bytes(data)
                played = PlayOptions(speed=1e6, choose=choose, **options)
                return stack.enter_context(FilePlayer(str(path), played))
            if kind == "live":
                return stack.enter_context(LivePlayer(Given(choose), **options))
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            assert os.write(writer, data) == len(data)  # it fits into the pipe
            os.close(writer)
            source = stack.enter_context(ReplaySource("-", speed=1e6, stdin_fd=reader))
            return stack.enter_context(pipe_player(source, choose, **options))

        yield made


def test_every_interval_is_reported_once_and_can_be_visited(make: Make) -> None:
    player = make()
    past = player.histories[0]
    with Listener(player) as listener:
        last = listener.wait_for_end()
        assert last.status.startswith("the end")
        assert (last.tick, last.error) == (None, None)
        assert listener.ticks == list(SNAPSHOTS)
        assert listener.snapshots == SNAPSHOTS
        for tick in (11, 1, 5, 6, 4, 11):
            assert past.visit(tick) == SNAPSHOTS[tick]
        for tick in (-1, 0, 12):
            assert past.visit(tick) is None
        extent = past.extent
        assert (extent.first, extent.last, extent.is_growing) == (1, 11, False)
        assert (extent.start_unix_s, extent.end_unix_s) == (
            SAMPLES[0].time_unix_s,
            SAMPLES[-1].time_unix_s,
        )
        at = [past.tick_at(SAMPLES[0].time_unix_s + after) for after in (-9, 0, 1, 2.5, 11, 99)]
        assert at == [1, 1, 1, 2, 11, 11]


def test_walk_yields_the_same_numbers_without_tables(make: Make) -> None:
    player = make()
    past = player.histories[0]
    with Listener(player) as listener:
        listener.wait_for_end()
        walked = dict(past.walk(-3, 99))
        assert list(past.walk(3, 2)) == []
        assert [tick for tick, _ in past.walk(3, 5)] == [3, 4, 5]
    assert list(walked) == list(SNAPSHOTS)
    for tick, snapshot in walked.items():
        for name, layer in snapshot.layers.items():
            found: Any = layer
            whole: Any = SNAPSHOTS[tick].layers[name]
            assert (found.ops, found.tables, found.parts) == (whole.ops, {}, {})


def test_a_mean_is_of_all_operations_and_has_the_spread_of_the_intervals(make: Make) -> None:
    player = make()
    past = player.histories[0]
    with Listener(player) as listener:
        listener.wait_for_end()
        mean, before = past.means(4, 7, lambda _: True)
        assert past.means(1, 3, lambda _: True)[1] is None
    assert mean is not None
    assert before is not None
    assert (mean.count, before.count) == (4, 3)
    slowest = Carried()
    for sample in SAMPLES[4:8]:
        slowest.take(sample)
    whole = derive(SAMPLES[3], slowest.onto(SAMPLES[7]))
    assert (mean.snapshot.interval_s, mean.remarks) == (whole.interval_s, ())
    for name, layer in whole.measured.items():
        found = mean.snapshot.measured[name]
        assert found.tables == layer.tables
        for op, stats in layer.ops.items():
            assert found.ops[op].size_lat == stats.size_lat
            for number in ("bytes_per_s", "ops_per_s", "latency_us", "p99_us", "queue_us"):
                assert getattr(found.ops[op], number) == getattr(stats, number)
                layers = [SNAPSHOTS[tick].measured[name] for tick in (4, 5, 6, 7)]
                is_rate = number.endswith("_per_s")
                known = [
                    (value, each.interval_s if is_rate else each.ops[op].count or 0)
                    for each in layers
                    if (value := getattr(each.ops[op], number)) is not None
                ]
                spread = deviation(known) if len(known) > 1 else None
                assert mean.spread[name, op].get(number) == spread


def test_a_deviation_weighs_values_as_their_mean_does() -> None:
    equal = [(3.0, 1.0), (5.0, 1.0), (10.0, 1.0)]
    assert deviation(equal) == pytest.approx(stdev(value for value, _ in equal))
    # 300 operations a second for a hundredth of a second, then none for 33 s.
    short = [(300.0, 0.01), *[(0.0, 1.0)] * 33]
    assert deviation(short) == pytest.approx(5.2, rel=0.05)
    assert stdev(value for value, _ in short) > 50
    assert deviation([(1.0, 0), (2.0, 0)]) == 0


def test_a_mean_that_is_no_longer_wanted_is_not_read_to_its_end(make: Make) -> None:
    player = make()
    left: list[int] = []

    def is_wanted(count: int) -> bool:
        left.append(count)
        return count > 8

    with Listener(player) as listener:
        listener.wait_for_end()
        assert player.histories[0].means(1, 11, is_wanted) == (None, None)
    assert left == [11, 10, 9, 8]


def test_snapshots_have_only_the_chosen_layers(make: Make) -> None:
    player = make(lambda _: frozenset({"wire"}))
    past = player.histories[0]
    with Listener(player) as listener:
        listener.wait_for_end()
        walked = [snapshot for _, snapshot in past.walk(1, 3)]
        for snapshot in (listener.snapshots[3], past.visit(3), *walked):
            assert snapshot is not None
            assert list(snapshot.layers) == list(snapshot.specs) == ["wire"]


def test_findings_are_the_same_when_an_interval_is_visited(make: Make) -> None:
    player = make(make_judge=Counting)
    past = player.histories[0]
    with Listener(player) as listener:
        listener.wait_for_end()
        assert [told(listener.snapshots[tick]) for tick in (1, 4, 11)] == ["1", "4", "11"]
        for tick in (11, 2):
            assert told(past.visit(tick)) == told(past.judge(tick, lambda _: True)) == str(tick)
        for _, snapshot in past.walk(1, 3):
            assert snapshot.not_evaluated == ()


def test_it_ends_the_screen_after_its_run_time(make: Make) -> None:
    with Listener(make(run_s=3.0)) as listener:
        assert isinstance(listener.wait_for_end().error, PlayerEnded)
        listener.join()
    assert listener.ticks == [1, 2, 3]


@pytest.mark.parametrize("has_begun", [False, True])
def test_it_ends_the_screen_on_request(make: Make, *, has_begun: bool) -> None:
    player = make()
    if not has_begun:
        player.end()
    with Listener(player) as listener:
        if has_begun:
            listener.wait_for_end()
            player.end()
        listener.join()
    assert isinstance(listener.news[-1].error, PlayerEnded)
    assert listener.ticks == (list(SNAPSHOTS) if has_begun else [])
