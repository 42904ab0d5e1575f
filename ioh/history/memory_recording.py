"""A recording in memory, of limited size: the live screen's history."""

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
    """Two files in memory, the older of which is dropped; offsets include what was dropped."""

    def __init__(self) -> None:
        super().__init__(-1, _NAME)
        self._lock = threading.Lock()  # a half must not be dropped while it is read
        self._halves: list[tuple[int, SeekableOutput]] = []  # and where each begins
        self.turn_over()

    def turn_over(self) -> None:
        """Drop the older half and begin another one; OSError if none can be created."""
        newer = SeekableOutput(os.memfd_create("ioh-history"), _NAME)
        with self._lock:
            older, newest = self._halves[:-1], self._halves[-1:]
            self._halves = [*newest, (self.size_bytes, newer)]
            for _, half in older:
                half.close()

    @property
    def newer_begin(self) -> int:
        """Where the newer half begins."""
        return self._halves[-1][0]

    def write(self, data: bytes) -> None:
        """Write all of ``data`` into the newer half, or nothing; OSError if that fails."""
        begin, half = self._halves[-1]
        half.write(data)
        self.size_bytes = begin + half.size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes of one half from an offset on; none if it was dropped."""
        with self._lock:
            for begin, half in reversed(self._halves):
                if offset >= begin:
                    return half.read(offset - begin, length)
        return b""

    def close(self) -> None:
        """Free the memory."""
        with self._lock:
            for _, half in self._halves:
                half.close()
            self._halves = []


class MemoryRecording(Recording):
    """Accepts Samples like a SessionWriter, and is read like a Session, in the same process.

    When the newer half is full, the older one is dropped.  Both hold ``max_bytes``, plus the last
    tick of each.  Samples keep their numbers: ``first_tick`` grows, len() does not shrink.  One
    thread may write while another one reads.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half_bytes = max(1, max_bytes // 2)
        self._halves = _Halves()
        self._writer = SessionWriter(self._halves, effort=FOR_MEMORY)
        super().__init__(_NAME)

    def close(self) -> None:
        """Free the memory."""
        self._halves.close()

    def read(self, offset: int, length: int) -> bytes:
        """Read as any Recording does."""
        return self._halves.read(offset, length)

    @property
    def size_bytes(self) -> int:
        """Bytes held."""
        return self._halves.size_bytes - self.begin_bytes

    def write(self, sample: Sample) -> bool:
        """Append a sample; False if there is no memory for it.

        Raises OSError if a new half cannot be created, ValueError as SessionWriter.write().
        """
        halves = self._halves
        if halves.size_bytes - halves.newer_begin >= self._half_bytes:
            # Before the half is dropped, so that no reader looks for it.
            self.begin_bytes = halves.newer_begin
            self.first_tick = self._contents.forget(self.begin_bytes)
            halves.turn_over()
            self._writer.begin_anew()
        is_written = self._writer.write(sample)
        self.refresh()
        return is_written

    def ticks(self, from_tick: int, *, is_brief: bool = False) -> Iterator[Tick]:
        """Yield samples to the newest; end early if they are dropped during the iteration."""
        for item in super().ticks(from_tick, is_brief=is_brief) if len(self) else ():
            if item.tick < self.first_tick:
                return
            yield item
