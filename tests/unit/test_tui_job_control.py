"""Ctrl-Z, bg, fg and kill: the shell gets the terminal, and the screen gets it back."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from ioh.session.reader import Session
from tests.support import fakes
from tests.support.emulator import Emulated
from tests.support.pty_screen import LEFT
from tests.support.sessions import recorded
from tests.unit.test_tui_terminal import check_saved, run_until_ticks

SHELL = ("bash", "--norc", "--noprofile", "-i")
DEMO = f"{sys.executable} -m ioh demo --utc --speed 8"
LIVE = f"{sys.executable} -m ioh --proc --utc -c 0.5"
CTRL_Z = "\x1a"
PROMPT = {"PS1": "ready> ", "NO_COLOR": "", "HISTFILE": ""}
SIZE = (110, 30)


def shell(folder: Path, command: str) -> Emulated:
    """A shell with job control, in which a screen was started."""
    on = Emulated(SHELL, folder, *SIZE, PROMPT)
    on.wait_for_line("ready>")
    on.press(f"{command}\r")
    return on


def has_prompt(on: Emulated) -> bool:
    """Whether the last line is the shell's prompt: the screen is gone, the shell is waiting."""
    shown = [line for line in on.lines if line]
    return bool(shown) and shown[-1].startswith("ready>")


def to_prompt(on: Emulated, *keys: str, says: str = "") -> None:
    """Press keys that lead back to the shell; wait for its prompt and for ``says``."""
    on.press(*keys)
    on.wait_until(lambda: has_prompt(on) and says in "\n".join(on.lines))


def ask(on: Emulated, command: str) -> str:
    """The output of a command in the shell."""
    begin = len(on.shown)
    # The typed text differs from the output: a shell that is not ready yet echoes it twice.
    on.press(f"{command}; echo end''-of-it\r")
    on.wait_until(lambda: b"end-of-it" in on.shown[begin:])
    return on.shown[begin:].decode()


def wait_for_screen(on: Emulated, *keys: str) -> None:
    on.press(*keys)
    on.wait_until(lambda: on.lines[0].startswith(" ioh ") and "block" in "\n".join(on.lines))


def test_the_shell_has_its_terminal_until_fg(tmp_path: Path) -> None:
    with shell(tmp_path, LIVE) as on:
        wait_for_screen(on)
        run_until_ticks(on, 1)  # by now there is more than the first picture
        to_prompt(on, "3", CTRL_Z, says="Stopped")
        assert "ioh --proc" in on.lines[0], "what stood there before is there again"
        assert "Stopped" in ask(on, "jobs")
        assert termios.tcgetattr(on.fd)[3] & termios.ISIG
        time.sleep(0.8)  # makes one interval longer than usual
        wait_for_screen(on, "fg\r")
        on.wait_until(lambda: "interval" in on.lines[0])
        on.wait_until(lambda: "suspended" in on.lines[-1])
        run_until_ticks(on, 1)
        on.press(" ")
        check_saved(on, tmp_path, 1)
        to_prompt(on, "q")
        assert "code 0" in ask(on, "echo code $?")


def test_every_program_of_a_pipe_stops_and_goes_on(tmp_path: Path) -> None:
    """A shell waits until all of them have stopped."""
    (tmp_path / "run.ioh").write_bytes(recorded(fakes.first(5)))
    slow = "(cat run.ioh; sleep 1000)"
    with shell(tmp_path, f"{slow} | {sys.executable} -m ioh replay - --speed 20") as on:
        on.wait_until(lambda: "db01" in on.lines[0])
        to_prompt(on, CTRL_Z, says="Stopped")
        on.press("fg\r")
        on.wait_until(lambda: "db01" in on.lines[0])
        on.press("q")
        on.wait_until(lambda: on.shown.count(LEFT) >= 2)
        on.press("\x03")  # the other program of the pipe
        on.wait_until(lambda: has_prompt(on))


def test_in_the_background_it_goes_on_and_leaves_the_terminal_alone(tmp_path: Path) -> None:
    with shell(tmp_path, LIVE) as on:
        wait_for_screen(on)
        on.press("R")
        on.wait_until(lambda: "REC" in on.lines[0])
        to_prompt(on, CTRL_Z)
        recording = next(tmp_path.glob("*.ioh"))
        ask(on, "bg")
        on.wait_until(lambda: has_prompt(on))
        before, shown = ticks_of(recording), on.shown
        on.wait_until(lambda: ticks_of(recording) > before + 1)
        assert on.shown == shown
        assert "Running" in ask(on, "jobs")
        wait_for_screen(on, "fg\r")
        to_prompt(on, "R", "q")
        with Session(str(recording)) as session:
            assert session.is_ended


