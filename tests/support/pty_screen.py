"""Run a program on a pseudo-terminal: send keys, read what it shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0  # as long as a busy machine may take; nothing here measures time
_ESCAPES = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|[@-_])")
LEFT = b"\x1b[?1049l"  # the alternate screen
# Esc in the kitty protocol: a bare Esc, directly followed by a key, is Alt with that key.
ESC = "\x1b[27u"


class PtyScreen:
    """The program, its terminal, and all its output; a context manager."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        columns: int = 120,
        rows: int = 40,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.shown = b""
        self.is_closed = False
        self._status: int | None = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored if tests run under nohup
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            usual = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
            os.execvpe(command[0], list(command), {**os.environ, **usual, **(env or {})})

    def __enter__(self) -> PtyScreen:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if not self.is_closed:
            os.close(self.fd)

    @property
    def text(self) -> str:
        """All output so far, without escape sequences."""
        return _ESCAPES.sub(b" ", self.shown).decode(errors="replace")

    def read(self, timeout_s: float = 0.1) -> None:
        """Read what has arrived; wait for it at most ``timeout_s``."""
        if self.is_closed:
            return
        poll = select.poll()  # select() takes no descriptor above 1023
        poll.register(self.fd, select.POLLIN)
        if not poll.poll(1000 * timeout_s):
            return
        with contextlib.suppress(OSError):  # no process has the other end open
            self.shown += os.read(self.fd, 1 << 16)

    def wait_for(self, *texts: str) -> None:
        """Wait until all of these have been shown."""
        self.wait_until(lambda: all(text in self.text for text in texts))

    def press(self, *keys: str) -> None:
        """Send keys, one after the other."""
        for key in keys:
            os.write(self.fd, key.encode())
            self.read()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for any condition: a text may not be output again, as only changes are written."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, self.text[-3000:]
            assert not self.has_ended(), self.text[-3000:]
            self.read()

    def close(self) -> None:
        """Close the terminal, as when the connection is lost."""
        os.close(self.fd)
        self.is_closed = True

    def has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def wait(self) -> int:
        """Wait for the end; the exit status, or for a signal its negative number."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.has_ended():
            assert time.monotonic() < deadline, self.text[-3000:]
            self.read(0.05)
            if self.is_closed:
                time.sleep(0.05)
        self.read(0.0)
        assert self._status is not None
        return os.waitstatus_to_exitcode(self._status)
