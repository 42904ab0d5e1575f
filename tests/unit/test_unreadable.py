"""What cannot be read, or has nothing to show as asked, is one line that names the file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ioh.model.errors import ExitCode, IohError
from ioh.playback.replay import ReplaySource
from ioh.session.reader import Session
from tests import fakes
from tests.sessions import Shown, recorded

ROOT = Path(__file__).parents[2]
UNREADABLE = "/proc/self/mem"  # its first page is never there: EIO, as from a bad disk


@pytest.mark.parametrize("command", ["text", "report", "verify"])
def test_a_read_error_is_one_line(command: str, refused: Shown) -> None:
    told = refused(command, UNREADABLE, code=ExitCode.FAILED)
    assert f"cannot read {UNREADABLE}: Input/output error" in told
    assert "--repair" not in told


def test_a_read_error_later_on_is_one_line(
    session_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Session(str(session_file)) as session:
        monkeypatch.setattr(os, "pread", fail)
        with pytest.raises(IohError, match=r"cannot read .*s\.ioh: Input/output error"):
            list(session.items())


def test_a_read_error_of_stdin_is_one_line() -> None:
    fd = os.open("/", os.O_RDONLY)  # EISDIR
    try:
        with (
            ReplaySource("-", speed=None, stdin_fd=fd) as source,
            pytest.raises(IohError, match="cannot read stdin: Is a directory"),
        ):
            list(source)
    finally:
        os.close(fd)


@pytest.mark.parametrize("command", ["text", "report", "verify"])
@pytest.mark.parametrize(("data", "why"), [(b"", " (empty)"), (b"x" * 4000, "")])
def test_what_is_no_recording_is_named(
    command: str, data: bytes, why: str, tmp_path: Path, refused: Shown
) -> None:
    path = tmp_path / "other\x1b"
    path.write_bytes(data)
    assert f"other\\x1b is not a recording of ioh{why}. " in refused(
        command, path, code=ExitCode.FAILED
    )


def test_of_two_the_one_that_is_no_recording_is_named(
    session_file: Path, tmp_path: Path, refused: Shown
) -> None:
    (tmp_path / "b.ioh").touch()
    assert "b.ioh is not" in refused("compare", session_file, tmp_path / "b.ioh", code=1)


def test_a_cycle_longer_than_the_recording_is_told(tmp_path: Path, refused: Shown) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(fakes.first(12)))
    assert f"-c 3600 is longer than {path}, which has 11 s. " in refused("text", path, "-c", "3600")
    told = refused("json", path, "-c", "8", "--from", "3", "--to", "8")
    assert f"-c 8 is longer than that part of {path}, which has 5 s. " in told


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        *((["demo", "--text", "-t", "1"], fds) for fds in ((1,), (0, 1, 2))),
        (["--help"], (0, 1, 2)),
        (["nonsense"], (0, 1, 2)),
    ],
)
def test_closed_descriptors_are_no_traceback(words: list[str], closed: tuple[int, ...]) -> None:
    with_closed = "import os, sys; [os.close(int(fd)) for fd in sys.argv[1].split()]; "
    start = with_closed + "os.execv(sys.executable, [sys.executable, '-m', 'ioh', *sys.argv[2:]])"
    done = subprocess.run(
        [sys.executable, "-c", start, " ".join(map(str, closed)), *words, *_fast(words)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == (ExitCode.USAGE if words == ["nonsense"] else ExitCode.OK)
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == (words != ["nonsense"] and 1 not in closed)


def _fast(words: list[str]) -> list[str]:
    return ["--speed", "1000"] if words[0] == "demo" else []
