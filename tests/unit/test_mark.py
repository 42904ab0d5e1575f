"""``ioh mark`` ends within 2 s with the true reason, whatever the recording does; marks by name."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.commands import main, mark
from ioh.commands.arguments import check_process
from ioh.commands.progress import Progress
from ioh.model.errors import ExitCode, IohError
from ioh.recorder import marks
from ioh.recorder.rotation import Recorder
from ioh.session.output import part_of_name
from ioh.session.records import MAX_TEXT_BYTES
from tests.support import fakes
from tests.support.sessions import Memory, recorded

ROOT = Path(__file__).parents[2]
STOPPED = """\
import sys, threading
from ioh.recorder.marks import MarkServer
made = []
server = MarkServer(lambda: "/tmp/stopped.ioh", lambda text: not made.append(text))
print("ready", flush=True)
sys.stdin.readline()
print(made, flush=True)
"""


pytestmark = pytest.mark.usefixtures("_only_my_recordings")


@pytest.fixture
def stopped() -> Iterator[subprocess.Popen[str]]:
    """A recording that was stopped, as with Ctrl-Z."""
    command = [sys.executable, "-c", STOPPED]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)  # it runs on until the signal has come
        yield process
        process.kill()


@contextmanager
def serving(
    keep: Callable[[str], bool], name: str = "/tmp/a.ioh", **options: Any
) -> Iterator[marks.MarkServer]:
    """A stand-in for a recording that accepts marks."""
    server = marks.MarkServer(lambda: name, keep, **options)
    try:
        yield server
    finally:
        server.close()


def keep_in(taken: list[str]) -> Callable[[str], bool]:
    def keep(text: str) -> bool:
        taken.append(text)
        return True

    return keep


def said(capfd: pytest.CaptureFixture[str]) -> str:
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_a_stopped_recording_is_reported_at_the_limit_and_not_marked_late(
    stopped: subprocess.Popen[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["mark", "x"]) == ExitCode.FAILED
    assert said(capfd) == (
        f"ioh: the mark was not added to the recording of process {stopped.pid}: "
        f"it does not answer. Check its process: it may be stopped\n"
    )
    (running,) = marks.running_recordings(time.monotonic() + 0.1)
    why, _ = marks.send_mark(running, "late", time.monotonic() + 0.1)
    assert why == "it does not answer"
    stopped.send_signal(signal.SIGCONT)
    out, _ = stopped.communicate("\n")
    assert out == "[]\n"


def test_a_client_that_sends_nothing_does_not_block_others_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "_TIMEOUT_S", 0.05)
    taken: list[str] = []
    with serving(keep_in(taken)):
        (running,) = marks.running_recordings(time.monotonic() + 5.0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.connect("\0" + running.address)
            why, _ = marks.send_mark(running, "x", time.monotonic() + 5.0)
    assert (why, taken) == ("", ["x"])


def test_a_stopped_recording_does_not_block_another_one(
    stopped: subprocess.Popen[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert stopped.pid
    with serving(lambda _: True, "/tmp/other.ioh"):
        assert main(["mark", "x"]) == ExitCode.OK
        assert capfd.readouterr().out == "marked in /tmp/other.ioh\n"


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT_BYTES + 1), "ä" * MAX_TEXT_BYTES, " "])
def test_a_text_that_cannot_be_stored_is_refused(
    text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    memory = Memory()
    recorder = Recorder(lambda _: memory)
    recorder.write(fakes.first(1)[0])
    before = bytes(memory.data)
    with serving(recorder.mark):
        assert main(["mark", text]) == ExitCode.USAGE
        reason = "its text is empty" if not text.strip() else "the limit is 1,024"
        assert reason in said(capfd)
        (running,) = marks.running_recordings()
        why, _ = marks.send_mark(running, text)  # from another program
        assert reason in why
    assert bytes(memory.data) == before


@pytest.mark.parametrize("text", ["\x01" * MAX_TEXT_BYTES, "\udcff" * 341])
def test_the_longest_text_is_stored_whole(text: str) -> None:
    taken: list[str] = []
    with serving(keep_in(taken)):
        assert main(["mark", text]) == ExitCode.OK
    assert taken == [text]


def test_a_recording_that_has_not_started_takes_no_mark(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark, "BEGIN_S", 0.1)
    taken: list[str] = []
    with serving(keep_in(taken), has_begun=lambda: False):
        assert main(["mark", "x"]) == ExitCode.FAILED
    assert said(capfd) == (
        "ioh: the mark was not added to /tmp/a.ioh: it has not started yet. "
        "Try again: its probes are still being compiled\n"
    )
    assert taken == []


def test_a_mark_on_a_full_disk_says_that_it_waits(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(lambda _: False, paused_why=lambda: "No space left\x1b"):
        assert main(["mark", "x"]) == ExitCode.OK
    assert capfd.readouterr().out == (
        "marked in /tmp/a.ioh, as soon as it resumes: No space left\\x1b\n"
    )


def test_a_recording_paused_before_its_first_sample_says_why(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark, "BEGIN_S", 0.1)
    with serving(lambda _: True, has_begun=lambda: False, paused_why=lambda: "No space left\x1b"):
        assert main(["mark", "x"]) == ExitCode.FAILED
    assert said(capfd) == (
        "ioh: the mark was not added to /tmp/a.ioh: nothing is recorded yet: No space left\\x1b\n"
    )


def test_a_bench_marks_its_own_recording_and_nobody_else_does(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark, "APPEAR_S", 0.1)
    monkeypatch.setenv(marks.PRIVATE, "1")
    taken: list[str] = []
    with serving(keep_in(taken), ""):
        assert main(["mark", "x"]) == ExitCode.FAILED
        assert "no recording is running" in said(capfd)
        (of_bench,) = marks.running_recordings()
        assert marks.send_mark(of_bench, "test 1") == ("", "")
    assert taken == ["test 1"]


def test_a_recording_into_a_pipe_is_named_by_its_process(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(lambda _: True, ""):
        assert main(["mark", "x"]) == ExitCode.OK
    assert capfd.readouterr().out == f"marked in a pipe (process {os.getpid()})\n"


# Sockets with such names, whose queues are full.
BLOCKER = """\
import socket, sys
made = []
for number in range(int(sys.argv[1])):
    name = "\\0ioh-record-%s-%016x" % (sys.argv[2], number)
    listening, waiting = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in "ab")
    listening.bind(name)
    listening.listen(0)
    waiting.connect(name)
    made += [listening, waiting]
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def blocked(count: int, pid: int, **options: Any) -> Iterator[None]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", BLOCKER, str(count), str(pid)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.communicate("")


