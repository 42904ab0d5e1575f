"""`ioh record` and `ioh mark`, on made-up samples in real processes."""

from __future__ import annotations

import errno
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main, mark
from ioh.commands.progress import what_is_from_proc
from ioh.commands.record import size_bytes
from ioh.model.errors import ExitCode, IohError
from ioh.model.sample import LayerSample
from ioh.recorder import marks
from ioh.recorder.rotated_files import default_names, part_name
from ioh.recorder.rotation import Recorder
from ioh.rights import files
from ioh.session.output import FileOutput
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.sessions import Memory, Shown, await_full_pipe, samples_of

pytestmark = pytest.mark.usefixtures("_only_my_recordings")
ROOT = Path(__file__).parents[2]
PROGRAM = """\
{before}
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.support import fakes
fakes.install(delay_s={delay_s})
from ioh.commands import main
sys.exit(main())
"""


def start(
    cwd: Path, *args: str, delay_s: float = 0.05, before: str = "", **how: Any
) -> subprocess.Popen[bytes]:
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    program = PROGRAM.format(delay_s=delay_s, before=before)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *args]
    return subprocess.Popen(command, cwd=cwd, env=env, **how)  # type: ignore[return-value]


def said(process: subprocess.Popen[bytes], number: int = 0, code: int = 0) -> list[str]:
    """The lines of stderr; the process ends with status ``code``, after a signal if ``number``."""
    if number:
        process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    return err.decode().splitlines()


def await_size(path: Path, size: int) -> None:
    deadline = time.monotonic() + 20
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < deadline, "nothing was recorded"
        time.sleep(0.01)


def test_a_recording_runs_for_its_time_and_gets_a_default_name(tmp_path: Path) -> None:
    begun, ended = said(start(tmp_path, "record", "-t", "3", "--note", "a\x1bb"))
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"ioh-[A-Za-z0-9._-]+-\d{8}-\d{6}\.ioh", path.name)
    assert begun == f"ioh: recording into {path.name}"
    assert re.fullmatch(r"ioh: recorded 4 samples, [0-9.]+ kB", ended)
    with Session(str(path)) as session:
        assert len(session) == 4
        assert session.is_ended
        assert [mark.text for mark in session.marks()] == ["a\x1bb"]
        assert [tick.sample for tick in session.ticks(0)] == fakes.first(4)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_properly(tmp_path: Path, number: int, code: int) -> None:
    path = tmp_path / "a.ioh"
    process = start(tmp_path, "record", "-o", "a.ioh")
    await_size(path, 3000)
    process.send_signal(signal.SIGHUP)  # a closed terminal is no reason to end
    await_size(path, path.stat().st_size + 6000)
    said(process, number, code)
    with Session(str(path)) as session:
        assert session.is_ended
        assert len(session) > 3


def test_stdout_carries_the_same_bytes(tmp_path: Path) -> None:
    process = start(tmp_path, "record", "-o", "-", "-t", "3", delay_s=0)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert samples_of(out) == fakes.first(4)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_ends_it_silently(tmp_path: Path) -> None:
    with start(tmp_path, "record", "-o", "-") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b""


