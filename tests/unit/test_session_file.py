"""Recordings in files and in memory: reading from any sample, and following them as they grow."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ioh.history.memory_recording import MemoryRecording
from ioh.model.errors import ExitCode, IohError
from ioh.session import reader
from ioh.session.check import check
from ioh.session.frame import MARKER, Kind, make_frame
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from ioh.session.stream import Tick
from ioh.session.writer import MAX_DELTA_BYTES, MAX_DELTA_TICKS, SessionWriter
from tests.support.demo_samples import samples
from tests.support.hostile_recordings import begun, frames
from tests.support.sessions import Shown, long_one, recorded, small

LONG, RECORDED = long_one()


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sessions") / "long.ioh"
    path.write_bytes(RECORDED)
    return path


def test_a_new_file_is_for_its_owner_alone_and_locked(tmp_path: Path) -> None:
    path = tmp_path / "a.ioh"
    before = os.umask(0)
    try:
        writer = SessionWriter(FileOutput(str(path)))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    writer.write(LONG[0])
    with Session(str(path)) as session:
        assert session.is_growing
        writer.close()
        session.refresh()
        assert session.is_ended
        assert not session.is_growing


@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_no_file_is_ever_overwritten(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.ioh"
    target = tmp_path / "target"
    if kind == "file":
        path.write_bytes(b"mine")
    else:
        path.symlink_to(target)
        if kind == "link":
            target.write_bytes(b"mine")
    with pytest.raises(IohError, match="ioh does not overwrite files"):
        FileOutput(str(path))
    assert target.exists() == (kind == "link")


def test_a_file_that_cannot_be_created_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(IohError, match=r"cannot create .*: No such file"):
        FileOutput(str(tmp_path / "no" / "a.ioh"))
    with pytest.raises(IohError, match="cannot create"):
        FileOutput("nul\0byte")


def test_every_sample_is_found_by_number_and_by_time(long_file: Path) -> None:
    with Session(str(long_file)) as session:
        assert len(session) == len(LONG)
        assert (session.start_unix_s, session.end_unix_s) == (
            LONG[0].time_unix_s,
            LONG[-1].time_unix_s,
        )
        for tick in (0, 1, 59, 60, 61, 121, 200, 259):
            assert session.sample_at(tick) == LONG[tick]
            assert session.tick_at(LONG[tick].time_unix_s + 0.5) == tick
        assert session.tick_at(0.0) == 0
        assert session.sample_at(-1) is None
        assert session.sample_at(260) is None
        later = [i.tick for i in session.items(200) if isinstance(i, Tick)]
        assert later == list(range(200, 260))


def test_the_index_and_a_full_scan_agree(long_file: Path, tmp_path: Path) -> None:
    data = long_file.read_bytes()
    broken = tmp_path / "broken.ioh"
    at = data.rfind(MARKER + bytes([Kind.INDEX]))
    hurt = bytearray(data)
    first = data.find(MARKER + bytes([Kind.INDEX]))
    assert 0 < first < at
    wholes = [frame.number for frame in frames(data) if frame.kind == Kind.WHOLE]
    for place in (at, first):
        hurt[place + 40] ^= 1
        broken.write_bytes(hurt)
        with Session(str(long_file)) as session, Session(str(broken)) as other:
            assert len(session) == len(other) == len(LONG)
            for tick in (*wholes, 259):
                assert session.sample_at(tick) == other.sample_at(tick) == LONG[tick]
            assert session.is_ended
            assert other.is_ended


def test_after_a_damaged_whole_sample_reading_resumes_at_the_next(
    long_file: Path, tmp_path: Path
) -> None:
    hurt = bytearray(long_file.read_bytes())
    places = [frame for frame in frames(bytes(hurt)) if frame.kind == Kind.WHOLE]
    hurt[places[1].offset + 100] ^= 1
    path = tmp_path / "hurt.ioh"
    path.write_bytes(hurt)
    first, then = places[1].number, places[2].number
    with Session(str(path)) as session:
        for tick in (first - 1, then, then + 1):
            assert session.sample_at(tick) == LONG[tick]
        for tick in (first, first + 1, then - 1):
            assert session.sample_at(tick) is None


def test_a_file_whose_beginning_is_zeroed_opens(long_file: Path, tmp_path: Path) -> None:
    data = long_file.read_bytes()
    path = tmp_path / "hurt.ioh"
    path.write_bytes(bytes(4096) + data[4096:])
    places = [frame for frame in frames(data) if frame.kind == Kind.WHOLE]
    with Session(str(long_file)) as whole, Session(str(path)) as session:
        assert session.header == whole.header
        assert len(session) == len(LONG)
        for tick in (places[1].number, 200, 259):
            assert session.sample_at(tick) == LONG[tick]
        assert [item.tick for item in session.ticks(0)] == list(range(places[1].number, 260))


def test_a_recording_of_format_1_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "old.ioh"
    path.write_bytes(b"\xf6iohH" + bytes(1000))
    uses: tuple[Callable[[str], object], ...] = (Session, check)
    for use in uses:
        with pytest.raises(IohError, match="has format 1, from before the first") as refused:
            use(str(path))
        assert refused.value.hint == "Record again, or read it with the ioh that wrote it"


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.ioh"
    writer = SessionWriter(FileOutput(str(path)))
    for sample in LONG[:5]:
        writer.write(sample)
    with Session(str(path)) as session:
        assert len(session) == 5
        for sample in LONG[5:130]:
            writer.write(sample)
        writer.mark("there")
        assert session.refresh() == 130
        assert session.sample_at(129) == LONG[129]
        assert [m.text for m in session.marks()] == ["there"]
        writer.close()
        session.refresh()
        assert session.is_ended


@pytest.mark.parametrize(
    "command",
    [["text"], ["json"], ["export", "--format=csv"], ["export", "--format=openmetrics"]],
)
def test_a_growing_file_is_printed_to_its_present_end(
    command: list[str], tmp_path: Path, shown: Shown
) -> None:
    path = tmp_path / "a.ioh"
    writer = SessionWriter(FileOutput(str(path)))
    for sample in LONG[:5]:
        writer.write(sample)
    assert shown(*command, path)
    writer.close()


def test_replay_follows_a_growing_file(tmp_path: Path, shown: Shown) -> None:
    path = tmp_path / "a.ioh"
    writer = SessionWriter(FileOutput(str(path)))
    for sample in LONG[:5]:
        writer.write(sample)

    def go_on() -> None:
        for sample in LONG[5:9]:
            writer.write(sample)
        writer.close()

    later = threading.Timer(0.5, go_on)
    later.start()
    assert shown("replay", path, "--as-text").count("interval ") == 8
    later.join()


def test_a_torn_file_opens_to_its_last_whole_sample(long_file: Path, tmp_path: Path) -> None:
    data = long_file.read_bytes()
    path = tmp_path / "torn.ioh"
    for size in range(len(data) // 3, len(data), 40_009):
        path.write_bytes(data[:size])
        with Session(str(path)) as session:
            assert 0 < len(session) < len(LONG)
            assert session.sample_at(len(session) - 1) == LONG[len(session) - 1]
            assert not session.is_ended
            assert not session.is_growing


def test_what_is_not_a_recording_gives_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"", b"text\n", os.urandom(3 << 20), MARKER * 1000):
        path.write_bytes(content)
        with pytest.raises(IohError, match="not a recording"):
            Session(str(path))
    with pytest.raises(IohError, match="no recording") as missing:
        Session(str(tmp_path / "none"))
    assert missing.value.code == ExitCode.USAGE
    with pytest.raises(IohError, match="is a directory"):
        Session(str(tmp_path))
    with pytest.raises(IohError, match="is not seekable"):
        Session("/dev/null")


def test_another_format_or_other_buckets_are_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ioh.session import writer as module

    path = tmp_path / "a.ioh"
    monkeypatch.setattr(module, "FORMAT_VERSION", 3)
    path.write_bytes(recorded(small(1)))
    with pytest.raises(IohError, match="has format 3, this ioh reads up to 2"):
        Session(str(path))
    monkeypatch.undo()
    edges = {"fine_edges": [1], "size_edges_bytes": [1], "table_edges_us": [1]}
    monkeypatch.setattr(module, "our_edges", lambda: edges)
    path.write_bytes(recorded(small(1)))
    with pytest.raises(IohError, match="other histogram buckets"):
        Session(str(path))


@cache
def busy() -> bytes:
    return recorded(samples())


def test_a_lost_sample_is_not_searched_for_in_the_whole_file(
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


def test_the_number_of_samples_between_whole_ones_is_limited_too() -> None:
    data = recorded(small(3 * MAX_DELTA_TICKS))
    wholes = [frame.number for frame in frames(data) if frame.kind == Kind.WHOLE]
    assert wholes == [0, MAX_DELTA_TICKS + 1, 2 * (MAX_DELTA_TICKS + 1)]


def test_seeks_leave_no_garbage_in_reference_cycles(tmp_path: Path) -> None:
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


SAMPLES, _ = long_one()


def _filled(max_bytes: int, count: int = 260) -> MemoryRecording:
    memory = MemoryRecording(max_bytes)
    for sample in SAMPLES[:count]:
        assert memory.write(sample)
    return memory


def test_the_older_half_is_dropped_when_full_and_numbers_stay() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    one_byte_each = _filled(1 << 30)
    max_bytes = one_byte_each.size_bytes // 3
    one_byte_each.close()
    memory = MemoryRecording(max_bytes)
    assert (len(memory), memory.sample_at(0), list(memory.ticks(0))) == (0, None, [])
    largest = 0
    for tick, sample in enumerate(SAMPLES):
        before = memory.size_bytes
        assert memory.write(sample)
        largest = max(largest, memory.size_bytes - before)
        assert memory.size_bytes <= max_bytes + 2 * largest
        assert len(memory) == tick + 1
    first = memory.first_tick
    assert 100 < first < 259
    assert memory.size_bytes > max_bytes // 4
    assert memory.sample_at(first - 1) is None
    assert memory.sample_at(260) is memory.sample_at(-1) is None
    assert memory.sample_at(first + 5) == SAMPLES[first + 5]
    found = [(item.tick, item.sample) for item in memory.ticks(0)]
    assert found == list(enumerate(SAMPLES))[first:]
    memory.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


def test_reading_ends_when_its_samples_are_dropped() -> None:
    memory = _filled(60_000, 10)
    reading = memory.ticks(0)
    assert next(reading).sample == SAMPLES[0]
    for sample in SAMPLES[10:]:
        memory.write(sample)
    assert memory.first_tick > 10
    assert next(reading, None) is None
    memory.close()


def test_one_thread_writes_while_another_reads() -> None:
    memory = MemoryRecording(200_000)
    faults: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set() and not faults:
            tick = len(memory) - 1
            first = memory.first_tick
            for at in (tick, first, (tick + first) // 2) if tick > first else ():
                found = memory.sample_at(at)
                if found != SAMPLES[at] and at >= memory.first_tick:
                    faults.append((at, found))
            wrong = (i for i in memory.ticks(max(0, tick - 3)) if i.sample != SAMPLES[i.tick])
            faults.extend(wrong)

    reader = threading.Thread(target=read)
    reader.start()
    for sample in SAMPLES:
        memory.write(sample)
    assert memory.first_tick > 0
    done.set()
    reader.join()
    memory.close()
    assert not faults
