"""A recording whose file is lost, changed or refused continues in another one, and says so."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ioh.model.errors import IohError
from ioh.model.player import RecordingState
from ioh.player.recorder import ScreenRecorder
from ioh.recorder.rotated_files import default_names, part_name
from ioh.recorder.rotation import Recorder
from ioh.session.output import FileOutput, NoRoomError, Output
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.two_hosts import parts
from tests.unit.test_record import await_size, said, start

SAMPLES = fakes.first(6)


def replaced(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.write_bytes(b"mine")


def overwritten(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"mine")


WAYS: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (Path.unlink, "it was deleted"),
    "truncated": (lambda path: os.truncate(path, 100), "it was truncated"),
    "replaced": (replaced, "another file has its name"),
    "overwritten": (overwritten, "another process writes to it"),
}


def output_of(folder: Path) -> Callable[[int], Output]:
    def make(part: int) -> Output:
        path = str(folder / "r.ioh")
        return FileOutput(part_name(path, part) if part > 1 else path)

    return make


def held(path: Path) -> tuple[list[object], list[str]]:
    """The samples and the marks of a recording that ended properly."""
    with Session(str(path)) as session:
        assert session.is_ended
        ticks = [tick.sample for tick in session.ticks(0)]
        return list(ticks), [mark.text for mark in session.marks()]


@pytest.mark.parametrize("way", WAYS)
def test_it_continues_in_another_file_at_once(way: str, tmp_path: Path) -> None:
    path = tmp_path / "r.ioh"
    recorder = Recorder(output_of(tmp_path))
    for sample in SAMPLES[:3]:
        assert recorder.write(sample)
    spoil, reason = WAYS[way]
    spoil(path)
    before = path.read_bytes() if path.exists() else None
    for sample in SAMPLES[3:]:
        assert recorder.write(sample)
    recorder.close()
    why = f"cannot continue in {path}: {reason}"
    assert recorder.left_why == why
    assert recorder.name == str(tmp_path / "r-0002.ioh")
    # No interval is missing: the new file begins with the sample that ended the old one.
    assert held(tmp_path / "r-0002.ioh") == (SAMPLES[2:], [why])
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_mark_also_notices_a_lost_file(tmp_path: Path) -> None:
    recorder = Recorder(output_of(tmp_path))
    recorder.write(SAMPLES[0])
    (tmp_path / "r.ioh").unlink()
    assert not recorder.mark("now")  # waits for the new file's first sample
    recorder.write(SAMPLES[1])
    recorder.close()
    assert held(tmp_path / "r-0002.ioh")[1][1:] == ["now"]


def test_a_file_that_was_only_renamed_is_still_written_to(tmp_path: Path) -> None:
    recorder = Recorder(output_of(tmp_path))
    recorder.write(SAMPLES[0])
    (tmp_path / "r.ioh").rename(tmp_path / "moved.ioh")
    recorder.write(SAMPLES[1])
    recorder.close()
    assert held(tmp_path / "moved.ioh") == (SAMPLES[:2], [])
    assert [path.name for path in tmp_path.iterdir()] == ["moved.ioh"]


def test_an_endless_recording_does_not_delete_a_foreign_file(tmp_path: Path) -> None:
    def make(part: int) -> Output:
        return FileOutput(part_name(str(tmp_path / "r.ioh"), part))

    recorder = Recorder(make, max_bytes=1, keep=1)
    recorder.write(SAMPLES[0])
    replaced(tmp_path / "r-0001.ioh")
    recorder.write(SAMPLES[1])
    recorder.write(SAMPLES[2])
    recorder.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moved", "r-0001.ioh", "r-0003.ioh"]
    assert (tmp_path / "r-0001.ioh").read_bytes() == b"mine"


class Failing(FileOutput):
    """Fails as long as ``error`` is set."""

    error: OSError | None = None

    def write(self, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        super().write(data)


def test_after_a_disk_error_it_continues_in_another_file(tmp_path: Path) -> None:
    made: list[Failing] = []

    def make(part: int) -> Output:
        made.append(Failing(str(tmp_path / f"{part}.ioh")))
        return made[-1]

    recorder = Recorder(make)
    recorder.write(SAMPLES[0])
    made[0].error = OSError(errno.EIO, "Input/output error")
    assert recorder.write(SAMPLES[1])
    recorder.close()
    assert held(tmp_path / "2.ioh")[0] == SAMPLES[:2]
    with Session(str(tmp_path / "1.ioh")) as session:
        assert len(session) == 1


def test_if_no_other_file_can_be_made_it_ends_with_both_reasons(tmp_path: Path) -> None:
    def make(part: int) -> Output:
        if part > 1:
            cause = "cannot create 2.ioh: Read-only file system"
            raise IohError(cause, "Give another place with -o")
        made.append(Failing(str(tmp_path / "1.ioh")))
        return made[0]

    made: list[Failing] = []
    recorder = Recorder(make)
    recorder.write(SAMPLES[0])
    made[0].error = OSError(errno.EROFS, "Read-only file system")
    with pytest.raises(IohError) as refused:
        recorder.write(SAMPLES[1])
    assert refused.value.cause == (
        f"cannot continue in {tmp_path}/1.ioh: Read-only file system, "
        "and cannot create 2.ioh: Read-only file system"
    )


def test_a_file_lost_on_a_full_disk_pauses_the_recording(tmp_path: Path) -> None:
    full = [False]

    def make(part: int) -> Output:
        if full[0]:
            cause = "cannot create 2.ioh: No space left on device"
            raise NoRoomError(cause)
        return output_of(tmp_path)(part)

    recorder = Recorder(make)
    recorder.write(SAMPLES[0])
    (tmp_path / "r.ioh").unlink()
    full[0] = True
    assert not recorder.write(SAMPLES[1])
    assert recorder.paused_why.endswith(
        "it was deleted, and cannot create 2.ioh: No space left on device"
    )
    full[0] = False
    assert recorder.write(SAMPLES[2])
    recorder.close()
    assert recorder.paused_why == ""
    with Session(str(tmp_path / "r-0002.ioh")) as session:
        (gap,) = session.gaps()
        assert gap.time_unix_s == SAMPLES[0].time_unix_s
        assert gap.until_unix_s == SAMPLES[2].time_unix_s


def test_at_the_limit_of_a_files_size_it_continues_in_another(tmp_path: Path) -> None:
    """The limit may be one of the file system or of ``ulimit -f``."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))

    process = start(tmp_path, "record", "-o", "a.ioh", "-t", "12", delay_s=0, preexec_fn=limit)
    assert said(process)[1:3] == [
        "ioh: cannot continue in a.ioh: File too large",
        "ioh: recording into a-0002.ioh",
    ]
    told: list[object] = []
    for path in sorted(
        tmp_path.iterdir(), key=lambda path: path.stem + "-0001"[len(path.stem) - 1 :]
    ):
        with Session(str(path)) as session:
            samples = [tick.sample for tick in session.ticks(0)]
            assert not told or samples[0] == told[-1]
            told += samples[1:] if told else samples
            assert session.size_bytes <= 6_000
    assert told == fakes.first(13)


