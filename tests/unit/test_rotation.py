"""An endless recording: files follow each other, the oldest are removed, a full disk pauses it."""

from __future__ import annotations

import errno
import itertools
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.model.errors import ExitCode, IohError
from ioh.model.sample import Sample
from ioh.playback.time_range import Span, excerpt_of, parse_when
from ioh.recorder import rotation
from ioh.recorder.rotated_files import EarlierFiles, earlier_files, part_name
from ioh.recorder.rotation import Recorder
from ioh.session.output import FileOutput, NoRoomError, Output
from ioh.session.reader import Session
from tests.support import fakes


def test_an_endless_recording_keeps_the_newest_files(tmp_path: Path) -> None:
    def make(part: int) -> Output:
        return FileOutput(str(tmp_path / part_name("r.ioh", part)))

    recorder = Recorder(make, max_bytes=10_000, keep=3, note="n")
    samples = list(itertools.islice(fakes.seeded(), 60))
    for sample in samples:
        assert recorder.write(sample)
        assert len(list(tmp_path.iterdir())) <= 3
    recorder.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 3
    told: list[Sample] = []
    for path in paths:
        with Session(str(path)) as session:
            assert session.is_ended
            assert session.header.part == int(path.stem[-4:]) > 1
            held = [tick.sample for tick in session.ticks(0)]
            # A file begins with the last sample of the one before: every interval is in a file.
            assert told == [] or held[0] == told[-1]
            told += held[1:] if told else held
            assert session.size_bytes < 10_000 + 10_000
    assert told == samples[-len(told) :]
    assert recorder.size_bytes > sum(path.stat().st_size for path in paths)


def test_a_mark_falls_on_a_sample_taken_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.ioh")
    recorder = Recorder(lambda _: FileOutput(path))
    made = [replace(sample, mono_ns=time.monotonic_ns()) for sample in fakes.first(3)]
    recorder.write(made[0])
    threads = []

    def ask() -> None:
        recorder.write(made[1])  # taken before the mark: an interval would begin too early
        made[2] = replace(made[2], mono_ns=time.monotonic_ns())
        threads.append(threading.Thread(target=recorder.write, args=(made[2],)))
        threads[-1].start()

    assert recorder.mark_at_sample("now", ask)
    threads[0].join()
    recorder.close()
    with Session(path) as session:
        (mark,) = session.marks()
        assert mark.time_unix_s == made[2].time_unix_s
        assert excerpt_of(Span(parse_when("now")), session).begin_tick == 2
        assert excerpt_of(Span(None, parse_when("now")), session).last_tick(session) == 2


def test_a_mark_waits_for_a_late_sample_if_its_sender_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "MARK_S", 0.01)
    path = str(tmp_path / "a.ioh")
    recorder = Recorder(lambda _: FileOutput(path))
    first, second = fakes.first(2)
    recorder.write(replace(first, mono_ns=time.monotonic_ns()))

    def late() -> None:  # a machine whose CPUs are full
        recorder.write(replace(second, mono_ns=time.monotonic_ns()))

    thread = threading.Timer(0.3, late)
    assert recorder.mark_at_sample("end", thread.start, wait_s=30.0)
    thread.join()
    recorder.close()
    with Session(path) as session:
        assert excerpt_of(Span(None, parse_when("end")), session).last_tick(session) == 1


def test_a_mark_without_a_sample_falls_between_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "MARK_S", 0.01)
    recorder = Recorder(lambda _: FileOutput(str(tmp_path / "a.ioh")))
    recorder.write(next(fakes.seeded()))
    before = time.time()
    assert recorder.mark_at_sample("now", lambda: None)
    recorder.close()
    with Session(str(tmp_path / "a.ioh")) as session:
        (mark,) = session.marks()
        assert before <= mark.time_unix_s <= time.time()


def _endless(path: Path, samples: list[Sample]) -> list[str]:
    """Record into as many files as needed, keep three; return the names in the directory."""
    recorder = Recorder(
        lambda part: FileOutput(part_name(str(path), part)),
        max_bytes=10_000,
        keep=3,
        note="n",
        earlier=earlier_files(str(path)),
    )
    for sample in samples:
        assert recorder.write(sample)
    recorder.close()
    return sorted(p.name for p in path.parent.iterdir())


def test_an_endless_recording_continues_the_numbers_of_earlier_files(tmp_path: Path) -> None:
    samples = list(itertools.islice(fakes.seeded(), 60))
    path = tmp_path / "r.ioh"
    (tmp_path / "r-0001.ioh").write_bytes(b"")  # killed before its first record
    (tmp_path / "r-0002.ioh").write_bytes(b"no recording")
    (tmp_path / "r-0002.iohx").write_bytes(b"another name")
    first = _endless(path, samples)
    assert first[0:2] == ["r-0002.ioh", "r-0002.iohx"]
    assert len(first) == 5
    second = _endless(path, samples[:2])
    last = int(first[-1][2:6])
    assert second == [*first[:2], *first[3:], f"r-{last + 1:04}.ioh"]
    with Session(str(tmp_path / second[-1])) as session:
        assert (session.header.part, [m.text for m in session.marks()]) == (last + 1, ["n"])
    assert (tmp_path / "r-0002.ioh").read_bytes() == b"no recording"


