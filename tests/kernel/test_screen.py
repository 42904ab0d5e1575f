"""The screen over real probes: it comes before they do, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ioh.tui.first_picture import STARTING
from tests.kernel.rig import ioh_command
from tests.kernel.test_lifecycle import held, traces_of_a_whole
from tests.pty_screen import PtyScreen

PROGRAMS = 10  # of syscall, tcp and block, at least
IOH = ioh_command()
ENDINGS: dict[str, Callable[[PtyScreen], None]] = {
    "a key": lambda shown: shown.press("q"),
    "SIGTERM": lambda shown: os.kill(shown.pid, signal.SIGTERM),
    "SIGHUP": lambda shown: os.kill(shown.pid, signal.SIGHUP),
    "SIGKILL": lambda shown: os.kill(shown.pid, signal.SIGKILL),
    "the connection": PtyScreen.close,
}


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_nothing_is_left_however_it_ends(tmp_path: Path, ending: str) -> None:
    with PtyScreen(IOH, tmp_path) as shown:
        # Painted before the probes are there, which may be so soon that no line tells of compiling.
        shown.wait_for(STARTING)
        shown.wait_until(lambda: attached(shown) >= PROGRAMS)
        traces = traces_of_a_whole(shown.pid)
        ENDINGS[ending](shown)
        assert shown.wait() == (-signal.SIGKILL if ending == "SIGKILL" else 0)
        traces.assert_gone()
        assert "Traceback" not in shown.text


def attached(shown: PtyScreen) -> int:
    """How many programs ioh itself holds."""
    return len(held({shown.pid}, "prog_id"))


@pytest.mark.parametrize("delay_s", [0.05, 0.2, 0.5, 1.0])
def test_ended_while_it_starts(tmp_path: Path, delay_s: float) -> None:
    with PtyScreen(IOH, tmp_path) as shown:
        shown.read(delay_s)
        os.kill(shown.pid, signal.SIGTERM)
        status = shown.wait()
        # Before Python has begun to listen, the signal has its usual effect.
        assert status in {0, -signal.SIGTERM}
        assert "Traceback" not in shown.text
