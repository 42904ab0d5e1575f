"""One connection to another host: a recording's stream on stdout, the far clock on stderr."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence

from ioh.hosts.clock import FarClock
from ioh.hosts.ssh import start
from ioh.model.closing import Closing
from ioh.model.errors import IohError
from ioh.model.waking import WakePipe
from ioh.session.stream import Item, ItemReader

SILENCE_S = 60.0  # without data before giving up; long enough to compile probes first
_CHUNK_BYTES = 1 << 16
_LINE_BYTES = 1024
_END_S = 2.0


class Link(Closing):
    """Runs ssh by ``command`` and decodes its output; a context manager.

    ``clock`` gets the far clock's answers.  The link ends after ``silence_s`` without a record.
    IohError: there is no ssh.  OSError: out of descriptors.
    """

    def __init__(self, command: Sequence[str], clock: FarClock, silence_s: float) -> None:
        self._clock, self._silence_s = clock, silence_s
        self._line = b""
        self.last_line = ""  # the last line on stderr, except the clock's answers
        self._waking = WakePipe()
        try:
            # In its own session: Ctrl-C goes to ioh only, which ends ssh.
            self._ssh = start(command, subprocess.PIPE, subprocess.PIPE, apart=True)
        except IohError:
            self._waking.close()
            raise

    def stop(self) -> None:
        """End the iteration; from any thread."""
        self._waking.wake()

    def close(self) -> None:
        """End ssh, which also ends the far ioh."""
        self._end(0.0)
        for stream in (self._ssh.stdin, self._ssh.stdout, self._ssh.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._waking.close()

    def status(self) -> int | None:
        """ssh's exit status, after its stdout has ended; None if ssh had to be killed."""
        self._end(_END_S)
        self._read_stderr()
        return self._ssh.returncode if self._ssh.returncode >= 0 else None

    def _end(self, grace_s: float) -> None:
        """Close ssh's stdin, which ends the far end, and wait for ssh."""
        if self._ssh.stdin is not None:
            with contextlib.suppress(OSError):
                self._ssh.stdin.close()
        for wait_s, urge in ((grace_s, self._ssh.terminate), (1.0, self._ssh.kill)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._ssh.wait(wait_s)
                return
            urge()
        self._ssh.wait()

    def items(self) -> Iterator[Item]:
        """Yield items until stdout ends or stop() is called.

        IohError: this ioh cannot read the stream, or no data comes.
        """
        reader = ItemReader(name="the stream")
        stdout, stderr = self._ssh.stdout, self._ssh.stderr
        if stdout is None or stderr is None:
            return
        os.set_blocking(stderr.fileno(), False)
        silent_since = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for readable in (stdout, stderr, self._waking):
                selector.register(readable, selectors.EVENT_READ)
            while True:
                self._ask_clock()
                ready = {key.fileobj for key, _ in selector.select(1.0)}
                if self._waking in ready:
                    return
                if stderr in ready and not self._read_stderr():
                    selector.unregister(stderr)
                if stdout in ready:
                    piece = os.read(stdout.fileno(), _CHUNK_BYTES)
                    reader.feed(piece)
                    if not piece:
                        return
                    for item in reader.items():
                        yield item
                        silent_since = time.monotonic()
                if time.monotonic() - silent_since > self._silence_s:
                    cause = f"no data for {self._silence_s:.0f} s"
                    raise IohError(cause, "Check whether ioh runs there")

    def _ask_clock(self) -> None:
        if (question := self._clock.question()) and self._ssh.stdin is not None:
            with contextlib.suppress(OSError):
                os.write(self._ssh.stdin.fileno(), question)

    def _read_stderr(self) -> bool:
        """Read what stderr has; return False at its end."""
        if self._ssh.stderr is None:
            return False
        try:
            piece = os.read(self._ssh.stderr.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, rest = (self._line + piece).split(b"\n")
        self._line = rest[:_LINE_BYTES]
        if not piece:
            lines.append(rest)
        for line in lines:
            text = line[:_LINE_BYTES].decode("utf-8", "surrogateescape").strip()
            if text and not self._clock.answer(text):
                self.last_line = text
        return bool(piece)
