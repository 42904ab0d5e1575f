"""A terminal that gets the screen's bytes shows what the screen means to show.

This guards ioh/terminal/canvas.py: only changed cells are written, so a cell that is forgotten
would stay wrong for ever.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ioh.terminal.link import QUESTION
from tests.support.emulator import Emulated
from tests.support.pty_screen import ESC

IOH = (sys.executable, "-m", "ioh")
MAIN = "import sys; from ioh.commands import main; sys.exit(main())"
DEMO = ("demo", "--utc", "--speed", "8")
REPLAY = ("replay", "sample", "--utc", "--speed", "8")
NAMED = frozenset(["black", "red", "green", "brown", "blue", "magenta", "cyan", "white"])
# Each leads to another picture: zoom, heat, breakdown, filter, graph, back, findings, help.
WALK = ("5", "l", "t", "\t", "/e\r", "g", "0", "1", "h", "w", "0", "f", "?", "j", "?", "r")
CASES = {
    "16 colours, small": ((80, 24), {"TERM": "xterm"}, DEMO),
    "no colours, ASCII": ((100, 30), {"NO_COLOR": "1", "TERM": "xterm"}, (*DEMO, "--ascii")),
    "true colour, large": ((150, 50), {"COLORTERM": "truecolor"}, (*REPLAY, "--theme", "light")),
}


def run_until_ticks(on: Emulated, ticks: int) -> None:
    """Wait until the clock on the screen has changed this often."""
    seen: set[str] = set()

    def has_seen() -> bool:
        seen.update(re.findall(r"\d\d:\d\d:\d\d", on.lines[0]))
        return len(seen) > ticks

    on.wait_until(has_seen)


def wait_for_scan(on: Emulated) -> None:
    """Wait until the time line has all findings: the process that searches for them has ended."""
    children = Path(f"/proc/{on.pid}/task/{on.pid}/children")
    on.wait_until(lambda: not children.read_text().strip())


def check_saved(on: Emulated, folder: Path, number: int) -> None:
    """Save, and compare the terminal's lines with the saved ones."""
    on.press("S")
    suffix = f"-{number}.txt" if number > 1 else ".txt"
    on.wait_until(lambda: on.lines[-1].startswith(" saved ") and on.lines[-1].endswith(suffix))
    newest = folder / on.lines[-1].split()[-1]
    rows = len(on.lines)
    wanted = newest.read_text("utf-8").splitlines()[:rows]
    del wanted[rows - 1 :]  # by now the last line says that it was saved
    skipped = 1 if "DEMO" in wanted[0] else rows  # its time line grows while the screen is paused

    def is_shown() -> bool:
        pairs = zip(on.lines[: rows - 1], wanted, strict=True)
        return all(shown == line for y, (shown, line) in enumerate(pairs) if y != skipped)

    on.wait_until(is_shown)


@contextmanager
def replay(folder: Path, program: str = MAIN) -> Iterator[Emulated]:
    """The sample's replay, its findings known; q ends it."""
    command = (sys.executable, "-c", program, *REPLAY)
    with Emulated(command, folder, env={"NO_COLOR": ""}) as on:
        on.wait_for_line("block")
        run_until_ticks(on, 2)
        wait_for_scan(on)
        yield on
        on.press("q")
        assert on.wait() == 0


@pytest.mark.parametrize("case", CASES)
def test_the_terminal_shows_the_frame_after_many_partial_updates(case: str, tmp_path: Path) -> None:
    (columns, rows), env, options = CASES[case]
    command = (*IOH, *options)
    with Emulated(command, tmp_path, columns, rows, {"NO_COLOR": "", **env}) as on:
        on.wait_for_line("block")
        run_until_ticks(on, 3)
        wait_for_scan(on)
        on.press(" ")
        check_saved(on, tmp_path, 1)
        for number, key in enumerate(WALK, 2):
            on.press(*key)
            if number % 3 == 0:  # otherwise one partial update follows another
                check_saved(on, tmp_path, number // 3 + 1)
        on.press(" ", "5", "2")
        run_until_ticks(on, 2)
        on.press(" ")
        assert on.lines[0].split()[0] == "ioh"
        colors = on.colors()
        if "NO_COLOR" in env:
            assert colors == {"default"}
        elif "TERM" in env:
            assert len(colors) > 4
            allowed = NAMED | {f"bright{name}" for name in NAMED} | {"default"}
            assert colors <= allowed
        else:
            assert any(re.fullmatch("[0-9a-f]{6}", color) for color in colors), colors
        if "--ascii" in options:
            assert on.shown.isascii()
        on.press("q")
        assert on.wait() == 0


def test_changes_behind_the_palette_are_visible_once_it_is_closed(tmp_path: Path) -> None:
    with replay(tmp_path) as on:
        on.press("\x10")
        on.wait_until(lambda: "command: " in on.lines[-1])
        run_until_ticks(on, 3)
        on.press(ESC)
        on.wait_until(lambda: "command: " not in on.lines[-1])
        run_until_ticks(on, 3)
        on.press(" ")
        check_saved(on, tmp_path, 1)


def test_a_terminal_that_changes_its_size_shows_the_frame(tmp_path: Path) -> None:
    with replay(tmp_path) as on:
        on.press(" ")
        for number, (columns, rows) in enumerate(((80, 24), (200, 60), (72, 12), (132, 43)), 1):
            on.resize(columns, rows)
            on.wait_until(lambda: len(on.lines[0]) > 20)
            check_saved(on, tmp_path, number)


def test_a_message_stays_until_a_slow_terminal_has_shown_it(tmp_path: Path) -> None:
    brief = f"from ioh.tui import app; app.MESSAGE_S = 0.1; {MAIN}"
    with replay(tmp_path, brief) as on:
        on.press(" ")
        for _ in range(5):  # nothing is read: a write waits, the link is slow
            os.write(on.fd, b"5l0")
            time.sleep(0.05)
        os.write(on.fd, b"S")
        time.sleep(0.6)
        on.wait_until(lambda: on.lines[-1].startswith(" saved "))


def test_a_frame_is_one_picture_if_the_link_has_room(tmp_path: Path) -> None:
    with Emulated((*IOH, "replay", "sample"), tmp_path) as on:
        on.answers = True
        on.wait_for_line("block")
        on.press(" ")
        on.wait_for_line("PAUSED")
        on.press("?")
        on.wait_for_line("pause / resume")
        on.read(0.5)
        body = slice(1, -1)  # without the clock, and messages that expire
        help_text = on.lines[body]

        def pictures_until_help() -> int:
            on.press("?")
            on.wait_until(lambda: on.lines[body] != help_text)
            on.read(0.5)
            begin = len(on.shown)
            on.press("?")
            on.wait_until(lambda: on.lines[body] == help_text)
            return on.shown[begin:].count(QUESTION.encode())

        # Each quick answer doubles what may be in flight; on a busy machine some are late.
        assert any(pictures_until_help() == 1 for _ in range(20))
        on.press("q")
