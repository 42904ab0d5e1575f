"""``ioh mark`` takes 2 s at most, whatever the recording does, and tells the true reason."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioh.commands import main, mark
from ioh.model.errors import ExitCode, IohError
from ioh.session import marks
from ioh.session.records import MAX_TEXT_BYTES
from ioh.session.rotation import Recorder
from tests import fakes
from tests.sessions import Memory

ROOT = Path(__file__).parents[2]
STOPPED = """\
import sys, threading
from ioh.session.marks import MarkServer
made = []
server = MarkServer(lambda: "/tmp/stopped.ioh", lambda text: not made.append(text))
print("ready", flush=True)
sys.stdin.readline()
print(made, flush=True)
"""


pytestmark = pytest.mark.usefixtures("_only_my_recordings")


@pytest.fixture
def stopped() -> Iterator[subprocess.Popen[str]]:
    """A recording that somebody stopped, as with Ctrl-Z."""
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
    """What stands for a recording that can be marked."""
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


def test_a_recording_that_is_stopped_costs_the_limit_and_gets_no_late_mark(
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


def test_who_connects_and_says_nothing_is_soon_in_nobody_s_way(
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


def test_a_stopped_recording_is_not_in_another_one_s_way(
    stopped: subprocess.Popen[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert stopped.pid
    with serving(lambda _: True, "/tmp/other.ioh"):
        assert main(["mark", "x"]) == ExitCode.OK
        assert capfd.readouterr().out == "marked in /tmp/other.ioh\n"


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT_BYTES + 1), "ä" * MAX_TEXT_BYTES, " "])
def test_what_cannot_be_stored_is_refused(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    recorder = Recorder(lambda _: memory)
    recorder.write(fakes.first(1)[0])
    before = bytes(memory.data)
    with serving(recorder.mark):
        assert main(["mark", text]) == ExitCode.USAGE
        reason = "its text is empty" if not text.strip() else "the limit is 1,024"
        assert reason in said(capfd)
        (running,) = marks.running_recordings()
        why, _ = marks.send_mark(running, text)  # of another program
        assert reason in why
    assert bytes(memory.data) == before


@pytest.mark.parametrize("text", ["\x01" * MAX_TEXT_BYTES, "\udcff" * 341])
def test_the_longest_text_is_stored_whole(text: str) -> None:
    taken: list[str] = []
    with serving(keep_in(taken)):
        assert main(["mark", text]) == ExitCode.OK
    assert taken == [text]


def test_a_recording_that_has_not_begun_takes_none(
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


def test_a_recording_that_failed_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(_: str) -> bool:
        cause = "the recording has ended"
        raise IohError(cause)

    with serving(refuse):
        assert main(["mark", "x"]) == ExitCode.FAILED
    assert "not added to /tmp/a.ioh: the recording has ended" in said(capfd)
