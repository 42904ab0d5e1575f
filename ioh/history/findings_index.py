"""Search a whole recording for findings, in a separate process of the lowest priority."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import NoReturn

from ioh.history.findings_cache import KnownFindings
from ioh.model.finding import Evidence, Finding
from ioh.model.intervals import ChooseLayers, Intervals
from ioh.model.player import Overview
from ioh.model.snapshot import Snapshot
from ioh.pipeline import MakeJudge, alone, rounds
from ioh.playback.replay import ReplaySource
from ioh.playback.time_range import Span
from ioh.rights.process import die_with

REPORT_S = 0.25
_PIPE_BYTES = 1 << 16


class FindingsIndex:
    """Knows when each finding of a recording began, once started; used by one thread.

    The scan runs in another process, so that it never delays keys.
    """

    def __init__(
        self,
        path: str,
        span: Span,
        *,
        choose: ChooseLayers,
        make_judge: MakeJudge,
    ) -> None:
        self._path, self._span = path, span
        self._choose, self._make_judge = choose, make_judge
        self._pid, self._fd = -1, -1
        self._data = b""
        self._findings = KnownFindings()
        self._until_unix_s = 0.0

    def start(self) -> None:
        """Start, unless other threads run: a fork would keep their locks held forever."""
        if threading.active_count() > 1:
            return
        try:
            self._fd, to_parent = os.pipe2(os.O_CLOEXEC)
        except OSError:  # too few descriptors
            return
        screen = os.getpid()
        with contextlib.suppress(OSError):  # too few processes: the pipe ends, and nothing is known
            self._pid = os.fork()
        if self._pid == 0:
            self._scan_and_exit(to_parent, screen)
        os.close(to_parent)

    def overview(self) -> Overview:
        """The findings known so far, without blocking."""
        while self._fd >= 0 and select.select([self._fd], [], [], 0)[0]:
            piece = os.read(self._fd, _PIPE_BYTES)
            if not piece:
                self.close()
            self._data += piece
        *lines, self._data = self._data.split(b"\n")
        for line in lines:
            self._until_unix_s, new = json.loads(line)
            for at_unix_s, each in new:
                evidence = tuple(Evidence(**fact) for fact in each["evidence"])
                each |= {"evidence": evidence, "ways": tuple(each["ways"])}
                self._findings.add(Finding(**each), at_unix_s)
        return self._findings.overview(self._until_unix_s, is_under_way=self._fd >= 0)

    def dated(self, judged: Snapshot) -> Snapshot:
        """Correct the begins of findings that began before the judge's look-back."""
        at_unix_s = judged.time_unix_s
        if at_unix_s > self._until_unix_s:
            return judged
        findings = (self._findings.dated(finding, at_unix_s) for finding in judged.findings)
        return replace(judged, findings=tuple(findings))

    def close(self) -> None:
        """Stop the search."""
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
        """Run the child process; never return into the parent's code."""
        try:
            # Without this it would outlive the screen: an idle recording gives nothing to write to
            # the pipe, so it never breaks.
            die_with(screen)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            with contextlib.suppress(OSError):  # a container may forbid it
                # More than nice: a key takes the CPU from it immediately.
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            self._scan(lambda data: os.write(fd, data))
        finally:
            os._exit(0)  # the parent knows how far the scan came

    def _scan(self, send: Callable[[bytes], object]) -> None:
        """Scan, and regularly report progress and new findings as a line of JSON."""
        judge = self._make_judge()
        if judge is None:
            return
        findings = KnownFindings()
        unreported: list[tuple[float, Finding]] = []
        until_unix_s, reported_unix_s, reported_s = -1.0, -1.0, time.monotonic()

        def report() -> bool:
            nonlocal reported_unix_s, reported_s
            if until_unix_s != reported_unix_s:
                dicts = [(at_unix_s, asdict(finding)) for at_unix_s, finding in unreported]
                send(json.dumps([until_unix_s, dicts]).encode() + b"\n")
                unreported.clear()
            reported_unix_s, reported_s = until_unix_s, time.monotonic()
            return True

        with ReplaySource(self._path, self._span, speed=None, on_wait=report) as source:
            played = alone(source.samples(), Intervals(self._choose))
            for each in rounds(played, lambda: judge):
                until_unix_s = each.snapshot.time_unix_s
                new = (x for x in each.snapshot.findings if findings.add(x, until_unix_s))
                unreported += [(until_unix_s, finding) for finding in new]
                if time.monotonic() - reported_s >= REPORT_S:
                    report()
        report()
