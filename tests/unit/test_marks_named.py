"""Marks of one text, marks of an endless recording, and processes by their ids."""

from __future__ import annotations

import os
import pty
import threading
import time
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioh.commands import main, mark
from ioh.commands.options import check_process
from ioh.commands.progress import Progress
from ioh.model.errors import ExitCode, IohError
from ioh.session import marks
from ioh.session.rotated_files import part_of_name
from tests import fakes
from tests.sessions import recorded


@pytest.fixture
def session_file(tmp_path: Path) -> str:
    path = tmp_path / "s.ioh"
    path.write_bytes(recorded(fakes.first(12), {3: "start", 7: "start"}))
    return str(path)


@pytest.mark.parametrize("command", [["text"], ["report"], ["export", "--format=openmetrics"]])
def test_of_marks_of_one_text_the_first_is_taken_and_told(
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


def test_a_threads_id_is_no_process() -> None:
    found: list[int] = []
    end = threading.Event()

    def stay() -> None:
        found.append(threading.get_native_id())
        end.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    while not found:
        time.sleep(0.01)
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
    """What a terminal was told, to the end of the line: it comes in pieces."""
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(fd, 1 << 16)
    return said
