"""Ends a wait in one thread from another thread or a signal handler."""

from __future__ import annotations

import contextlib
import os
import select
import threading

from ioh.model.closing import Closing


class WakePipe(Closing):
    """A descriptor for select() that is readable after wake()."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # Or wake() might write to a reused descriptor after close(); reentrant for signal handlers.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._read

    def wake(self) -> None:
        """End this wait or the next one; safe in a signal handler and after close()."""
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it is awake already
            if self._write >= 0:
                os.write(self._write, b"x")

    def forget(self) -> None:
        """Clear a wake()."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 1 << 16)

    def wait(self, seconds: float | None) -> None:
        """Wait for a time (None: forever) or until wake(), which is then cleared."""
        if select.select([self], [], [], seconds)[0]:
            self.forget()

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            opened, self._read, self._write = (self._read, self._write), -1, -1
            for fd in opened:
                if fd >= 0:
                    os.close(fd)
