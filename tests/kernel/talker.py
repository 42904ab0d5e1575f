"""Programs that exchange lines with a test, and waiting for what a program does."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

# Only guards against hanging: an emulated machine that shares its host takes minutes.
TIMEOUT_S = 300 if os.environ.get("IOH_IN_VM") else 60
_T = TypeVar("_T")
_Talker = TypeVar("_Talker", bound="Talker")
_Running = TypeVar("_Running", bound="Running")


def wait_until(
    holds: Callable[[], _T],
    timeout_s: float = TIMEOUT_S,
    *,
    pause_s: float = 0.02,
    why: Callable[[], object] = lambda: "it never came",
) -> _T:
    """Wait until ``holds`` returns something true, and return that; fail with ``why`` otherwise."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, why()
        time.sleep(pause_s)
    return found


def settled(read: Callable[[], _T], *, pause_s: float = 0.6) -> _T:
    """Read until three readings in a row are equal; return the last.

    Sessions of PostgreSQL take a second to report what they did.
    """
    found: list[_T] = []

    def are_equal() -> bool:
        found.append(read())
        return len(found) > 2 and found[-1] == found[-2] == found[-3]

    wait_until(are_equal, pause_s=pause_s)
    return found[-1]


class Talker:
    """A program with pipes as input and output; a context manager, which waits for its end."""

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
        """The next line of its output, without the newline."""
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        return line.removesuffix("\n")

    def ask(self, line: str = "") -> str:
        self.tell(line)
        return self.line()

    def close(self) -> None:
        """Close its input and wait until it ends."""
        self.process.communicate(timeout=TIMEOUT_S)


class Reader(threading.Thread):
    """Reads a pipe line by line, so that its writer never blocks."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        super().__init__(daemon=True)
        assert stream is not None
        self.stream = stream
        self.lines: list[bytes] = []
        self.ended = False
        self.news = threading.Condition()
        self.start()

    def run(self) -> None:
        for line in self.stream:
            with self.news:
                self.lines.append(line)
                self.news.notify_all()
        with self.news:
            self.ended = True
            self.news.notify_all()

    def wait_for(
        self, count: int, timeout_s: float, why: Callable[[], object] = lambda: ""
    ) -> None:
        with self.news:
            assert self.news.wait_for(lambda: self.ended or len(self.lines) >= count, timeout_s), (
                "ioh wrote nothing in time"
            )
            assert len(self.lines) >= count, ("ioh ended", why())


class Running:
    """A program whose output and messages are read; a context manager, which ends it."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, **options)
        self.output, self.messages = Reader(self.process.stdout), Reader(self.process.stderr)

    def __enter__(self: _Running) -> _Running:  # noqa: PYI019
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self, number: int = signal.SIGTERM, within_s: float = 10) -> None:
        """Send a signal, wait for the end, and kill the program if it has not ended by then."""
        self.process.send_signal(number)
        try:
            self.process.wait(within_s)
        finally:
            self.process.kill()
            self.process.wait()
            for reader in (self.output, self.messages):
                reader.join(5)
                reader.stream.close()