def test_two_endless_recordings_do_not_share_a_name(tmp_path: Path) -> None:
    path = str(tmp_path / "r.ioh")
    under_way = Recorder(lambda part: FileOutput(part_name(path, part)), max_bytes=10_000)
    with pytest.raises(IohError, match=r"recording into .*r-0001\.ioh") as refused:
        earlier_files(path)
    assert refused.value.code == ExitCode.USAGE
    under_way.write(next(fakes.seeded()))
    under_way.close()
    assert earlier_files(path) == EarlierFiles((part_name(path, 1),), 1)
    assert earlier_files(str(tmp_path / "nosuch" / "r.ioh")) == EarlierFiles()


class Disk:
    """A directory that holds ``room_bytes``, and no new files unless ``takes_files``."""

    def __init__(self, folder: Path, room_bytes: int = 1 << 30) -> None:
        self.folder, self.room_bytes, self.takes_files = folder, room_bytes, True

    def used_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def make(self, part: int) -> Output:
        if not self.takes_files:
            msg = "cannot create it"
            raise NoRoomError(msg, "")
        disk = self

        class Bounded(FileOutput):
            def write(self, data: bytes) -> None:
                if disk.used_bytes() + len(data) > disk.room_bytes:
                    raise OSError(errno.ENOSPC, "No space left on device")
                super().write(data)

        return Bounded(str(self.folder / part_name("r.ioh", part)))

    def marks(self) -> list[str]:
        """The text of every mark of all parts."""
        found: list[str] = []
        for path in sorted(self.folder.iterdir()):
            with Session(str(path)) as session:
                found += [mark.text for mark in session.marks()]
        return found

    def told(self) -> tuple[list[Sample], list[tuple[float, float]]]:
        """Every sample once, and every gap, of all parts."""
        samples: list[Sample] = []
        gaps: list[tuple[float, float]] = []
        for path in sorted(self.folder.iterdir()):
            with Session(str(path)) as session:
                held = [tick.sample for tick in session.ticks(0)]
                assert samples == [] or held[0] == samples[-1]
                samples += held[1:] if samples else held
                gaps += [(gap.time_unix_s, gap.until_unix_s or 0.0) for gap in session.gaps()]
        return samples, gaps


def test_an_endless_recording_continues_when_only_the_kept_files_fit(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    samples = list(itertools.islice(fakes.seeded(), 90))
    recorder = Recorder(disk.make, max_bytes=10_000, keep=3)
    for sample in samples:
        assert recorder.write(sample)
        if not disk.room_bytes < 1 << 30 and len(list(tmp_path.iterdir())) == 3:
            disk.room_bytes = disk.used_bytes() + 14_000
    recorder.close()
    told, gaps = disk.told()
    assert len(list(tmp_path.iterdir())) == 3
    assert told == samples[-len(told) :]
    assert gaps == []
    assert disk.used_bytes() <= disk.room_bytes < 1 << 30


@pytest.mark.parametrize(("keep", "no_files"), [(None, False), (2, True)])
def test_a_disk_full_between_two_parts_leaves_one_gap(
    tmp_path: Path, keep: int | None, no_files: bool
) -> None:
    disk = Disk(tmp_path)
    samples = list(itertools.islice(fakes.seeded(), 60))
    recorder = Recorder(disk.make, max_bytes=10_000, keep=keep)
    written = []
    full_from = 0
    for tick, sample in enumerate(samples):
        if not full_from and recorder.size_bytes >= 10_000:
            full_from = tick  # the next sample begins another part
            disk.room_bytes, disk.takes_files = 0, not no_files
        if full_from and tick == full_from + 2:
            assert not recorder.mark("while it is full")
        if full_from and tick == full_from + 5:
            disk.room_bytes, disk.takes_files = 1 << 30, True
            assert recorder.paused_why
        if recorder.write(sample):
            written.append(sample)
    recorder.close()
    assert written == [*samples[:full_from], *samples[full_from + 5 :]]
    told, gaps = disk.told()
    marks = disk.marks()
    assert told == written[-len(told) :]
    if keep is None:
        assert told == written
        assert marks == ["while it is full"]
    if samples[full_from - 1] in told:
        assert gaps == [(samples[full_from - 1].time_unix_s, samples[full_from + 5].time_unix_s)]
