"""Fixtures that several files of unit tests use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.model.errors import ExitCode
from ioh.recorder import marks
from tests.support import fakes
from tests.support.sessions import Shown, recorded
from tests.unit.live_host import Host
from tests.unit.loader_machine import Machine


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Shown:
    """Run a command; check its exit status and that stderr is empty; return its stdout."""

    def run(*args: str | Path, code: int = ExitCode.OK) -> str:
        assert main([str(arg) for arg in args]) == code
        out, err = capfd.readouterr()
        assert err == ""
        assert "\x1b" not in out
        return out

    return run


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Shown:
    """Run a command that is refused with a one-line error; return that line."""

    def run(*args: str | Path, code: int = ExitCode.USAGE) -> str:
        assert main([str(arg) for arg in args]) == code
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith("ioh: ")
        assert err.count("\n") == 1
        assert "\x1b" not in err
        return err

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for the test alone, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session_file(tmp_path: Path) -> Path:
    """A recording of twelve samples and two marks."""
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(fakes.first(12), {3: "run 3", 7: "run 7"}, note="made\x1bup"))
    return path


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    """Starts loaders for the test and closes them after it."""
    made = Machine(monkeypatch, tmp_path)
    yield made
    made.close()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """The host of a live source, without privilege."""
    made = Host(monkeypatch)
    yield made
    made.end.close()
    made.loader.socket.close()


@pytest.fixture
def root(host: Host) -> Host:
    """The host of a live source, with privilege."""
    host.is_privileged = True
    return host


@pytest.fixture
def _only_my_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide recordings that other processes may be running at the same time."""
    every = marks.running_recordings

    def mine(deadline: float | None = None) -> list[marks.RunningRecording]:
        found = every(deadline)
        return [each for each in found if os.getpid() in {each.pid, parent_of(each.pid)}]

    monkeypatch.setattr(marks, "running_recordings", mine)


def parent_of(pid: int) -> int:
    """Return the parent's pid; 0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return 0
