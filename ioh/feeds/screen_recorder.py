"""Recordings that key R on the screen starts and ends: of one machine, or of several hosts."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ioh.model.errors import IohError
from ioh.model.feed import RecordingState
from ioh.model.pairs import HostInterval
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.recorder.marks import MarkServer
from ioh.recorder.rotated_files import default_names, parts_of
from ioh.recorder.rotation import Recorder
from ioh.rights.files import can_create_here, remove
from ioh.session.join import Joining
from ioh.session.output import first_free

_BEFORE_NS = 1_000_000


class ScreenRecorder:
    """Records a view's samples to ``ioh-HOST-DATE.ioh``, where ``ioh mark`` finds it.

    Failures end the recording, not the view.  The samples come from one thread; toggle() may be
    called from any other thread.  ``on_mark`` gets each mark, from another thread; ``sample_soon``
    requests a sample to be marked, None if the source takes none on request.
    """

    def __init__(
        self, on_mark: Callable[[str], None], sample_soon: Callable[[], None] | None
    ) -> None:
        self._on_mark, self._sample_soon = on_mark, sample_soon
        self._lock = threading.Lock()
        self._last: Sample | None = None
        self._recorder: Recorder | None = None  # while recording
        self._marks: MarkServer | None = None
        self._since_unix_s = 0.0
        self._failure = ""  # why the last one ended, unescaped
        self._reported_path = self._reported = ""

    def write(self, sample: Sample) -> None:
        """Record a sample, if recording; a failure ends the recording."""
        with self._lock:
            self._last = sample
            self._write(sample)

    @property
    def state(self) -> RecordingState:
        """The recording's present state."""
        recorder = self._recorder
        if recorder is None:
            return RecordingState(failure=printable(self._failure))
        failure = printable(recorder.paused_why)
        path = printable(recorder.name)
        return RecordingState(path, self._since_unix_s, recorder.size_bytes, failure)

    def toggle(self, hostname: str, cycle_s: float) -> str:
        """Start a recording, or end the running one; return a printable line about it."""
        recorder = self._recorder
        self.close()  # also what a failed one left
        if recorder is not None:
            if self._failure:
                return f"recording ended: {printable(self._failure)}"
            return f"recorded {recorder.size_bytes:,} bytes into {printable(recorder.name)}"
        try:
            folder, remark = recording_folder()
            paths = paths_in(folder, hostname, time.time())
            recorder = first_free(paths, lambda path: Recorder(parts_of(path), cycle_s=cycle_s))
        except (OSError, IohError) as error:
            return f"not recording: {printable(reason_of(error))}"
        self._start(recorder)
        return f"recording into {printable(recorder.name)}{remark}"

    def mark(self, text: str) -> str:
        """Mark this moment in the running recording; return a printable line about it."""
        recorder = self._recorder
        if recorder is None:
            return "marked"
        try:
            recorder.mark(text)
        except (OSError, IohError) as error:
            return f"marked on the screen only: {printable(str(error))}"
        return f"marked, also in {printable(recorder.name)}"

    def failure_line(self) -> str:
        """One line if a recording failed, paused or resumed; "" if that was reported before."""
        recorder, failure = self._recorder, self.state.failure
        if recorder is not None and recorder.name != self._reported_path and not failure:
            self._reported_path, self._reported = recorder.name, ""
            return f"{recorder.left_why}; recording into {printable(recorder.name)}"
        if failure == self._reported:
            return ""
        self._reported = failure
        if not failure:
            return "recording again; see the gap" if recorder is not None else ""
        if recorder is not None:
            return f"recording is paused: {failure}; it resumes as soon as there is space"
        return f"recording ended: {failure}"

    def close(self) -> None:
        """Close the running recording properly, if any."""
        with self._lock:
            self._end()
        if self._marks is not None:
            self._marks.close()
        self._marks = None

    def _start(self, recorder: Recorder) -> None:
        self._reported_path = recorder.name

        def mark(text: str) -> bool:
            self._on_mark(text)
            if self._sample_soon is None:
                return recorder.mark(text)
            return recorder.mark_at_sample(text, self._sample_soon)

        self._marks = MarkServer(
            lambda: recorder.name, mark, paused_why=lambda: recorder.paused_why
        )
        with self._lock:
            self._since_unix_s, self._recorder = time.time(), recorder
            self._reported = self._failure = ""
            if self._last is not None:
                self._write(self._last)  # the baseline of the next sample

    def _write(self, sample: Sample) -> None:
        """As write(), with the lock held."""
        try:
            if self._recorder is not None:
                self._recorder.write(sample)
        except (OSError, ValueError, IohError) as error:
            self._failure = self._failure or reason_of(error)
            self._end()

    def _end(self) -> None:
        recorder, self._recorder = self._recorder, None
        try:
            if recorder is not None:
                recorder.close()
        except OSError as error:
            self._failure = self._failure or reason_of(error)  # the first failure is the cause


