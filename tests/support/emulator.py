"""A terminal in memory, which interprets the bytes that ioh writes, partial updates included."""

from __future__ import annotations

import copy
import fcntl
import os
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte

from ioh.terminal.link import QUESTION
from tests.support.pty_screen import PtyScreen

_ALTERNATE = 1049
_PICTURE_END = QUESTION.encode()


class _TwoScreens(pyte.Screen):
    """A terminal with an alternate screen, which pyte does not have."""

    _normal: tuple[Any, Any] | None = None

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        if _ALTERNATE in modes and self._normal is None:
            self._normal = copy.deepcopy((self.buffer, self.cursor))
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        if _ALTERNATE in modes and self._normal is not None:
            (self.buffer, self.cursor), self._normal = self._normal, None
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kwargs)


class Emulated(PtyScreen):
    """A program on a terminal whose contents a test can read."""

    # Whether it answers a query for the cursor position, as terminals do.  It answers only when a
    # test reads, perhaps so late that a shell takes the answer for keys.
    answers = False

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        columns: int = 120,
        rows: int = 40,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = _TwoScreens(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._fed = 0
        self.read_at_s = 0.0  # when the last bytes came, time.monotonic()
        super().__init__(command, cwd, columns, rows, env)
        setattr(self.screen, "write_process_input", self._answer)  # noqa: B010 (mypy: a method)

    def _answer(self, text: str) -> None:
        if self.answers:
            os.write(self.fd, text.encode())

    def __enter__(self) -> Emulated:  # noqa: PYI034
        return self

    def read(self, timeout_s: float = 0.1) -> None:
        """Read what has arrived and show it on the terminal, one picture at a time.

        However late this is called, no picture is skipped: some are shown for only a second.
        """
        if self._fed == len(self.shown):
            super().read(timeout_s)
            self.read_at_s = time.monotonic()
        at = self.shown.find(_PICTURE_END, self._fed)
        end = len(self.shown) if at < 0 else at + len(_PICTURE_END)
        self._stream.feed(self.shown[self._fed : end])
        self._fed = end

    @property
    def lines(self) -> list[str]:
        """The contents of the terminal, without trailing spaces."""
        return [line.rstrip() for line in self.screen.display]

    def wait_for_line(self, text: str) -> None:
        """Wait until a text is on the terminal."""
        self.wait_until(lambda: any(text in line for line in self.lines))

    def colors(self) -> set[str]:
        """Foreground and background colours of all characters on the terminal."""
        cells = [cell for row in self.screen.buffer.values() for cell in row.values()]
        return {cell.fg for cell in cells} | {cell.bg for cell in cells}

    def resize(self, columns: int, rows: int) -> None:
        """Do what happens when the terminal's window is resized."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)
