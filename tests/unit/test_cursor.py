"""Stepping and jumping in a recording, in a file or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.history.memory_recording import MemoryRecording
from ioh.model.derive import derive
from ioh.playback.cursor import Cursor
from ioh.session.reader import Recording, Session
from tests.support import fakes
from tests.support.sessions import recorded

SAMPLES = fakes.first(100)


@pytest.fixture(params=["file", "memory"], scope="module")
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    if request.param == "file":
        path = tmp_path_factory.mktemp("cursor") / "s.ioh"
        path.write_bytes(recorded(SAMPLES))
        with Session(str(path)) as session:
            yield session
        return
    memory = MemoryRecording(1 << 30)
    for sample in SAMPLES:
        assert memory.write(sample)
    yield memory
    memory.close()


@pytest.fixture
def begun(history: Recording, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sample numbers at which reading began."""
    found: list[int] = []
    ticks: Any = type(history).ticks

    def counted(self: object, from_tick: int, **options: bool) -> object:
        found.append(from_tick)
        return ticks(self, from_tick, **options)

    monkeypatch.setattr(type(history), "ticks", counted)
    return found


def assert_shows(cursor: Cursor, tick: int) -> None:
    assert cursor.snapshot(tick) == derive(SAMPLES[tick - 1], SAMPLES[tick])


def test_it_steps_and_jumps_both_ways(history: Recording) -> None:
    cursor = Cursor(history)
    assert cursor.snapshot(0) is None
    for tick in (*range(40, 99), 93, 92, 91, 94, 34, 54, 55, 5, 7, 49):
        assert_shows(cursor, tick)


def test_steps_do_not_each_read_from_a_whole_sample(history: Recording, begun: list[int]) -> None:
    cursor = Cursor(history)
    for tick in range(50, 70):
        assert_shows(cursor, tick)
    assert begun == [49]
    for tick in range(69, 29, -1):
        assert_shows(cursor, tick)
    assert len(begun) <= 3 + 40 // 15


def test_a_step_back_after_a_jump_builds_only_a_few_samples(
    history: Recording, begun: list[int]
) -> None:
    """Each takes milliseconds, and a user who steps back once waits for all of them."""
    cursor = Cursor(history)
    for tick in (3, 90):
        assert_shows(cursor, tick)
    begun.clear()
    for tick in range(89, 84, -1):
        assert_shows(cursor, tick)
    assert begun == [84]


def test_a_lost_sample_has_no_interval(tmp_path: Path) -> None:
    data = bytearray(recorded(SAMPLES[:40]))
    path = tmp_path / "s.ioh"
    for at in range(len(data) // 3, len(data) // 2):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with Session(str(path)) as session:
        cursor = Cursor(session)
        shown = {tick: cursor.snapshot(tick) for tick in range(1, len(session))}
    lost = [tick for tick, snapshot in shown.items() if snapshot is None]
    assert lost
    for tick, snapshot in shown.items():
        assert tick in lost or snapshot == derive(SAMPLES[tick - 1], SAMPLES[tick])