def reason_of(error: Exception) -> str:
    """Why something failed, without error number, file name or hint."""
    return getattr(error, "strerror", None) or getattr(error, "cause", None) or str(error)


def recording_folder() -> tuple[str, str]:
    """The current directory, else the temporary one; and a remark about it.

    OSError: there is none.
    """
    # An absolute path, for `ioh mark` and the user.
    if can_create_here():
        return os.getcwd(), ""  # noqa: PTH109
    return tempfile.gettempdir(), ", because the current directory is not writable"


def paths_in(folder: str, hosts: str, now_unix_s: float) -> Iterator[str]:
    """Possible names for a recording, the preferred one first."""
    return (os.path.join(folder, name) for name in default_names(hosts, now_unix_s))  # noqa: PTH118


class HostsRecorder:
    """Records several hosts; toggle() may be called from one thread, write() from another.

    Each host has its own file until the end, so that nothing is lost however the recording ends.
    """

    def __init__(self, names: Sequence[str], cycle_s: float) -> None:
        self._names, self._cycle_s = names, cycle_s
        self._lock = threading.RLock()
        self._is_on = False
        self._recorders: dict[str, Recorder] = {}  # of the hosts with data
        self._last: dict[str, Sample] = {}
        self._marks: MarkServer | None = None
        self._folder, self._since_unix_s, self._failure = "", 0.0, ""

    @property
    def state(self) -> RecordingState:
        """The recording's present state."""
        with self._lock:
            if not self._is_on:
                return RecordingState(failure=printable(self._failure))
            recorders = self._recorders.values()
            paused = next((each.paused_why for each in recorders if each.paused_why), "")
            size_bytes = sum(each.size_bytes for each in recorders)
            return RecordingState(self._what, self._since_unix_s, size_bytes, printable(paused))

    @property
    def _what(self) -> str:
        return f"{len(self._names)} hosts"

    def toggle(self) -> str:
        """Start a recording, or end the running one; return a printable line about it."""
        if self._is_on:
            return self.close()
        try:
            folder, remark = recording_folder()
            with self._lock:
                self._marks = MarkServer(lambda: self._what, self._mark)
                self._folder, self._since_unix_s, self._failure = folder, time.time(), ""
                self._is_on = True
        except OSError as error:
            return f"not recording: {printable(reason_of(error))}"
        return f"recording {self._what} into {printable(folder)}{remark}; R ends it"

    def write(self, part: HostInterval) -> None:
        """Record a host's interval, if recording; a failure ends the recording."""
        try:
            with self._lock:
                if self._is_on and part.samples is not None:
                    self._write(part, *part.samples)
        except (OSError, ValueError, IohError) as error:
            self.close()
            self._failure = reason_of(error)

    def _write(self, part: HostInterval, older: Sample, newer: Sample) -> None:
        if (recorder := self._recorders.get(part.name)) is None:
            recorder = self._recorders[part.name] = first_free(
                paths_in(self._folder, part.name, self._since_unix_s),
                lambda path: Recorder(
                    parts_of(path), cycle_s=self._cycle_s, addresses=part.addresses
                ),
            )
        last = self._last.get(part.name)
        if last is not older:
            if last is not None:
                # The host's ioh, and so its totals, may have restarted: leave the gap empty.
                recorder.write(replace(older, layers={}, mono_ns=older.mono_ns - _BEFORE_NS))
            recorder.write(older)
        recorder.write(newer)
        self._last[part.name] = newer

    def mark(self, text: str) -> str:
        """Mark this moment in all hosts' recordings; return a printable line about it."""
        try:
            is_marked = self._mark(text)
        except (OSError, IohError) as error:
            return f"marked on the screen only: {printable(str(error))}"
        return "marked, also in the recording" if is_marked else "marked"

    def _mark(self, text: str) -> bool:
        """Mark; False if nothing is being recorded, or the mark waits for a sample."""
        with self._lock:
            made = [each.mark(text) for each in self._recorders.values()]
            return bool(made) and all(made)

    def close(self) -> str:
        """Close the recording properly and join the hosts' files; return a printable line."""
        with self._lock:
            recorders, self._recorders, self._is_on = self._recorders, {}, False
            self._last.clear()
            marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()
        for recorder in recorders.values():
            with contextlib.suppress(OSError):
                recorder.close()
        files = {name: each.name for name, each in recorders.items()}
        if not recorders:
            return "not recorded: no data came"
        if len(recorders) == 1:
            (made,) = recorders.values()
            return f"recorded {made.size_bytes:,} bytes into {printable(made.name)}"
        try:
            with Joining() as joining:
                for name, path in files.items():
                    joining.add(path, name)
                joined = joining.write(paths_in(self._folder, "-".join(files), self._since_unix_s))
        except IohError as error:
            paths = ", ".join(map(printable, files.values()))
            return f"recorded into {paths}, one file each: {error.cause}"
        for path in files.values():
            with contextlib.suppress(OSError):
                remove(path)
        what = f"{joined.size_bytes:,} bytes of {len(files)} hosts"
        return f"recorded {what} into {printable(joined.name)}"
