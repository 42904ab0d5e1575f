"""Who may look into a process of ioh, what it is called, and when the kernel ends it."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_libc = ctypes.CDLL(None)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; exit now if it has died already.

    Not delivered once the parent has changed its user.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def name_process() -> None:
    """Call this process ``ioh``, as if installed, and not by its interpreter's name."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text("ioh", encoding="ascii")


def hide_process() -> None:
    """Keep the user's other processes from tracing this one; also hides part of its own /proc."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
