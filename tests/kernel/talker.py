"""A program that talks by lines, and how to wait for what one does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.kernel.rig import TIMEOUT_S

_T = TypeVar("_T")
_Talker = TypeVar("_Talker", bound="Talker")


def wait_until(
    holds: Callable[[], _T],
    timeout_s: float = TIMEOUT_S,
    *,
    pause_s: float = 0.02,
    why: Callable[[], object] = lambda: "it never came",
) -> _T:
    """What is asked for, once it is there; an assertion that says ``why`` if it never is."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, why()
        time.sleep(pause_s)
    return found


class Talker:
    """A program with its input and output; a context manager, which waits for its end."""

    def __init__(self, *command: str | bytes | Path, **options: Any) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options)
        self.pid = self.process.pid

    def __enter__(self: _Talker) -> _Talker:  # noqa: PYI019 (Self came with Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """What it says next, without the end of the line."""
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        return line.removesuffix("\n")

    def ask(self, line: str = "") -> str:
        self.tell(line)
        return self.line()

    def close(self) -> None:
        """End its input, and wait for it."""
        self.process.communicate(timeout=TIMEOUT_S)
