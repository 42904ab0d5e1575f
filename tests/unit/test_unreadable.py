"""What cannot be read and options without effect give one line; other options have an effect."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ioh.commands import main
from ioh.model.errors import ExitCode, IohError
from ioh.playback.replay import ReplaySource
from ioh.session.reader import Session
from tests.support import fakes
from tests.support.sessions import Shown, recorded

ROOT = Path(__file__).parents[2]
UNREADABLE = "/proc/self/mem"  # its first page is never there: EIO, as from a bad disk


@pytest.mark.parametrize("command", ["text", "report", "verify"])
def test_a_read_error_gives_one_line(command: str, refused: Shown) -> None:
    told = refused(command, UNREADABLE, code=ExitCode.FAILED)
    assert f"cannot read {UNREADABLE}: Input/output error" in told
    assert "--repair" not in told


def test_a_later_read_error_gives_one_line(
    session_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Session(str(session_file)) as session:
        monkeypatch.setattr(os, "pread", fail)
        with pytest.raises(IohError, match=r"cannot read .*s\.ioh: Input/output error"):
            list(session.items())


def test_a_read_error_of_stdin_gives_one_line() -> None:
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
def test_a_file_that_is_not_a_recording_is_named(
    command: str, data: bytes, why: str, tmp_path: Path, refused: Shown
) -> None:
    path = tmp_path / "other\x1b"
    path.write_bytes(data)
    assert f"other\\x1b is not a recording of ioh{why}. " in refused(
        command, path, code=ExitCode.FAILED
    )


def test_of_two_files_the_one_that_is_not_a_recording_is_named(
    session_file: Path, tmp_path: Path, refused: Shown
) -> None:
    (tmp_path / "b.ioh").touch()
    assert "b.ioh is not" in refused("compare", session_file, tmp_path / "b.ioh", code=1)


def test_a_cycle_longer_than_the_recording_is_refused(tmp_path: Path, refused: Shown) -> None:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(fakes.first(12), {3: "run 3"}))  # its mark is not shown, either
    assert f"-c 3600 is longer than {path}, which has 11 s. " in refused("text", path, "-c", "3600")
    told = refused("json", path, "-c", "8", "--from", "3", "--to", "8")
    assert f"-c 8 is longer than that part of {path}, which has 5 s. " in told


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        *((["demo", "--as-text", "-t", "1"], fds) for fds in ((1,), (0, 1, 2))),
        (["--help"], (0, 1, 2)),
        (["nonsense"], (0, 1, 2)),
    ],
)
def test_closed_descriptors_give_no_traceback(words: list[str], closed: tuple[int, ...]) -> None:
    with_closed = "import os, sys; [os.close(int(fd)) for fd in sys.argv[1].split()]; "
    start = with_closed + "os.execv(sys.executable, [sys.executable, '-m', 'ioh', *sys.argv[2:]])"
    done = subprocess.run(
        [sys.executable, "-c", start, " ".join(map(str, closed)), *words],
        check=False,
        cwd=ROOT,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == (ExitCode.USAGE if words == ["nonsense"] else ExitCode.OK)
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == (words != ["nonsense"] and 1 not in closed)


@pytest.mark.parametrize("command", [["text"], ["replay", "--as-text"], ["report"]])
def test_top_with_a_number_of_rows_shows_breakdowns(
    command: list[str], session_file: Path, shown: Shown
) -> None:
    assert "---- top " not in shown(*command, session_file)
    assert "---- top " not in shown(*command, session_file, "--top", "0")
    for rows in ("1", "5", "all"):
        told = shown(*command, session_file, "--top", rows)
        assert told == shown(*command, session_file, "--top", rows, "-d", _with_top(command))
        assert "---- top platter queues ----" in told
    files = shown(*command, session_file, "--top", "3", "-d", "topfile")
    assert "---- top platter queues ----" not in files


def _with_top(command: list[str]) -> str:
    return "hist,top" if command[0] == "report" else "top"


@pytest.mark.parametrize("command", ["report", "compare", "text"])
def test_histograms_have_the_requested_width(
    command: str, session_file: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(session_file)
    words = [command, path, *([path] if command == "compare" else ["-d", "hist"])]
    plain = shown(*words)
    monkeypatch.setenv("CWIDTH", "9")
    wide = shown(*words)
    monkeypatch.setenv("PAD", "|")
    padded = shown(*words)
    assert len({plain, wide, padded}) == 3
    monkeypatch.setenv("CWIDTH", "x")
    assert main(words) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["report", "FILE", "--top", "-3"], "--top: must be a number of rows, or all"),
        (["text", "FILE", "--layers", "wire", "--no-layer", "wire"], "leave nothing to show"),
        (["json", "FILE", "--layers", ","], "leave nothing to show. Its layers: program, "),
        (["export", "FILE", "--layers", "wire", "--no-layer", "wire"], "leave nothing to show"),
        (["export", "FILE", "--format=openmetrics", "--from=99999"], "no interval in that part"),
        (["export", "FILE", "--top", "3"], "csv has no breakdowns. Give --format jsonl"),
        (["export", "FILE", "--top", "10", "--format=openmetrics"], "openmetrics has no breakdown"),
        (["export", "FILE", "--findings-config", "x"], "--findings-config has no effect: csv"),
        (["text", "FILE", "-d", "hist,findings", "--no-findings"], "--no-findings contradict"),
        (["report", "FILE", "-d", "findings", "--no-findings"], "--no-findings contradict"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str], cause: str, session_file: Path, refused: Shown
) -> None:
    assert cause in refused(*(session_file if word == "FILE" else word for word in words))
