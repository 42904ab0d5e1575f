"""A recording that stays in memory and within its bounds: what a live screen goes back in."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from ioh.model.sample import Sample
from ioh.session.output import Output, SeekableOutput
from ioh.session.packing import FOR_MEMORY
from ioh.session.reader import Recording
from ioh.session.stream import Tick
from ioh.session.writer import SessionWriter

_NAME = "live"


class _Halves(Output):
    """Two files in memory, the older of which is dropped; offsets count what was dropped, too."""

    def __init__(self) -> None:
        super().__init__(-1, _NAME)
        # Held while reading, and while a half is dropped, which must not be under a reader.
        self._lock = threading.Lock()
        self._halves: list[tuple[int, SeekableOutput]] = []  # and where each begins
        self.turn_over()

    def turn_over(self) -> None:
        """Drop the older half and begin another one; OSError where none can be made."""
        newer = SeekableOutput(os.memfd_create("ioh-history"), _NAME)
        with self._lock:
            dropped, kept = self._halves[:-1], self._halves[-1:]
            self._halves = [*kept, (self.size_bytes, newer)]
            for _, half in dropped:
                half.close()

    @property
    def newer_begin(self) -> int:
        """Where the newer half begins."""
        return self._halves[-1][0]

    def write(self, data: bytes) -> None:
        """Write all of ``data`` into the newer half, or nothing; OSError where that failed."""
        begin, half = self._halves[-1]
        half.write(data)
        self.size_bytes = begin + half.size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from an offset on, of one half; none where that is dropped."""
        with self._lock:
            for begin, half in reversed(self._halves):
                if offset >= begin:
                    return half.read(offset - begin, length)
        return b""

    def close(self) -> None:
        """Give all of the memory back."""
        with self._lock:
            for _, half in self._halves:
                half.close()
            self._halves = []


class MemoryRecording(Recording):
    """Takes Samples as a SessionWriter does, and is read as a Session is, in the same process.

    Samples keep their numbers: when the older half is dropped, since ``max_bytes`` are full but for
    the last tick of each half, ``first_tick`` grows and len() does not shrink.  One thread may
    write and another one read.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half_bytes = max(1, max_bytes // 2)
        self._halves = _Halves()
        self._writer = SessionWriter(self._halves, effort=FOR_MEMORY)
        super().__init__(_NAME)

    def close(self) -> None:
        """Give all of the memory back."""
        self._halves.close()

    def read(self, offset: int, length: int) -> bytes:
        """As of any Recording."""
        return self._halves.read(offset, length)

    @property
    def size_bytes(self) -> int:
        """What is held."""
        return self._halves.size_bytes - self.begin_bytes

    def write(self, sample: Sample) -> bool:
        """Take one sample; False when there is no memory for it.

        Raises OSError where a new half cannot be made, ValueError as SessionWriter.write().
        """
        halves = self._halves
        if halves.size_bytes - halves.newer_begin >= self._half_bytes:
            # Known before it is so: a reader does not look for what is gone.
            self.begin_bytes = halves.newer_begin
            self.first_tick = self._places.forget(self.begin_bytes)
            halves.turn_over()
            self._writer.begin_anew()
        is_written = self._writer.write(sample)
        self.refresh()
        return is_written

    def ticks(self, from_tick: int, *, is_brief: bool = False) -> Iterator[Tick]:
        """Samples from one on, to the newest; ends early when they are dropped meanwhile."""
        for item in super().ticks(from_tick, is_brief=is_brief) if len(self) else ():
            if item.tick < self.first_tick:
                return
            yield item
