"""How far a reader has to go for any sample of a busy recording."""

from __future__ import annotations

import gc
import os
from functools import cache
from pathlib import Path

import pytest

from ioh.session import reader
from ioh.session.frame import Kind, make_frame
from ioh.session.reader import Session
from ioh.session.writer import MAX_DELTA_BYTES, MAX_DELTA_TICKS
from tests.demo_samples import samples
from tests.hostile_recordings import begun, frames
from tests.sessions import recorded, small


@cache
def busy() -> bytes:
    return recorded(samples())


def test_a_lost_sample_is_not_looked_for_in_all_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ioh"
    junk = [make_frame(Kind.DELTA, 2 + at, 2e9, b"junk") for at in range(30_000)]
    path.write_bytes(begun() + b"".join(junk))
    read: list[int] = []
    pread = os.pread

    def counted(fd: int, length: int, offset: int) -> bytes:
        read.append(length)
        return pread(fd, length, offset)

    with Session(str(path)) as session:
        assert len(session) == 30_002
        monkeypatch.setattr(reader, "_MAX_STRETCH_BYTES", 1 << 17)
        monkeypatch.setattr(os, "pread", counted)
        assert session.sample_at(3) is None
    assert 1 << 17 <= sum(read) < 1 << 18


def test_no_sample_is_far_from_a_whole_one() -> None:
    since: list[int] = []
    for frame in frames(busy()):
        if frame.kind == Kind.WHOLE:
            since.append(0)
        elif frame.kind == Kind.DELTA:
            since[-1] += len(frame.payload)
    largest = max(len(frame.payload) for frame in frames(busy()) if frame.kind == Kind.DELTA)
    assert max(since) <= MAX_DELTA_BYTES + largest
    assert len(since) >= 2
    # No more often than that: a whole sample is as large as several others.
    assert min(since[:-1]) >= MAX_DELTA_BYTES


def test_small_samples_are_not_many_between_whole_ones_either() -> None:
    data = recorded(small(3 * MAX_DELTA_TICKS))
    wholes = [frame.number for frame in frames(data) if frame.kind == Kind.WHOLE]
    assert wholes == [0, MAX_DELTA_TICKS + 1, 2 * (MAX_DELTA_TICKS + 1)]


def test_seeks_leave_no_garbage_that_only_a_collection_finds(tmp_path: Path) -> None:
    path = tmp_path / "x.ioh"
    path.write_bytes(busy())
    gc.collect()
    gc.disable()
    try:
        with Session(str(path)) as session:
            assert all(session.sample_at(tick) is not None for tick in (5, 50, 20))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = {type(each) for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not [each for each in left if each.__module__.startswith("ioh.")]
