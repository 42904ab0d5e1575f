"""An endless recording: one file after another, the oldest removed again."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

from ioh.model.sample import Sample
from ioh.session.output import Output
from ioh.session.parts import Earlier
from ioh.session.writer import SessionWriter

NOTHING_EARLIER = Earlier()


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
            writer = self._writer
            if self._max_bytes and writer.output.size_bytes >= self._max_bytes:
                following = self._next_part()
                writer.close()
                self._closed_bytes += writer.output.size_bytes
                self._writer = following
                if self._last is not None and not writer.paused_why:
                    following.write(self._last)  # else the interval would be in neither file
            is_written = self._writer.write(sample)
            if is_written:
                self._last = sample
                self._forget_oldest()
            return is_written

    def mark(self, text: str) -> bool:
        """Put a named moment on the time line; False where it waits for the next sample."""
        with self._lock:
            return self._writer.mark(text)

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

    def _forget_oldest(self) -> None:
        while self._keep is not None and len(self._names) > self._keep:
            with contextlib.suppress(OSError):  # somebody moved it away: theirs now
                self._remove(self._names.pop(0))
