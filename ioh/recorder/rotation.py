"""Record into one file after another, and remove the oldest ones."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Sequence

from ioh.model.errors import IohError
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.recorder.rotated_files import EarlierFiles
from ioh.rights.files import remove as remove_file
from ioh.session.output import LostFileError, NoRoomError, Output, first_free
from ioh.session.records import MAX_TEXT_BYTES, Mark, to_bytes
from ioh.session.writer import SessionWriter

NOTHING_EARLIER = EarlierFiles()
MARK_S = 1.0  # how long a mark waits for its sample: `ioh mark` waits 2 s for the answer
_TRIES = 100  # names of later parts that may exist already


class Recorder(SessionWriter):
    """Writes Samples, and starts a new file when one has become too large or has failed.

    ``make_output`` creates the file of a part, counted from 1.  ``max_bytes`` None: a single file;
    ``keep`` None: keep all parts.  Numbers continue after the ``earlier`` parts of the name, which
    ``keep`` includes.  ``left_why``: why the previous file failed, printable; "" if it did not.
    """

    def __init__(  # noqa: PLR0913
        self,
        make_output: Callable[[int], Output],
        *,
        max_bytes: int | None = None,
        keep: int | None = None,
        note: str = "",
        cycle_s: float = 1.0,
        earlier: EarlierFiles = NOTHING_EARLIER,
        addresses: Sequence[str] = (),
    ) -> None:
        self._make_output = make_output
        self._max_bytes, self._keep = max_bytes, keep
        self._names = list(earlier.names)
        self._earlier, self._part = earlier.last, earlier.last
        self._left_bytes = 0  # in the parts before this one
        self._newest: Sample | None = None
        self.left_why = ""
        output = self._next_output()
        super().__init__(output, note=note, cycle_s=cycle_s, part=self._part, addresses=addresses)
        self._arrived = threading.Condition(self._lock)

    @property
    def name(self) -> str:
        """The file being written."""
        return self.output.name

    @property
    def size_bytes(self) -> int:
        """Written so far, in all parts."""
        return self._left_bytes + self.output.size_bytes

    def write(self, sample: Sample) -> bool:
        """Record one sample; False if it is lost because there is no space.

        Raises BrokenPipeError if the reader is gone, OSError if a file failed before it held
        anything, IohError if the next part's file cannot be created either.
        """
        with self._lock:
            if self._max_bytes and self.output.size_bytes >= self._max_bytes:
                with contextlib.suppress(NoRoomError):
                    self._go_on_in(self._next_output())
                    self.left_why = ""
            try:
                is_written = self._write(sample)
            except OSError as error:
                is_written = self._leave(error) and self._write(sample)
            self._newest = sample
            self._arrived.notify_all()
            return is_written

    def _write(self, sample: Sample) -> bool:
        before = self.paused_why
        is_written = super().write(sample)
        # Removing the oldest part, if that is due, may free the space: no sample is lost yet.
        if not is_written and self._forget_oldest():
            self.paused_why = before
            is_written = super().write(sample)
        if is_written:
            self._forget_oldest()
        return is_written

    def _leave(self, error: OSError) -> bool:
        """Begin the next part after a failure of the present one; False if there is no space."""
        is_lost = isinstance(error, LostFileError)
        if isinstance(error, BrokenPipeError) or not (self.ticks or is_lost):
            raise error
        reason = printable(error.strerror or str(error))
        why = f"cannot continue in {printable(self.name)}: {reason}"
        try:
            following = self._next_output()
        except NoRoomError as refused:
            self.paused_why = f"{why}, and {refused.cause}"
            return False
        except IohError as refused:
            cause = f"{why}, and {refused.cause}"
            raise IohError(cause, refused.hint) from error
        self.left_why = why
        self._waiting.insert(0, Mark(time.time(), to_bytes(why)[:MAX_TEXT_BYTES]))
        self._go_on_in(following, is_lost=is_lost)
        return True

    def _go_on_in(self, following: Output, *, is_lost: bool = False) -> None:
        try:
            self._end()
        except OSError as error:  # continue without the end record
            is_lost = is_lost or isinstance(error, LostFileError)
        if is_lost:  # whatever has its name now is not ours to remove
            self._names.remove(self.name)
        self._left_bytes += self.output.size_bytes
        self._begin(following, self._part)

    def mark(self, text: str, time_unix_s: float | None = None) -> bool:
        """Record a mark; False if it waits for the next sample.  Raises as write()."""
        when = time.time() if time_unix_s is None else time_unix_s
        with self._lock:
            if self._closed:
                cause = "the recording has ended"
                raise IohError(cause)
            try:
                return super().mark(text, when)
            except OSError as error:
                self._leave(error)
                return super().mark(text, when)

    def mark_at_sample(
        self, text: str, ask: Callable[[], None], wait_s: float | None = None
    ) -> bool:
        """Mark a sample that is taken now, so that one interval ends there and the next begins.

        ``ask`` requests the sample; write() gets it in another thread.  If none comes within
        ``wait_s`` (by default MARK_S), the mark falls between two samples.  Returns as mark().
        """
        now, mono_ns = time.time(), time.monotonic_ns()

        def newer() -> Sample | None:
            return self._newest if self._newest and self._newest.mono_ns >= mono_ns else None

        ask()
        with self._arrived:
            sample = self._arrived.wait_for(newer, MARK_S if wait_s is None else wait_s)
            return self.mark(text, now if sample is None else sample.time_unix_s)

    def close(self) -> None:
        """Close the recording properly; OSError if that fails, unless a size limit is reached."""
        try:
            super().close()
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise

    def _next_output(self) -> Output:
        """Create the next part's file; after the first part, skip names that exist."""

        def make(part: int) -> Output:
            output = self._make_output(part)
            self._part = part
            self._names.append(output.name)
            return output

        tries = 1 if self._part == self._earlier else _TRIES
        parts = range(self._part + 1, self._part + 1 + tries)
        try:
            return first_free(parts, make)
        except NoRoomError:
            if not self._forget_oldest(but=1):
                raise
            return first_free(parts, make)

    def _forget_oldest(self, but: int = 0) -> bool:
        """Remove the parts beyond ``keep - but``; return whether there were any."""
        has_removed = False
        while self._keep is not None and len(self._names) > max(1, self._keep - but):
            has_removed = True
            with contextlib.suppress(OSError):  # somebody moved or removed it
                remove_file(self._names.pop(0))
        return has_removed