def test_a_signal_ends_it_while_nobody_reads(tmp_path: Path) -> None:
    with start(tmp_path, "record", "-o", "-", delay_s=0) as process:
        assert process.stdout is not None
        await_full_pipe(process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["--keep", "3"], "--keep needs --max-size"),
        (["-o", "-", "--max-size", "1M"], "not with a pipe"),
        (["--max-size", "1k"], "at least 64k"),
        (["--max-size", "1M", "--keep", "0"], "1 or more"),
        (["-o", "there.ioh"], "there.ioh exists, and ioh does not overwrite files"),
    ],
)
def test_bad_arguments_print_one_line(
    args: list[str], cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.ioh").write_bytes(b"mine")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cause in refused("record", *args)
    assert [p.name for p in tmp_path.iterdir()] == ["there.ioh"]
    assert (tmp_path / "there.ioh").read_bytes() == b"mine"


def test_a_terminal_gets_a_progress_line_but_no_recording(tmp_path: Path) -> None:
    main_fd, terminal = pty.openpty()
    process = start(tmp_path, "record", "-o", "a.ioh", "-t", "4", stderr=terminal)
    process.communicate(timeout=30)
    refused = start(tmp_path, "record", "-o", "-", stdout=terminal)
    _, err = refused.communicate(timeout=30)
    assert refused.returncode == ExitCode.USAGE
    assert b"stdout is a terminal" in err
    os.close(terminal)
    told = b""
    with suppress(OSError):  # all of it was read
        while True:
            told += os.read(main_fd, 1 << 16)
    os.close(main_fd)
    shown = told.decode()
    assert "REC 00:00:0" in shown
    assert re.search(r"prog \d+\.\d MB/s  wire 13\.3 MB/s  platter \d+\.\d MB/s", shown)
    assert shown.endswith("kB\r\n")


def test_a_recording_goes_on_when_its_terminal_is_gone(tmp_path: Path) -> None:
    main_fd, terminal = pty.openpty()
    path = tmp_path / "a.ioh"
    process = start(tmp_path, "record", "-o", "a.ioh", stderr=terminal)
    os.close(terminal)
    await_size(path, 3000)
    os.close(main_fd)
    await_size(path, path.stat().st_size + 2000)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 0
    with Session(str(path)) as session:
        assert session.is_ended


def test_default_names_part_names_and_sizes() -> None:
    assert next(default_names("../a b\x1b", 0)).startswith("ioh-_a_b_-19")
    assert next(default_names("", 0)).startswith("ioh-host-")
    assert part_name("d.x/run.ioh", 7) == "d.x/run-0007.ioh"
    assert (size_bytes("100M"), size_bytes("2g"), size_bytes("64kB")) == (10**8, 2 * 10**9, 64_000)


class Sometimes(FileOutput):
    """A disk that is full while ``full`` says so."""

    full = False

    def write(self, data: bytes) -> None:
        if type(self).full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(data)


def test_a_full_disk_is_reported_once_and_the_gap_is_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from ioh.commands.progress import Progress

    recorder = Recorder(lambda _: Sometimes(str(tmp_path / "a.ioh")))
    progress = Progress(sys.stderr, recorder)
    samples = fakes.first(8)
    for tick, sample in enumerate(samples):
        Sometimes.full = 3 <= tick < 6
        recorder.write(sample)
        progress.tick(sample)
    recorder.close()
    assert capfd.readouterr().err.splitlines() == [
        "ioh: recording is paused: No space left on device; it resumes as soon as there is space",
        "ioh: recording again; 3 samples are lost",
    ]
    with Session(str(tmp_path / "a.ioh")) as session:
        (gap,) = session.gaps()
        assert gap.time_unix_s == samples[2].time_unix_s
        assert gap.until_unix_s == samples[6].time_unix_s
        assert gap.text == "No space left on device"
        assert [tick.sample for tick in session.ticks(0)] == [*samples[:3], *samples[6:]]


def test_a_disk_that_stays_full_is_a_failure(tmp_path: Path) -> None:
    full = """\
import errno
from ioh.session.output import FileOutput
def write(self, data):
    raise OSError(errno.ENOSPC, "No space left on device")
FileOutput.write = write
"""
    process = start(tmp_path, "record", "-o", "a.ioh", "-t", "3", before=full, delay_s=0)
    assert said(process, code=ExitCode.FAILED)[-1] == (
        "ioh: nothing was recorded: No space left on device. "
        "Free some space, or choose another place with -o"
    )


def test_layers_without_bpf_are_reported_with_the_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from ioh.commands.progress import Progress

    recorder = Recorder(lambda _: FileOutput(str(tmp_path / "a.ioh")))
    (sample,) = fakes.first(1)
    layers = dict(sample.layers)
    for name in ("program", "wire"):
        layer = layers[name]
        assert isinstance(layer, LayerSample)
        layers[name] = replace(layer, source="proc", notes=("from /proc: no\x1broot", "more"))
    Progress(sys.stderr, recorder).say_what_is_from_proc(replace(sample, layers=layers))
    recorder.close()
    assert capfd.readouterr().err == "ioh: prog, wire: from /proc: no\\x1broot\n"


@pytest.fixture
def recording() -> Iterator[Memory]:
    """The bytes of a running recording that has an odd file name and can be marked."""
    memory = Memory()
    recorder = Recorder(lambda _: memory)
    recorder.write(fakes.first(1)[0])
    server = marks.MarkServer(lambda: f"/tmp/\x1b{os.getpid()}.ioh", recorder.mark)
    yield memory
    server.close()


def mine() -> list[marks.RunningRecording]:
    return [each for each in marks.running_recordings() if each.pid == os.getpid()]


def test_a_mark_reaches_the_running_recording(
    recording: Memory, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"/tmp/\x1b{os.getpid()}.ioh"
    assert main(["mark", "fio run 3 starts", "--file", name]) == ExitCode.OK
    assert capfd.readouterr().out == f"marked in /tmp/\\x1b{os.getpid()}.ioh\n"
    assert main(["mark", " ", "--file", name]) == ExitCode.USAGE
    monkeypatch.setattr(mark, "APPEAR_S", 0.1)
    assert main(["mark", "x", "--file", "/nosuch.ioh"]) == ExitCode.FAILED
    assert "no recording to /nosuch.ioh is running" in capfd.readouterr().err
    other = marks.MarkServer(lambda: "/tmp/other.ioh", lambda text: True)
    assert main(["mark", "x"]) == ExitCode.USAGE
    assert "several recordings are running" in capfd.readouterr().err
    other.close()
    assert recording.data.count(b"fio run 3 starts") == 1


def test_a_mark_waits_for_the_first_sample(capfd: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    recorder = Recorder(lambda _: memory)
    name = f"/tmp/starting-{os.getpid()}.ioh"
    begins = threading.Timer(0.3, recorder.write, fakes.first(1))
    server = marks.MarkServer(lambda: name, recorder.mark, lambda: bool(recorder.size_bytes))
    begins.start()
    try:
        assert main(["mark", "at the start", "--file", name]) == ExitCode.OK
        assert capfd.readouterr().out == f"marked in {name}\n"
        assert b"at the start" in memory.data
    finally:
        begins.join()
        server.close()


def test_other_users_can_neither_mark_nor_receive_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[str] = []

    def mark(text: str) -> bool:
        marked.append(text)
        return True

    with monkeypatch.context() as patch:
        patch.setattr(marks, "trusted_uids", lambda: frozenset({-2}))
        stranger = marks.MarkServer(lambda: "a.ioh", mark)
    assert mine() == []
    stranger.close()
    server = marks.MarkServer(lambda: "a.ioh", mark)
    (running,) = mine()
    monkeypatch.setattr(marks, "recording_uids", lambda: frozenset({-2}))
    assert marks.send_mark(running, "secret") == ("the recording has ended", "")
    assert marked == []
    server.close()


@pytest.mark.usefixtures("recording")
def test_nonsense_on_the_socket_does_no_harm() -> None:
    for message in (b"", b"{", b"[1]", b'{"mark": 5}', b"[" * 4000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect("\0" + mine()[0].address)
            connection.send(message)
    assert len(mine()) == 1


def test_the_death_of_the_keeper_of_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = object.__new__(files._Keeper)
    keeper._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    monkeypatch.setattr(keeper, "_directory", str(tmp_path), raising=False)
    monkeypatch.setattr(files, "_keeper", keeper)
    with keeper._channel, pytest.raises(IohError) as told:
        FileOutput(str(tmp_path / "m-0002.ioh"))
    assert told.value.cause.endswith("m-0002.ioh: the process that creates files as root has ended")
    assert told.value.hint == "Start it again"


def test_layers_from_proc_are_named_with_the_reason() -> None:
    sample = fakes.first(1)[0]
    name, layer = next((n, x) for n, x in sample.layers.items() if isinstance(x, LayerSample))
    why = "from /proc: its compiler was killed"
    layers = {name: replace(layer, source="proc", notes=(why, "more"))}
    title = sample.specs[name].title
    assert what_is_from_proc(replace(sample, layers=layers)) == [f"{title}: {why}"]
    assert not what_is_from_proc(replace(sample, layers={name: replace(layer, source="bpf")}))
