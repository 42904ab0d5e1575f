"""An endless recording: one file after another, the oldest removed again."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ioh.model.errors import IohError
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.rights.files import remove as remove_file
from ioh.session.output import LostFileError, NoRoomError, Output, first_free
from ioh.session.packing import Packer
from ioh.session.records import MAX_TEXT_BYTES, Gap, to_bytes, to_text
from ioh.session.rotated_files import EarlierFiles
from ioh.session.writer import SessionWriter

NOTHING_EARLIER = EarlierFiles()
MARK_S = 0.5  # who marks waits no longer
_TRIES = 100  # names of later parts that may be taken


@dataclass(eq=False, slots=True)
class _ComingMark:
    """A mark that waits for the sample it is to be at."""

    text: str
    time_unix_s: float
    mono_ns: int
    is_made: threading.Event = field(default_factory=threading.Event)
    is_written: bool = False


class Recorder:
    """A tap for Samples that starts a new file whenever one has become too large or has failed.

    Any live view may hand its Samples to write().  ``make_output`` makes the file of a part,
    counted from 1; None for ``max_bytes`` is one file, and for ``keep`` all parts.  Numbers go on
    behind ``earlier`` ones of the name, and ``keep`` counts those.  ``left_why``: why the file
    before the present one was left early, printable; "" where it was not.
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
        self._note, self._cycle_s, self._addresses = note, cycle_s, addresses
        self._stream = Packer()  # of all parts: new ones would grow with each
        self._lock = threading.RLock()
        self._names = list(earlier.names)
        self._first_part, self._part = earlier.last + 1, earlier.last
        self._closed_bytes = 0
        self._last: Sample | None = None
        self._begins = False  # the present part does not have the last sample yet
        self._lost_why = ""  # why samples behind the last one are in no part
        self._coming: list[_ComingMark] = []
        self._is_closed = False
        self.left_why = ""
        self._writer = self._next_part()

    @property
    def name(self) -> str:
        """The file being written."""
        return self._writer.output.name

    @property
    def size_bytes(self) -> int:
        """Written so far, in all parts."""
        return self._closed_bytes + self._writer.output.size_bytes

    @property
    def paused_why(self) -> str:
        """Why nothing is written at present; "" while it is."""
        return self._writer.paused_why

    def write(self, sample: Sample) -> bool:
        """Record one sample; False where it is lost for want of space.

        Raises BrokenPipeError where the reader went away, OSError where a file failed before it
        held anything, IohError where the next part's file cannot be made either.
        """
        with self._lock:
            if self._max_bytes and self._writer.output.size_bytes >= self._max_bytes:
                self._turn_over()
            try:
                return self._write(sample)
            except OSError as error:
                if not self._leave(error):
                    return False
                return self._write(sample)

    def _write(self, sample: Sample) -> bool:
        writer = self._writer
        before = self._lost_why, writer.paused_why
        is_written = self._add(sample)
        # What is due to be removed may be the very room that is needed: nothing is lost yet.
        if not is_written and self._forget_oldest():
            self._lost_why, writer.paused_why = before
            is_written = self._add(sample)
        if is_written:
            self._last = sample
            self._forget_oldest()
        self._mark(sample)
        return is_written

    def _turn_over(self) -> None:
        """Begin the next part, if there is room for one."""
        with contextlib.suppress(NoRoomError):
            following = self._next_part()
            self.left_why = ""
            self._go_on_in(following)

    def _leave(self, error: OSError) -> bool:
        """Begin the next part, since the present one failed; False where there is no room."""
        writer, is_lost = self._writer, isinstance(error, LostFileError)
        if isinstance(error, BrokenPipeError) or not (writer.ticks or is_lost):
            raise error
        why = f"cannot go on in {printable(self.name)}: {printable(error.strerror or str(error))}"
        try:
            following = self._next_part()
        except NoRoomError as refused:
            writer.paused_why = self._lost_why = f"{why}, and {refused.cause}"
            return False
        except IohError as refused:
            cause = f"{why}, and {refused.cause}"
            raise IohError(cause, refused.hint) from error
        self.left_why = why
        following.mark(why)
        self._go_on_in(following, is_lost=is_lost)
        return True

    def _go_on_in(self, following: SessionWriter, *, is_lost: bool = False) -> None:
        self._lost_why = self._lost_why or self._writer.paused_why
        try:
            self._writer.close()
        except OSError as error:  # an end that is missing is no reason to stop
            is_lost = is_lost or isinstance(error, LostFileError)
        if is_lost:  # what has its name now is not ours to be removed
            self._names.remove(self.name)
        for mark in self._writer.take_marks():
            following.mark(to_text(mark.text), mark.time_unix_s)
        self._closed_bytes += self._writer.output.size_bytes
        self._writer, self._begins = following, self._last is not None

    def _add(self, sample: Sample) -> bool:
        """Write into the present part; it begins with the sample that ended the one before it."""
        writer, last = self._writer, self._last
        if self._begins and last is not None:  # else the interval would be in neither file
            if not writer.write(last):
                self._lost_why = writer.paused_why
                return False
            self._begins = False
        if self._lost_why and last is not None:
            why = to_bytes(self._lost_why)[:MAX_TEXT_BYTES]
            writer.gap(Gap(last.time_unix_s, sample.time_unix_s, why))
        is_written = writer.write(sample)
        if is_written:
            self._lost_why = ""
        return is_written

    def mark(self, text: str) -> bool:
        """Put a named moment on the time line; False where it waits for the next sample.

        Raises what write() does.
        """
        return self._put_mark(text, time.time())

    def _put_mark(self, text: str, time_unix_s: float) -> bool:
        with self._lock:
            if self._is_closed:
                cause = "the recording has ended"
                raise IohError(cause)
            try:
                return self._writer.mark(text, time_unix_s)
            except OSError as error:
                self._leave(error)
                return self._writer.mark(text, time_unix_s)

    def mark_at_sample(self, text: str, ask: Callable[[], None]) -> bool:
        """Mark a sample that is taken now, so that an interval begins there and another one ends.

        ``ask`` asks for it; write() gets it in another thread.  Where none comes for MARK_S the
        mark stands between two.  Returns what mark() does.
        """
        made = _ComingMark(text, time.time(), time.monotonic_ns())
        with self._lock:
            self._coming.append(made)
        ask()
        made.is_made.wait(MARK_S)
        with self._lock:
            if made in self._coming:
                self._coming.remove(made)
                return self._put_mark(text, made.time_unix_s)
            return made.is_written

    def _mark(self, sample: Sample) -> None:
        """Make the marks that were waiting for it."""
        for made in [made for made in self._coming if made.mono_ns <= sample.mono_ns]:
            self._coming.remove(made)
            made.is_written = self._put_mark(made.text, sample.time_unix_s)
            made.is_made.set()

    def close(self) -> None:
        """End the recording in order; OSError where that fails though there is room."""
        with self._lock:
            self._is_closed = True
            try:
                self._writer.close()
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise

    def _next_part(self) -> SessionWriter:
        self._part += 1
        try:
            try:
                output = self._new_output()
            except NoRoomError:
                if not self._forget_oldest(but=1):
                    raise
                output = self._new_output()
        except IohError:
            self._part -= 1
            raise
        self._names.append(output.name)
        return SessionWriter(
            output,
            note=self._note,
            cycle_s=self._cycle_s,
            part=self._part,
            marks_note=self._part == self._first_part,
            addresses=self._addresses,
            stream=self._stream,
        )

    def _new_output(self) -> Output:
        """Of the present part; later ones than the first step over names that are taken."""

        def make(part: int) -> Output:
            output = self._make_output(part)
            self._part = part
            return output

        tries = 1 if self._part == self._first_part else _TRIES
        return first_free(range(self._part, self._part + tries), make)

    def _forget_oldest(self, but: int = 0) -> bool:
        """Remove parts that are not kept, ``but`` so many more; whether there were any."""
        found = False
        while self._keep is not None and len(self._names) > max(1, self._keep - but):
            found = True
            with contextlib.suppress(OSError):  # somebody moved it away: theirs now
                remove_file(self._names.pop(0))
        return found
