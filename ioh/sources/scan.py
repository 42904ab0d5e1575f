"""Looks for the findings of a whole recording, in a process of its own at the lowest priority."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from typing import NoReturn
from zlib import crc32

from ioh.model.derive import derive
from ioh.model.feed import Overview
from ioh.model.finding import Finding
from ioh.model.sample import Sample
from ioh.model.span import chosen_layers
from ioh.session.stream import Tick
from ioh.sources.judgements import MakeJudge
from ioh.sources.replay import ReplaySource, Span

NICE = 19
TELL_S = 0.25
# More than a time line can show; what they are is found again where one goes.
MAX_BEGINS = 10_000
_MESSAGE = struct.Struct("<cdI")  # what, a unix time, and which finding
_BEGIN, _UNTIL = b"b", b"u"
_PIPE_BYTES = 1 << 16
_PR_SET_PDEATHSIG = 1


def _which(rule: str, subject: str) -> int:
    """A finding's rule and subject as a number."""
    return crc32(f"{rule}\0{subject}".encode(errors="surrogatepass"))


class _Said:
    """What was found and how far, for the screen; sent now and then."""

    def __init__(self, tell: Callable[[bytes], object]) -> None:
        self._tell = tell
        self._begins = bytearray()
        self._until_unix_s = self._sent_unix_s = -1.0
        self._sent_s = time.monotonic()

    def note(self, finding: Finding) -> None:
        """It began."""
        which = _which(finding.rule, finding.subject)
        self._begins += _MESSAGE.pack(_BEGIN, finding.since_unix_s, which)

    def reached(self, unix_s: float) -> None:
        """Everything until then was looked at."""
        self._until_unix_s = unix_s
        if time.monotonic() - self._sent_s >= TELL_S:
            self.send()

    def send(self) -> None:
        """Tell what was not told yet."""
        if self._until_unix_s != self._sent_unix_s:
            self._tell(bytes(self._begins) + _MESSAGE.pack(_UNTIL, self._until_unix_s, 0))
            self._begins.clear()
        self._sent_unix_s, self._sent_s = self._until_unix_s, time.monotonic()


class Scan:
    """Every finding's begin, from the first interval on; used by one thread.

    Nothing is shared with the process that scans, so that keys are never late for it.

    Args:
        path: The recording; followed while it grows.
        span: Which part of it.
        choose: The layers to look at, of those in the first sample; None for all.
        make_judge: Makes what finds what is wrong.
        utc: Whether clock times of ``span`` are UTC.
    """

    def __init__(
        self,
        path: str,
        span: Span,
        *,
        choose: Callable[[Sample], frozenset[str] | None],
        make_judge: MakeJudge,
        utc: bool = False,
    ) -> None:
        self._path, self._span, self._utc = path, span, utc
        self._choose, self._make_judge = choose, make_judge
        self._pid, self._fd = -1, -1
        self._data = bytearray()
        self._begins: list[float] = []
        self._begins_of: dict[int, list[float]] = {}
        self._until_unix_s = 0.0

    def start(self) -> None:
        """Begin, unless other threads run: what they hold at this moment would stay held."""
        if threading.active_count() > 1:
            return
        self._fd, to_parent = os.pipe2(os.O_CLOEXEC)
        screen = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._scan_and_exit(to_parent, screen)
        os.close(to_parent)

    def overview(self) -> Overview:
        """What is known by now; blocks for nothing."""
        while self._fd >= 0 and select.select([self._fd], [], [], 0)[0]:
            piece = os.read(self._fd, _PIPE_BYTES)
            if not piece:
                self.close()
            self._data += piece
        whole = len(self._data) // _MESSAGE.size * _MESSAGE.size
        for kind, unix_s, which in _MESSAGE.iter_unpack(bytes(self._data[:whole])):
            if kind == _UNTIL:
                self._until_unix_s = unix_s
            elif len(self._begins) < MAX_BEGINS:
                self._begins.append(unix_s)
                self._begins_of.setdefault(which, []).append(unix_s)
        del self._data[:whole]
        return Overview(tuple(self._begins), self._until_unix_s, is_under_way=self._fd >= 0)

    def begin_of(self, finding: Finding, at_unix_s: float) -> float:
        """When a finding that is on at a time began; as it says itself where that is not known."""
        begins = self._begins_of.get(_which(finding.rule, finding.subject), ())
        before = [begin for begin in begins if begin <= at_unix_s]
        if not before or at_unix_s > self._until_unix_s:
            return finding.since_unix_s
        return max(before)

    def close(self) -> None:
        """End it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._pid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = -1

    def _scan_and_exit(self, fd: int, screen: int) -> NoReturn:
        """In the child: whatever happens, nothing of the parent's goes on here."""
        try:
            # A recording that stands still gives nothing to tell, and so no broken pipe either.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != screen:
                os._exit(0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            os.nice(NICE)
            self._scan(lambda data: os.write(fd, data))
        finally:
            os._exit(0)  # the parent sees how far it came

    def _scan(self, tell: Callable[[bytes], object]) -> None:
        judge = self._make_judge()
        if judge is None:
            return
        known: set[tuple[str, str, float]] = set()
        names: frozenset[str] | None = None
        older: Sample | None = None
        said = _Said(tell)
        with ReplaySource(
            self._path, self._span, speed=None, utc=self._utc, on_wait=said.send
        ) as source:
            for item in source:
                if not isinstance(item, Tick):
                    continue
                if older is None:
                    names = self._choose(item.sample)
                newer = chosen_layers(item.sample, names)
                if older is not None and newer.mono_ns > older.mono_ns:
                    for finding in judge.judge(derive(older, newer)).findings:
                        key = (finding.rule, finding.subject, finding.since_unix_s)
                        if key not in known:
                            known.add(key)
                            said.note(finding)
                older = newer
                said.reached(newer.time_unix_s)
        said.send()
