"""Ends a wait in one thread from another one, or from a signal handler."""

from __future__ import annotations

import contextlib
import os
import select
import threading

from ioh.model.closing import Closing


class WakePipe(Closing):
    """A descriptor that can be read from as soon as somebody called wake(), for any select()."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # Else it might be written to what is opened next; reentrant for signal handlers.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """The descriptor."""
        return self._read

    def wake(self) -> None:
        """End this wait, or the next one; safe to call from a signal handler, and after close()."""
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it is awake already
            if self._write >= 0:
                os.write(self._write, b"x")

    def forget(self) -> None:
        """Let the next wait last."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 1 << 16)

    def wait(self, seconds: float | None) -> None:
        """Wait so long, None for ever, or until wake(), which is forgotten then."""
        if select.select([self], [], [], seconds)[0]:
            self.forget()

    def close(self) -> None:
        """Nothing waits any more."""
        with self._lock:
            opened, self._read, self._write = (self._read, self._write), -1, -1
            for fd in opened:
                if fd >= 0:
                    os.close(fd)
