"""A running `ioh record`, and marks in it: what lies between two marks is exact."""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from ioh.model.sample import LayerSample
from ioh.model.snapshot import LayerSnapshot
from ioh.playback.aggregate_interval import read_aggregate
from ioh.playback.time_range import Span, When
from ioh.recorder.marks import RunningRecording, running_recordings, send_mark
from ioh.session.reader import Session
from tests.kernel.rig import START_S, ioh_command, ioh_environment
from tests.kernel.talker import wait_until

_T = TypeVar("_T")


def start(*arguments: str, stdin: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ioh_command(*arguments),
        env=ioh_environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@contextlib.contextmanager
def recording_into(path: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``ioh record``, and end it by SIGTERM; its status must be 0."""
    process = start("record", "-o", str(path), *options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0


def await_bytes(
    path: Path, size: int, process: subprocess.Popen[bytes], timeout_s: float = 60
) -> None:
    def are_there() -> bool:
        assert process.poll() is None, process.communicate()
        return path.exists() and path.stat().st_size >= size

    wait_until(are_there, timeout_s, pause_s=0.01)


def recording_of(pid: int) -> RunningRecording:
    """The recording of a process, once it has begun."""
    (found,) = wait_until(
        lambda: [each for each in running_recordings() if each.pid == pid and each.has_begun]
    )
    return found


class Marked:
    """One recording of many loads; each load is one interval, between two marks."""

    def __init__(self, path: Path, pid: int) -> None:
        self._path, self._running = path, recording_of(pid)
        self._numbers = itertools.count()
        wait_until(self._is_attached, START_S, pause_s=0.2)

    def _is_attached(self) -> bool:
        """Whether all layers come from their probes: on a busy machine these are late."""
        self._mark()  # takes a sample
        with Session(str(self._path)) as session:
            *_, last = session.ticks(0)
        layers = last.sample.layers.values()
        return all(isinstance(x, LayerSample) and x.source == "bpf" for x in layers)

    def _mark(self) -> str:
        text = f"mark {next(self._numbers)}"
        assert send_mark(self._running, text) == ("", "")
        return text

    def one_interval(self, work: Callable[[], _T]) -> tuple[dict[str, LayerSnapshot], _T]:
        """Do some work between two samples; return the layers' counts of it, and its result."""
        begin, done, end = self._mark(), work(), self._mark()
        with Session(str(self._path)) as session:
            found = read_aggregate(session, Span(When(begin), When(end)))
        assert found.remarks == ()
        layers = found.snapshot.layers.items()
        return {name: each for name, each in layers if isinstance(each, LayerSnapshot)}, done


@contextlib.contextmanager
def marked(path: Path, *options: str) -> Iterator[Marked]:
    """Record into a file, with an hour between ticks: none falls into a load."""
    with recording_into(path, "-c", "3600", *options) as process:
        yield Marked(path, process.pid)
