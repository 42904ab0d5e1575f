"""The recording that key R on the screen starts and ends: of one machine, or of several hosts."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ioh.model.errors import IohError
from ioh.model.pairs import HostInterval
from ioh.model.player import RecordingState
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.recorder.marks import MarkServer
from ioh.recorder.rotated_files import default_names, parts_of
from ioh.recorder.rotation import Recorder
from ioh.rights.files import remove, writable_folder
from ioh.session.join import Joining
from ioh.session.output import first_free

_BEFORE_NS = 1_000_000


class ScreenRecorder:
    """Records what a player reports to ``ioh-HOST-DATE.ioh``, where ``ioh mark`` finds it.

    Each host has its own file, so that nothing is lost however the recording ends; at the end they
    are joined into one.  Failures end the recording, not the view.  The intervals come from one
    thread; toggle() may be called from any other.  ``hosts``: the machines' names, "" for a single
    one, whose file is named after ``hostname``.  ``on_mark`` gets each mark, from another thread;
    ``sample_soon`` requests a sample to be marked, None if the source takes none on request.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        cycle_s: float,
        on_mark: Callable[[str], None] = lambda _: None,
        sample_soon: Callable[[], None] | None = None,
    ) -> None:
        self._hosts, self.cycle_s = hosts, cycle_s
        self.hostname = os.uname().nodename
        self._on_mark, self._sample_soon = on_mark, sample_soon
        self._lock = threading.RLock()
        self._newest: dict[str, HostInterval] = {}
        self._is_on = False
        self._recorders: dict[str, Recorder] = {}  # of the hosts with data
        self._last: dict[str, Sample] = {}  # the last one in each file
        self._marks: MarkServer | None = None
        self._folder, self._since_unix_s = "", 0.0
        self._failure = ""  # why the last one ended, unescaped
        self._reported, self._reported_paths = "", dict[str, str]()

    @property
    def state(self) -> RecordingState:
        """The recording's present state."""
        if not self._is_on:
            return RecordingState(failure=printable(self._failure))
        recorders = [*self._recorders.values()]  # without the lock, which a slow disk holds long
        paused = next((each.paused_why for each in recorders if each.paused_why), "")
        size_bytes = sum(each.size_bytes for each in recorders)
        path, since_s = printable(self._what()), self._since_unix_s
        return RecordingState(path, since_s, size_bytes, printable(paused))

    def _what(self) -> str:
        """The file being written, or how many hosts'."""
        names, count = [each.name for each in self._recorders.values()], len(self._hosts)
        return names[0] if count == len(names) == 1 else f"{count} host{'s' * (count > 1)}"

    def toggle(self) -> str:
        """Start a recording, or end the running one; return a printable line about it."""
        was_on = self._is_on
        text = self.close()  # also what a failed one left
        return text if was_on else self._start()

    def _start(self) -> str:
        try:
            folder, remark = recording_folder()
            with self._lock:
                self._folder, self._since_unix_s, self._failure = folder, time.time(), ""
                self._reported = ""
                for name in self._hosts:
                    newest = self._newest.get(name)
                    if newest is not None and newest.samples is not None:
                        sample = self._last[name] = newest.samples[1]
                        self._open(name, newest.addresses).write(sample)  # a baseline
                    elif not name:
                        self._open(name)
                self._marks = MarkServer(self._what, self._mark, paused_why=self._paused_why)
                self._is_on = True
        except (OSError, IohError) as error:
            self.close()
            return f"not recording: {printable(reason_of(error))}"
        if self._hosts == ("",):
            return f"recording into {printable(self._what())}{remark}"
        return f"recording {self._what()} into {printable(folder)}{remark}; R ends it"

    def _open(self, name: str, addresses: Sequence[str] = ()) -> Recorder:
        """Create the file of a host."""
        self._recorders[name] = recorder = first_free(
            paths_in(self._folder, name or self.hostname, self._since_unix_s),
            lambda path: Recorder(parts_of(path), cycle_s=self.cycle_s, addresses=addresses),
        )
        self._reported_paths[name] = recorder.name
        return recorder

    def write(self, interval: HostInterval) -> None:
        """Record a host's interval, if recording; a failure ends the recording."""
        with self._lock:
            try:
                if self._is_on and interval.samples is not None:
                    self._write(interval, *interval.samples)
            except (OSError, ValueError, IohError) as error:
                self._failure = reason_of(error)
                self._end()
            self._newest[interval.name] = interval

    def _write(self, interval: HostInterval, older: Sample, newer: Sample) -> None:
        recorder = self._recorders.get(interval.name) or self._open(
            interval.name, interval.addresses
        )
        last = self._last.get(interval.name)
        if last is not older:
            if last is not None:
                # The host's ioh, and so its totals, may have restarted: leave the gap empty.
                recorder.write(replace(older, layers={}, mono_ns=older.mono_ns - _BEFORE_NS))
            recorder.write(older)
        recorder.write(newer)
        self._last[interval.name] = newer

    def mark(self, text: str) -> str:
        """Mark this moment in the running recording; return a printable line about it."""
        with self._lock:
            recorders = list(self._recorders.values())
        try:
            marked = [each.mark(text) for each in recorders]
        except (OSError, IohError) as error:
            return f"marked on the screen only: {printable(str(error))}"
        if not marked:
            return "marked"
        where = printable(self._what()) if len(self._hosts) == 1 else "the recording"
        return f"marked, also in {where}"

    def _mark(self, text: str) -> bool:
        """Mark for ``ioh mark``; False if the mark waits for a sample."""
        self._on_mark(text)
        with self._lock:
            recorders = list(self._recorders.values())
        if self._sample_soon is not None and len(recorders) == 1:
            return recorders[0].mark_at_sample(text, self._sample_soon)
        marked = [each.mark(text) for each in recorders]
        return bool(marked) and all(marked)

    def _paused_why(self) -> str:
        return self.state.failure

    def failure_line(self) -> str:
        """One line if the recording failed, paused or resumed; "" if that was reported before."""
        for name, recorder in list(self._recorders.items()):
            if recorder.name != self._reported_paths[name] and not recorder.paused_why:
                self._reported_paths[name], self._reported = recorder.name, ""
                return f"{recorder.left_why}; recording into {printable(recorder.name)}"
        failure = self.state.failure
        if failure == self._reported:
            return ""
        self._reported = failure
        if not failure:
            return "recording again; see the gap" if self._is_on else ""
        if self._is_on:
            return f"recording is paused: {failure}; it resumes as soon as there is space"
        return f"recording ended: {failure}"

    def close(self) -> str:
        """Close the running recording properly, if any; return a printable line about it."""
        with self._lock:
            is_on = self._is_on
            recorders = self._end()
            marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()
        if not is_on:
            return ""
        if self._failure:
            return f"recording ended: {printable(self._failure)}"
        return self._join(recorders)

    def _end(self) -> dict[str, Recorder]:
        """Close the files; return them by host."""
        recorders, self._recorders, self._is_on = self._recorders, {}, False
        self._last.clear()
        for recorder in recorders.values():
            try:
                recorder.close()
            except OSError as error:  # noqa: PERF203 (each one must be closed)
                self._failure = self._failure or reason_of(error)  # the first failure is the cause
        return recorders

    def _join(self, recorders: dict[str, Recorder]) -> str:
        """Join the hosts' files; return a printable line about them."""
        if not recorders:
            return "not recorded: no data came"
        if len(recorders) == 1:
            (recorder,) = recorders.values()
            return f"recorded {recorder.size_bytes:,} bytes into {printable(recorder.name)}"
        files = {name: each.name for name, each in recorders.items()}
        try:
            with Joining() as joining:
                for name, path in files.items():
                    joining.add(path, name)
                whole = joining.write(paths_in(self._folder, "-".join(files), self._since_unix_s))
        except IohError as error:
            paths = ", ".join(map(printable, files.values()))
            return f"recorded into {paths}, one file each: {error.cause}"
        for path in files.values():
            with contextlib.suppress(OSError):
                remove(path)
        what = f"{whole.size_bytes:,} bytes of {len(files)} hosts"
        return f"recorded {what} into {printable(whole.name)}"


def reason_of(error: Exception) -> str:
    """Why something failed, without error number, file name or hint."""
    return getattr(error, "strerror", None) or getattr(error, "cause", None) or str(error)


def recording_folder() -> tuple[str, str]:
    """The current directory, else the temporary one; and a remark about it.

    OSError: there is none.
    """
    # An absolute path, for `ioh mark` and the user.
    folder = writable_folder()
    remark = "" if folder == "." else ", because the current directory is not writable"
    return os.path.abspath(folder), remark  # noqa: PTH100


def paths_in(folder: str, hosts: str, now_unix_s: float) -> Iterator[str]:
    """Possible names for a recording, the preferred one first."""
    return (os.path.join(folder, name) for name in default_names(hosts, now_unix_s))  # noqa: PTH118
