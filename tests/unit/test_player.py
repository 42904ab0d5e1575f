"""Stepping and jumping in a recording, in a file or in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.model.derive import derive
from ioh.model.sample import LayerSample
from ioh.session.memory import MemoryRecording
from ioh.session.reader import Session
from ioh.sources.player import History, Player
from tests import fakes
from tests.sessions import recorded

SAMPLES = list(itertools.islice(fakes.seeded(), 150))


@pytest.fixture(params=["file", "memory"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    if request.param == "file":
        path = tmp_path / "s.ioh"
        path.write_bytes(recorded(SAMPLES))
        with Session(str(path)) as session:
            yield session
        return
    memory = MemoryRecording(1 << 30)
    for sample in SAMPLES:
        assert memory.write(sample)
    yield memory
    memory.close()


def test_it_steps_and_jumps_both_ways(history: History) -> None:
    player = Player(history)
    assert player.snapshot() is None
    assert not player.step(-1)
    for tick in range(1, 150):
        assert player.step(1)
        assert player.snapshot() == derive(SAMPLES[tick - 1], SAMPLES[tick])
    assert not player.step(1)
    for steps in (-6, -1, -1, 3, -60, 20, 1, -100, 2):
        assert player.step(steps)
        tick = player.tick
        assert player.snapshot() == derive(SAMPLES[tick - 1], SAMPLES[tick])
    assert player.tick == 7
    player.seek(SAMPLES[99].time_unix_s + 0.2)
    assert player.tick == 99
    assert player.snapshot() == derive(SAMPLES[98], SAMPLES[99])


def test_a_step_forward_does_not_read_from_a_checkpoint_again(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    monkeypatch.setattr(type(history), "ticks", _counting(type(history).ticks, begun))
    player = Player(history)
    assert player.step(50)
    for _ in range(20):
        assert player.snapshot() is not None
        assert player.step(1)
    assert begun == [49]


def test_steps_back_do_not_each_read_from_a_checkpoint(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    monkeypatch.setattr(type(history), "ticks", _counting(type(history).ticks, begun))
    player = Player(history)
    player.tick = 140
    for tick in range(140, 100, -1):
        assert player.snapshot() == derive(SAMPLES[tick - 1], SAMPLES[tick])
        assert player.step(-1)
    assert len(begun) <= 2 + 40 // 15


def test_a_step_back_after_a_jump_builds_few_samples_more(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes milliseconds, and who stepped back once waits for all of them."""
    begun: list[int] = []
    player = Player(history)
    for tick in (3, 140):
        player.tick = tick
        assert player.snapshot() == derive(SAMPLES[tick - 1], SAMPLES[tick])
    monkeypatch.setattr(type(history), "ticks", _counting(type(history).ticks, begun))
    for _ in range(5):
        assert player.step(-1)
        tick = player.tick
        assert player.snapshot() == derive(SAMPLES[tick - 1], SAMPLES[tick])
    assert begun == [134]


def test_a_brief_reading_tells_the_same_of_each_layer(history: History) -> None:
    brief = list(history.ticks(140, is_brief=True))
    assert [item.tick for item in brief] == list(range(140, 150))
    for item in brief:
        for name, layer in SAMPLES[item.tick].layers.items():
            if isinstance(layer, LayerSample):
                layer = replace(layer, tables={}, parts={})  # noqa: PLW2901
            assert item.sample.layers[name] == layer


def _counting(ticks: object, begun: list[int]) -> object:
    def counted(self: History, from_tick: int, **options: bool) -> object:
        begun.append(from_tick)
        return ticks(self, from_tick, **options)  # type: ignore[operator]

    return counted


def test_it_goes_on_when_the_recording_does() -> None:
    memory = MemoryRecording(1 << 30)
    for sample in SAMPLES[:3]:
        memory.write(sample)
    player = Player(memory)
    assert player.step(2)
    assert player.snapshot() == derive(SAMPLES[1], SAMPLES[2])
    assert not player.step(1)
    memory.write(SAMPLES[3])
    assert player.step(1)
    assert player.snapshot() == derive(SAMPLES[2], SAMPLES[3])
    memory.close()


def test_a_sample_that_is_lost_is_no_interval(tmp_path: Path) -> None:
    data = bytearray(recorded(SAMPLES[:40]))
    path = tmp_path / "s.ioh"
    for at in range(len(data) // 3, len(data) // 2):  # more than parity can give back
        data[at] ^= 0xFF
    path.write_bytes(data)
    with Session(str(path)) as session:
        player = Player(session)
        shown = {}
        while player.step(1):
            shown[player.tick] = player.snapshot()
    lost = [tick for tick, snapshot in shown.items() if snapshot is None]
    assert lost
    for tick, snapshot in shown.items():
        assert tick in lost or snapshot == derive(SAMPLES[tick - 1], SAMPLES[tick])
