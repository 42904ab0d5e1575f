"""The recording of several hosts that a key starts: a file each, made one when it ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from ioh.feeds.screen_recorder import (
    new_output,
    parts_of,
    paths_in,
    reason_of,
    recording_folder,
)
from ioh.model.errors import IohError
from ioh.model.feed import RecordingState
from ioh.model.pairs import HostInterval
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.rights.files import remove
from ioh.session.join import Joining
from ioh.session.marks import MarkServer
from ioh.session.rotation import Recorder

_BEFORE_NS = 1_000_000


class HostsRecorder:
    """Records what comes of several hosts; toggle() from any one thread, write() from another.

    While it goes on each host has a file of its own, so that whatever ends it loses nothing.
    """

    def __init__(self, names: Sequence[str], cycle_s: float) -> None:
        self._names, self._cycle_s = names, cycle_s
        self._lock = threading.RLock()
        self._recorders: dict[str, Recorder] | None = None
        self._last: dict[str, Sample] = {}
        self._marks: MarkServer | None = None
        self._folder, self._since_unix_s, self._failure = "", 0.0, ""

    @property
    def state(self) -> RecordingState:
        """How it stands."""
        with self._lock:
            if (recorders := self._recorders) is None:
                return RecordingState(failure=printable(self._failure))
            paused = next((each.paused_why for each in recorders.values() if each.paused_why), "")
            size_bytes = sum(each.size_bytes for each in recorders.values())
            return RecordingState(self._what, self._since_unix_s, size_bytes, printable(paused))

    @property
    def _what(self) -> str:
        return f"{len(self._names)} hosts"

    def toggle(self) -> str:
        """Start a recording, or end the one under way; returns a printable line that says so."""
        if self._recorders is not None:
            return self.close()
        try:
            folder, remark = recording_folder()
            with self._lock:
                self._marks = MarkServer(lambda: self._what, self._mark)
                self._folder, self._since_unix_s, self._failure = folder, time.time(), ""
                self._recorders = {}
        except OSError as error:
            return f"not recording: {printable(reason_of(error))}"
        return f"recording {self._what} into {printable(folder)}{remark}; R ends it"

    def write(self, part: HostInterval) -> None:
        """Record a host's interval, if a recording is under way; where that fails it ends."""
        try:
            with self._lock:
                if self._recorders is not None and part.samples is not None:
                    self._write(part, *part.samples)
        except (OSError, ValueError, IohError) as error:
            self.close()
            self._failure = reason_of(error)

    def _write(self, part: HostInterval, older: Sample, newer: Sample) -> None:
        recorder = (self._recorders or {}).get(part.name) or self._begin(part)
        last = self._last.get(part.name)
        if last is not None and last is not older:
            # Its ioh may have begun anew, and its totals with it: the time since then stays empty.
            recorder.write(replace(older, layers={}, mono_ns=older.mono_ns - _BEFORE_NS))
        if last is not older:
            recorder.write(older)
        recorder.write(newer)
        self._last[part.name] = newer

    def _begin(self, part: HostInterval) -> Recorder:
        first = new_output(self._folder, part.name, self._since_unix_s)
        made = Recorder(parts_of(first), cycle_s=self._cycle_s, addresses=part.addresses)
        if self._recorders is not None:
            self._recorders[part.name] = made
        return made

    def mark(self, text: str) -> str:
        """Mark this moment in what is recorded of each host; returns what was done, printable."""
        try:
            is_marked = self._mark(text)
        except (OSError, IohError) as error:
            return f"marked on the screen alone: {printable(str(error))}"
        return "marked, also in the recording" if is_marked else "marked"

    def _mark(self, text: str) -> bool:
        """The same; False where nothing is recorded, or it waits."""
        with self._lock:
            made = [each.mark(text) for each in (self._recorders or {}).values()]
            return bool(made) and all(made)

    def close(self) -> str:
        """End it in order and make one file of all; returns a printable line that says so."""
        with self._lock:
            recorders, self._recorders = self._recorders, None
            self._last.clear()
            marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()
        for recorder in (recorders or {}).values():
            with contextlib.suppress(OSError):
                recorder.close()
        files = {name: each.name for name, each in (recorders or {}).items()}
        if not recorders:
            return "not recorded: nothing came"
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
