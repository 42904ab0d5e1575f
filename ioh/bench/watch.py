"""The recording of a bench: a child records all layers, and each test's part is read back.

The child is ``ioh record -o -``: it ends with the pipe it writes to, however ioh itself ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ioh.bench.fio import columns
from ioh.bench.results import Figures, LayerFigures, RunFinding
from ioh.findings.config import Config
from ioh.findings.engine import Engine
from ioh.findings.spans import finding_spans
from ioh.model.errors import IohError
from ioh.model.hist import FINE_EDGES_US, LatencyHist
from ioh.model.printable import printable
from ioh.model.sample import Unavailable
from ioh.model.snapshot import OpStats, Snapshot
from ioh.pipeline import snapshots
from ioh.playback.aggregate_interval import read_aggregate, samples_of
from ioh.playback.time_range import Span, When
from ioh.recorder.marks import (
    PRIVATE,
    PRIVATE_WAIT_S,
    RunningRecording,
    running_recordings,
    send_mark,
)
from ioh.rights.files import create
from ioh.rights.user import own_rights
from ioh.session.reader import Session

START_S = 120.0  # long enough to compile the probes on a slow machine
END_S = 10.0
_FINDING_FIELDS = ("rule", "title", "severity", "subject", "cause", "advice")
_COMMAND = (sys.executable, "-I", "-m", "ioh", "record", "-o", "-", "-c", "1")
# It begins when it gets a byte, with the rights of now: by then, ioh has given up root.
_BEGIN = "import os, sys; os.read(0, 1) and os.execv(sys.argv[1], sys.argv[1:])"
_WAIT = (sys.executable, "-I", "-c", _BEGIN)


class BenchRecorder:
    """Records this machine from begin() to close(), into a new file.

    ``options`` are those of ``ioh record``.
    """

    def __init__(self, path: Path, options: Sequence[str] = ()) -> None:
        self.path = path
        self.why_ended = ""
        self._fd = -1
        with own_rights():  # it switches to the caller's rights itself
            self._process = subprocess.Popen(
                (*_WAIT, *_COMMAND, *options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
                env={**os.environ, PRIVATE: "1"},
            )
        self._copying = threading.Lock()  # held from the read of the pipe to the write
        self._pump = threading.Thread(target=self._copy, name="ioh bench recording", daemon=True)
        self._running: RunningRecording | None = None

    def begin(self, is_stopped: Callable[[], bool]) -> None:
        """Wait for its first sample, or until the user ends it; IohError if none comes.

        Raises OSError if the file cannot be created.
        """
        self._fd = create(str(self.path))
        self._pump.start()
        self._let_go(b"\n")
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._process.poll() is None:
            if is_stopped():
                return
            for each in running_recordings(time.monotonic() + 1.0):
                if each.pid == self._process.pid and each.has_begun:
                    self._running = each
                    return
            time.sleep(0.05)
        why = self._last_words()
        cause = f"the recording did not start: {why}" if why else "the recording did not start"
        raise IohError(cause, "Try: ioh record -o /dev/null -t 3")

    def mark(self, text: str) -> None:
        """Make a mark, with a sample taken at that moment; IohError if it was not made."""
        if self._running is None:
            return
        why, _ = send_mark(self._running, text, time.monotonic() + PRIVATE_WAIT_S + END_S)
        if why or self.why_ended:
            cause = f"the recording has stopped: {self.why_ended or why}"
            raise IohError(cause, "Finished tests are saved; continue with --resume")

    def flush(self) -> None:
        """Wait until all that was recorded so far is in the file."""
        until = time.monotonic() + END_S
        while time.monotonic() < until and not self._is_copied():
            time.sleep(0.01)

    def _is_copied(self) -> bool:
        stdout = self._process.stdout
        with self._copying:
            if stdout is None or stdout.closed:
                return True
            raw = fcntl.ioctl(stdout, termios.FIONREAD, bytes(4))
        return not int.from_bytes(raw, sys.byteorder)

    def close(self) -> None:
        """End the recording properly."""
        self._let_go()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(PermissionError):
                self._process.kill()
        if self._fd >= 0:
            self._pump.join(END_S)
            os.close(self._fd)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _let_go(self, line: bytes = b"") -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it has ended
                stdin.write(line)
                stdin.close()

    def _copy(self) -> None:
        stdout = self._process.stdout
        if stdout is None:
            return
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        while poll.poll():
            with self._copying:
                if not self._copy_once(stdout.fileno()):
                    stdout.close()  # after a full disk the child ends with the pipe
                    return

    def _copy_once(self, pipe: int) -> bool:
        """Copy what is in the pipe; False at its end, or if the file cannot be written."""
        data = os.read(pipe, 1 << 16)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.why_ended = error.strerror or str(error)
            return False
        return bool(data)

    def _last_words(self) -> str:
        if self._process.poll() is None or self._process.stderr is None:
            return ""
        text = self._process.stderr.read(1 << 14).decode("utf-8", "replace")
        lines = [line for line in text.split("\n") if line.strip()]
        return printable(lines[-1].removeprefix("ioh: "), 300) if lines else ""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The part of a recording between two marks.

    ``whole`` is all of it as one interval, ``ticks`` the recorded intervals, judged.
    """

    whole: Snapshot
    ticks: tuple[Snapshot, ...]
    remarks: tuple[str, ...]


