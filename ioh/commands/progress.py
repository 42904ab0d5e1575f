"""The status line of ``ioh record`` on a terminal, and its messages."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, TextIO

from ioh.model.intervals import interval
from ioh.model.printable import printable
from ioh.model.sample import LayerSample

if TYPE_CHECKING:
    from ioh.model.sample import Sample
    from ioh.model.snapshot import Snapshot
    from ioh.recorder.rotation import Recorder

_CLEAR = "\r\x1b[K"


def what_is_from_proc(sample: Sample) -> list[str]:
    """Which layers are measured from /proc, one line per reason."""
    titles: dict[str, list[str]] = {}
    for name, layer in sample.layers.items():
        if isinstance(layer, LayerSample) and layer.source == "proc" and layer.notes:
            titles.setdefault(layer.notes[0], []).append(sample.specs[name].title)
    return [printable(f"{', '.join(found)}: {why}") for why, found in titles.items()]


class Progress:
    """Writes to a stream and never fails: a closed terminal must not end a recording.

    The status line is only for a terminal.
    """

    def __init__(self, stream: TextIO, recorder: Recorder) -> None:
        self._stream, self._recorder = stream, recorder
        self._started = time.monotonic()
        self._older: Sample | None = None
        self._name = recorder.name
        self._lost_ticks = 0
        self._ticks = 0

    @property
    def _is_terminal(self) -> bool:
        """Whether to show the status line: not in the background (``&``), over a shell's prompt."""
        try:
            fd = self._stream.fileno()
            return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
        except ValueError:  # closed
            return False
        except OSError:  # not this session's terminal, so no shell prompts there
            return True

    def say(self, text: str) -> None:
        """Print a message on a separate line."""
        self._write((_CLEAR if self._is_terminal else "") + f"ioh: {text}\n")

    @property
    def has_nothing(self) -> bool:
        """Whether not a single sample was written."""
        return bool(self._lost_ticks) and not self._ticks

    def say_what_is_from_proc(self, sample: Sample) -> None:
        """Print which layers are measured from /proc."""
        for line in what_is_from_proc(sample):
            self.say(line)

    def tick(self, sample: Sample) -> None:
        """Report on the sample that was just recorded or lost."""
        recorder = self._recorder
        if recorder.paused_why:
            if not self._lost_ticks:
                why = printable(recorder.paused_why)
                self.say(f"recording is paused: {why}; it resumes as soon as there is space")
            self._lost_ticks += 1
        else:
            self._ticks += 1
            if self._lost_ticks:
                self.say(f"recording again; {self._lost_ticks} samples are lost")
                self._lost_ticks = 0
        if recorder.name != self._name:
            self._name = recorder.name
            if recorder.left_why:
                self.say(recorder.left_why)
            self.say(f"recording into {printable(self._name)}")
        if self._is_terminal:
            self._write(_CLEAR + self._line(sample))
        self._older = sample

    def end(self) -> None:
        """Print the summary, or end the status line."""
        if self._recorder.name != "-":
            size = format_size(self._recorder.size_bytes)
            self.say(f"recorded {self._ticks} samples, {size}")
        elif self._is_terminal:
            self._write("\n")

    def _line(self, sample: Sample) -> str:
        elapsed_s = int(time.monotonic() - self._started)
        clock = f"{elapsed_s // 3600:02}:{elapsed_s // 60 % 60:02}:{elapsed_s % 60:02}"
        parts = [f"REC {clock}", format_size(self._recorder.size_bytes)]
        if self._recorder.paused_why:
            parts.append(f"NOT WRITTEN: {printable(self._recorder.paused_why)}")
        elif (snapshot := interval(self._older, sample)) is not None:
            parts += layer_rates(snapshot)
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            width = 80
        return "  ".join(parts)[: width - 1]

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def layer_rates(snapshot: Snapshot) -> list[str]:
    """``app 812.0 MB/s`` for each layer: the sum of its main rows, reads and writes."""
    from ioh.model.snapshot import LayerSnapshot
    from ioh.sinks.rows import main_stats

    texts = []
    for layer in snapshot.layers.values():
        if isinstance(layer, LayerSnapshot):
            main = [stats.bytes_per_s for _, stats in main_stats(layer.spec, layer.ops)]
            rates = [rate for rate in main if rate is not None]
            rate = f"{sum(rates) / 1e6:.1f}" if rates else "-"
            texts.append(f"{printable(layer.spec.title)} {rate} MB/s")
    return texts


def format_size(size_bytes: int) -> str:
    """``3.1 MB``; MB = 1,000,000 bytes."""
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1e3:.1f} kB"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes < 1e9 else f"{size_bytes / 1e9:.2f} GB"