def test_the_change_of_file_is_printed(tmp_path: Path) -> None:
    process = start(tmp_path, "record", "-o", "a.ioh", delay_s=0.05)
    await_size(tmp_path / "a.ioh", 6000)
    replaced(tmp_path / "a.ioh")
    await_size(tmp_path / "a-0002.ioh", 6000)
    assert said(process, signal.SIGTERM)[:3] == [
        "ioh: recording into a.ioh",
        "ioh: cannot continue in a.ioh: another file has its name",
        "ioh: recording into a-0002.ioh",
    ]


def test_a_directory_that_is_gone_ends_the_recording(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    process = start(tmp_path, "record", "-o", "gone/a.ioh", delay_s=0.05)
    await_size(folder / "a.ioh", 3000)
    process.send_signal(signal.SIGSTOP)  # otherwise it might make another file in between
    os.waitpid(process.pid, os.WUNTRACED)
    (folder / "a.ioh").unlink()
    folder.rmdir()
    assert said(process, signal.SIGCONT, 1)[-1] == (
        "ioh: cannot continue in gone/a.ioh: it was deleted, and cannot create gone/a-0002.ioh: "
        "No such file or directory. Give another place with -o"
    )


def test_stdout_that_is_full_is_an_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        (line,) = said(start(tmp_path, "record", "-o", "-", stdout=full), code=1)
    assert line == (
        "ioh: cannot write the recording to stdout: No space left on device. "
        "Free some space, or write elsewhere"
    )


def test_a_pipe_is_never_left_for_a_file() -> None:
    read_fd, write_fd = os.pipe()
    made = []

    def make(part: int) -> Output:
        made.append(part)
        return Output(write_fd)

    recorder = Recorder(make)
    recorder.write(SAMPLES[0])
    os.close(read_fd)
    with pytest.raises(BrokenPipeError):
        recorder.write(SAMPLES[1])
    os.close(write_fd)
    assert made == [1]


def test_the_screens_recording_continues_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = ScreenRecorder(("",), 1.0)
    lines = []
    for tick, part in enumerate(parts("", SAMPLES), 1):
        recording.write(part)
        if tick == 1:
            lines.append(recording.toggle())
            path = Path(recording.state.path)
        if tick == 3:
            path.unlink()
        lines.append(recording.failure_line())
        if tick == 4:
            assert recording.state.path == part_name(str(path), 2)
    second = part_name(str(path), 2)
    assert [line for line in lines if line] == [
        f"recording into {path}",
        f"cannot continue in {path}: it was deleted; recording into {second}",
    ]
    recording.close()
    assert held(Path(second))[0] == SAMPLES[3:]


def test_the_screens_recording_ends_if_it_cannot_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    recording = ScreenRecorder(("",), 1.0)
    lines = []
    for tick, part in enumerate(parts("", SAMPLES), 1):
        recording.write(part)
        if tick == 1:
            recording.toggle()
            path = Path(recording.state.path)
        if tick == 3:
            path.unlink()
            folder.rmdir()
        lines.append(recording.failure_line())
    why = f"cannot continue in {path}: it was deleted, and cannot create {part_name(str(path), 2)}"
    assert [line for line in lines if line] == [
        f"recording ended: {why}: No such file or directory"
    ]
    assert recording.state == RecordingState(failure=recording.state.failure)
    recording.close()


def test_default_names_that_exist_are_skipped(tmp_path: Path) -> None:
    names = default_names(os.uname().nodename, 0)
    first, second, third = (next(names) for _ in range(3))
    assert (second, third) == (first[:-4] + "-2.ioh", first[:-4] + "-3.ioh")
    for name in (first, second):
        (tmp_path / name).write_bytes(b"mine")
    clock = "import time; time.time = lambda: 0.0"
    said(start(tmp_path, "record", "-t", "1", before=clock))
    assert {path.name for path in tmp_path.iterdir()} == {first, second, third}
    assert (tmp_path / first).read_bytes() == b"mine"
