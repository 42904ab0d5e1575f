"""The line that a bench's screen has below its header comes through a pipe."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ioh.commands import bench_screen
from ioh.commands.bench_screen import BenchScreen, line_from
from ioh.tui.render.screen import draw
from ioh.tui.state import ViewState
from tests.screens import judged, screen_data


def test_the_newest_whole_line_is_read_without_waiting() -> None:
    theirs, ours = os.pipe()
    read = line_from(theirs)
    assert read is not None
    assert read() == ""
    os.write(ours, "test 1\ntest 2 µ\n".encode())
    assert read() == read() == "test 2 µ"
    os.write(ours, b"\xff\n")
    assert read() == "�"
    os.close(ours)
    ended: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    try:
        read()
    finally:
        signal.signal(signal.SIGTERM, before)
        os.close(theirs)
    assert ended == [signal.SIGTERM]


@pytest.mark.parametrize(
    ("script", "status"), [("import sys; sys.stdin.read()", None), ("raise SystemExit(3)", 3)]
)
def test_a_screen_that_reads_nothing_or_dies_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, status: int | None
) -> None:
    monkeypatch.setattr(bench_screen, "_COMMAND", (sys.executable, "-c", script))
    monkeypatch.setattr(bench_screen, "_END_S", 0.2)
    screen = BenchScreen(tmp_path / "run.ioh")
    if status is not None:
        end_s = time.monotonic() + 30
        while screen.ended() is None and time.monotonic() < end_s:
            time.sleep(0.01)
        assert screen.ended() == status
    for number in range(2000):
        screen.line(f"{number} " + "x" * 8000)
    screen.close()
    assert screen.ended() is not None


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_line_takes_one_of_the_screen(size: tuple[int, int]) -> None:
    data = screen_data(judged())
    plain = draw(ViewState(), data, *size)
    found = draw(ViewState(), replace(data, line="test 3 of 8 | " + "x" * 200), *size)
    assert len(plain.lines) == len(found.lines) == size[1]
    assert found.lines[1].text.startswith(" test 3 of 8 | xx")
    assert found.lines[-1].text == plain.lines[-1].text
    assert found.lines[1].width == size[0]