def read_between(path: Path, begin: str, end: str, config: Config) -> RecordedRun:
    """Read the part of a recording between two marks; IohError if they are missing."""
    with Session(str(path)) as session:
        whole = read_aggregate(session, Span(When(begin), When(end)))
        ticks = tuple(snapshots(samples_of(session, whole), partial(Engine, config=config)))
    return RecordedRun(whole.snapshot, ticks, whole.remarks)


def findings_of(recording: RecordedRun) -> tuple[RunFinding, ...]:
    """The findings, worst first."""
    return tuple(
        RunFinding(
            **{name: getattr(span.finding, name) for name in _FINDING_FIELDS},
            begin_unix_s=span.begin_unix_s,
            end_unix_s=span.end_unix_s,
        )
        for span in finding_spans(recording.ticks)
    )


def layers_of(snapshot: Snapshot, run_s: float) -> tuple[LayerFigures, ...]:
    """All active operations of all layers, in the order of an I/O's path.

    Rates are over ``run_s``, fio's own runtime: the marks are a little outside of it.
    """
    figures = []
    for name, layer in snapshot.layers.items():
        if isinstance(layer, Unavailable):
            continue
        inner = layer.spec.inner_groups  # the table leaves out other sums of listed operations
        ops = [("", op, stats) for op, stats in layer.ops.items() if op not in inner]
        for part, of_part in layer.parts.items():
            ops += [(part, op, stats) for op, stats in of_part.items()]
        figures += [
            LayerFigures(name, layer.spec.title, op, _figures(stats, run_s), part, layer.source)
            for part, op, stats in ops
            if stats.count
        ]
    return tuple(figures)


def watched_layers(snapshot: Snapshot) -> frozenset[str]:
    """Names of the layers that were measured, even if idle."""
    layers = snapshot.layers.items()
    return frozenset(name for name, layer in layers if not isinstance(layer, Unavailable))


def _figures(stats: OpStats, run_s: float) -> Figures:
    return Figures(
        ops=stats.count,
        bytes=stats.bytes,
        bytes_per_s=None if stats.bytes is None or not run_s else stats.bytes / run_s,
        iops=None if stats.count is None or not run_s else stats.count / run_s,
        mean_us=stats.latency_us,
        max_us=stats.max_us,
        p50_us=stats.p50_us,
        p95_us=stats.p95_us,
        p99_us=stats.p99_us,
        p999_us=stats.p999_us,
        hist=_hist(stats.latency),
    )


def _hist(latency: LatencyHist | None) -> tuple[int, ...]:
    if latency is None or not latency.counts:
        return ()
    edges = (*FINE_EDGES_US, float("inf"))
    return columns({edge * 1000: n for edge, n in zip(edges, latency.counts, strict=True) if n})