@pytest.mark.parametrize("pid", [0, 1])  # no process; root's
def test_full_sockets_with_the_names_of_recordings_do_not_delay_a_mark(pid: int) -> None:
    taken: list[str] = []
    with blocked(200, pid), serving(keep_in(taken)):
        began = time.monotonic()
        (running,) = marks.running_recordings(began + 20)
        assert marks.send_mark(running, "x", began + 20) == ("", "")
        assert time.monotonic() - began < 10
    assert taken == ["x"]


@pytest.fixture
def session_file(tmp_path: Path) -> str:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(fakes.first(12), {3: "start", 7: "start"}))
    return str(path)


@pytest.mark.parametrize("command", [["text"], ["report"], ["export", "--format=openmetrics"]])
def test_of_marks_with_one_text_the_first_is_used_and_the_next_named(
    command: list[str], session_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, session_file, "--from", "start"]) == ExitCode.OK
    first, err = capfd.readouterr()
    assert err.startswith('ioh: 2 marks "start" (')
    assert err.endswith('): using the first; the next is "start#2"\n')
    assert err.count("\n") == 1
    for number, is_first in (("1", True), ("2", False)):
        assert main([*command, session_file, "--from", f"start#{number}"]) == ExitCode.OK
        out, err = capfd.readouterr()
        assert err == ""
        assert (out == first) == is_first
    assert main([*command, session_file, "--from", "start#3"]) == ExitCode.USAGE
    assert 'no mark "start#3"' in capfd.readouterr().err


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Path]:
    made = marks.MarkServer(lambda: str(tmp_path / "x-0003.ioh"), lambda _: True)
    yield tmp_path
    made.close()


def test_a_mark_finds_an_endless_recording_by_its_own_name(
    endless: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark, "APPEAR_S", 0.1)
    for name in ("x.ioh", "x-0003.ioh"):
        assert main(["mark", "here", "--file", str(endless / name)]) == ExitCode.OK
        assert capfd.readouterr().out.endswith("x-0003.ioh\n")
    assert main(["mark", "here", "--file", str(endless / "y.ioh")]) == ExitCode.FAILED
    assert part_of_name("/a/x-03.ioh", "/a/x.ioh") is None
    assert part_of_name("/b/x-0003.ioh", "/a/x.ioh") is None


def test_the_id_of_a_thread_is_refused_as_a_process() -> None:
    found: list[int] = []
    begun, end = threading.Event(), threading.Event()

    def stay() -> None:
        found.append(threading.get_native_id())
        begun.set()
        end.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    assert begun.wait(20)
    try:
        check_process(os.getpid())
        with pytest.raises(IohError) as refused:
            check_process(found[0])
    finally:
        end.set()
        thread.join()
    name = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    said = str(refused.value)
    assert said.startswith(f"{found[0]} is a thread of process {os.getpid()} ({name}). ")
    assert said.endswith(f"Use --pid {os.getpid()}")


def test_a_recording_in_the_background_leaves_the_prompt_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main_fd, terminal = pty.openpty()
    recorder: Any = SimpleNamespace(name="a.ioh", size_bytes=5, paused_why="")
    with os.fdopen(terminal, "w", encoding="utf-8") as stream:
        assert isinstance(stream, TextIOWrapper)
        progress = Progress(stream, recorder)
        sample = fakes.first(1)[0]
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
        progress.tick(sample)
        progress.say("something")
        assert read_line(main_fd) == b"ioh: something\r\n"
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())  # fg
        progress.tick(sample)
        assert b"REC " in os.read(main_fd, 1 << 16)
    os.close(main_fd)


def read_line(fd: int) -> bytes:
    """Read from a terminal to the end of the line: output comes in pieces."""
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(fd, 1 << 16)
    return said
