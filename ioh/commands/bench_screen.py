"""The screen while a bench runs: ``ioh replay`` of its recording, in a process of its own.

However that process ends, the bench goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ioh.model.printable import printable

_COMMAND = (sys.executable, "-I", "-m", "ioh", "replay")
_MAX_BYTES = 4096  # less than what a pipe takes in one piece
_END_S = 5.0


class BenchScreen:
    """The screen over a recording that has begun and goes on, with one more line."""

    def __init__(self, recording: Path) -> None:
        theirs, self._fd = os.pipe()
        os.set_blocking(self._fd, False)
        self._shown = ""
        words = [*_COMMAND, str(recording.resolve()), "--line", str(theirs)]
        self._process = subprocess.Popen(words, pass_fds=(theirs,), stderr=subprocess.DEVNULL)
        os.close(theirs)

    def line(self, text: str) -> None:
        """What its line says from now on."""
        if text != self._shown:
            with contextlib.suppress(OSError):  # it reads late, or is gone
                os.write(self._fd, text.encode()[:_MAX_BYTES] + b"\n")
                self._shown = text

    def ended(self) -> int | None:
        """Its exit status, once the user has left it."""
        return self._process.poll()

    def close(self) -> None:
        """End it: it ends where its line does, and gives the terminal back."""
        os.close(self._fd)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # stopped, or stuck
            self._process.wait()


def line_from(fd: int) -> Callable[[], str]:
    """What reads the newest line from a pipe, without waiting; ends the screen with the pipe."""
    os.set_blocking(fd, False)
    newest = ""

    def read() -> str:
        nonlocal newest
        with contextlib.suppress(BlockingIOError):
            while raw := os.read(fd, _MAX_BYTES * 16):
                whole = raw.decode(errors="replace").split("\n")
                newest = next((line for line in reversed(whole) if line), newest)
            signal.raise_signal(signal.SIGTERM)
        return printable(newest)

    return read