def ticks_of(recording: Path) -> int:
    if not recording.stat().st_size:
        return 0
    with Session(str(recording)) as session:
        return len(session)


@pytest.mark.parametrize(("typed", "prompt"), [("/", "filter:"), ("\x10", "command:")])
def test_ctrl_z_works_in_prompts_and_a_stopped_screen_can_be_killed(
    tmp_path: Path, typed: str, prompt: str
) -> None:
    with shell(tmp_path, DEMO) as on:
        wait_for_screen(on)
        run_until_ticks(on, 1)
        on.press(typed)
        on.read()
        to_prompt(on, CTRL_Z)
        on.press("fg\r")
        on.wait_until(lambda: on.lines[0].startswith(" ioh "))
        on.wait_for_line(prompt)
        to_prompt(on, CTRL_Z)
        ask(on, "kill %1")
        on.wait_until(lambda: "Done" in ask(on, "jobs"))
        assert termios.tcgetattr(on.fd)[3] & termios.ISIG
        assert "Traceback" not in on.text


def test_stopped_by_a_signal_it_gets_its_terminal_back(tmp_path: Path) -> None:
    """SIGSTOP cannot be caught: the shell gets the terminal with the screen's settings."""
    with shell(tmp_path, f"{DEMO} & echo its id is $!; fg") as on:
        wait_for_screen(on)
        run_until_ticks(on, 1)
        pid = int(on.text.rpartition("its id is ")[2].split()[0])
        for number in (signal.SIGSTOP, signal.SIGTSTP):
            begin = len(on.shown)
            os.kill(pid, number)
            on.wait_until(lambda: b"Stopped" in on.shown[begin:])  # noqa: B023
            begin = len(on.shown)
            on.press("stty sane; fg\r")
            on.wait_until(lambda: b"\x1b[?1049h" in on.shown[begin:])  # noqa: B023
            wait_for_screen(on)
            run_until_ticks(on, 1)
        on.press(" ")
        check_saved(on, tmp_path, 1)
        to_prompt(on, "q")


def test_without_a_shell_that_could_continue_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ioh", "demo"]
    with Emulated(command, tmp_path) as shown:
        shown.wait_for_line("block")
        shown.press(CTRL_Z)
        shown.wait_for_line("no job control")  # as emulated: only changed cells are written
        shown.press("q")
        assert shown.wait() == 0


def test_if_sigtstp_is_ignored_it_says_so(tmp_path: Path) -> None:
    with shell(tmp_path, f"(trap '' TSTP; {DEMO})") as on:
        wait_for_screen(on)
        on.press(CTRL_Z)
        on.wait_until(lambda: "no job control" in on.lines[-1])
        to_prompt(on, "q")


def test_keys_work_after_fg_even_if_ctrl_z_was_handled_late(
    tmp_path: Path,
) -> None:
    """On a busy machine, the thread that reads keys may pause at any moment."""
    program = (
        "import sys, time\n"
        "from ioh.commands import main\n"
        "from ioh.terminal.driver import TerminalDriver\n"
        "process = TerminalDriver.process_message\n"
        "def process_slowly(driver, message):\n"
        "    process(driver, message)\n"
        "    time.sleep(0.3)\n"
        "TerminalDriver.process_message = process_slowly\n"
        "sys.exit(main(['demo', '--utc']))\n"
    )
    (tmp_path / "slow.py").write_text(program)
    with shell(tmp_path, f"{sys.executable} slow.py") as on:
        wait_for_screen(on)
        run_until_ticks(on, 1)
        to_prompt(on, CTRL_Z, says="Stopped")
        wait_for_screen(on, "fg\r")
        to_prompt(on, "q")


def test_it_can_be_stopped_before_it_has_imported_its_libraries(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        while name == 'ioh.tui.app' and not os.path.exists('go'): time.sleep(0.05)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from ioh.commands import main\n"
        "sys.exit(main(['demo', '--utc']))\n"
    )
    (tmp_path / "slow.py").write_text(program)
    with shell(tmp_path, f"{sys.executable} slow.py") as on:
        on.wait_until(lambda: on.lines[0].startswith(" ioh "))
        to_prompt(on, CTRL_Z)
        assert not on.screen.cursor.hidden
        on.press("fg\r")
        on.wait_until(lambda: on.lines[0].startswith(" ioh "))
        (tmp_path / "go").touch()
        wait_for_screen(on)
        to_prompt(on, "q")
