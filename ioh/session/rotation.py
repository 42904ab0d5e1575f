"""An endless recording: one file after another, the oldest removed again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ioh.model.sample import Sample
from ioh.session.output import NoRoomError, Output
from ioh.session.parts import Earlier
from ioh.session.records import MAX_TEXT_BYTES, Gap, to_bytes, to_text
from ioh.session.writer import SessionWriter

NOTHING_EARLIER = Earlier()
MARK_S = 1.0  # who marks waits no longer


@dataclass(eq=False, slots=True)
class _ComingMark:
    """A mark that waits for the sample it is to be at."""

    text: str
    time_unix_s: float
    mono_ns: int
    is_made: threading.Event = field(default_factory=threading.Event)
    is_written: bool = False


class Recorder:
    """A tap for Samples that starts a new file whenever one has become too large.

    Any live view may hand its Samples to write(); one file is the case without ``max_bytes``.

    Args:
        make_output: Makes the output of a part, counted from 1.
        max_bytes: Size at which the next part begins; None for never.
        keep: How many parts to keep, older ones are removed; None for all.
        remove: Removes a part by its name.
        note: Kept in each header, and as the first mark.
        cycle_s: The period asked for.
        earlier: What an earlier recording of this name has left: numbers go on behind it, and
            ``keep`` counts it.
    """

    def __init__(  # noqa: PLR0913
        self,
        make_output: Callable[[int], Output],
        *,
        max_bytes: int | None = None,
        keep: int | None = None,
        remove: Callable[[str], None] = os.unlink,
        note: str = "",
        cycle_s: float = 1.0,
        earlier: Earlier = NOTHING_EARLIER,
    ) -> None:
        self._make_output = make_output
        self._max_bytes, self._keep, self._remove = max_bytes, keep, remove
        self._note, self._cycle_s = note, cycle_s
        self._lock = threading.RLock()
        self._names = list(earlier.names)
        self._first_part, self._part = earlier.last + 1, earlier.last
        self._closed_bytes = 0
        self._last: Sample | None = None
        self._begins = False  # the present part does not have the last sample yet
        self._lost_why = ""  # why samples behind the last one are in no part
        self._coming: list[_ComingMark] = []
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

        Raises:
            OSError: The output failed for good.
            IohError: The next part's file cannot be made.
        """
        with self._lock:
            if self._max_bytes and self._writer.output.size_bytes >= self._max_bytes:
                self._turn_over()
            writer, before = self._writer, self._lost_why
            paused = (writer.paused_why, writer.lost_ticks)
            is_written = self._add(sample)
            # What is due to be removed may be the very room that is needed: nothing is lost yet.
            if not is_written and self._forget_oldest():
                self._lost_why, (writer.paused_why, writer.lost_ticks) = before, paused
                is_written = self._add(sample)
            if is_written:
                self._last = sample
                self._forget_oldest()
            self._mark(sample)
            return is_written

    def _turn_over(self) -> None:
        """Begin the next part, if there is room for one."""
        try:
            following = self._next_part()
        except NoRoomError:
            if not self._forget_oldest(but=1):
                return
            try:
                following = self._next_part()
            except NoRoomError:
                return
        self._lost_why = self._lost_why or self._writer.paused_why
        self._writer.close()
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
        """Put a named moment on the time line; False where it waits for the next sample."""
        with self._lock:
            return self._writer.mark(text)

    def mark_at_sample(self, text: str, ask: Callable[[], None]) -> bool:
        """Mark a sample that is taken now, so that an interval begins there and another one ends.

        Where none comes for MARK_S the mark stands between two.

        Args:
            text: Of the mark.
            ask: Asks for a sample; write() gets it in another thread.

        Returns:
            As mark().
        """
        made = _ComingMark(text, time.time(), time.monotonic_ns())
        with self._lock:
            self._coming.append(made)
        ask()
        made.is_made.wait(MARK_S)
        with self._lock:
            if made in self._coming:
                self._coming.remove(made)
                return self._writer.mark(text, made.time_unix_s)
            return made.is_written

    def _mark(self, sample: Sample) -> None:
        """Make the marks that were waiting for it."""
        for made in [made for made in self._coming if made.mono_ns <= sample.mono_ns]:
            self._coming.remove(made)
            made.is_written = self._writer.mark(made.text, sample.time_unix_s)
            made.is_made.set()

    def close(self) -> None:
        """End the recording in order."""
        with self._lock:
            self._writer.close()

    def _next_part(self) -> SessionWriter:
        output = self._make_output(self._part + 1)
        self._part += 1
        self._names.append(output.name)
        return SessionWriter(
            output,
            note=self._note,
            cycle_s=self._cycle_s,
            part=self._part,
            marks_note=self._part == self._first_part,
        )

    def _forget_oldest(self, but: int = 0) -> bool:
        """Remove parts that are not kept, ``but`` so many more; whether there were any."""
        found = False
        while self._keep is not None and len(self._names) > max(1, self._keep - but):
            found = True
            with contextlib.suppress(OSError):  # somebody moved it away: theirs now
                self._remove(self._names.pop(0))
        return found
