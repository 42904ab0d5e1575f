"""A recording that stays in memory and within its bounds: what a live screen goes back in."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from ioh.model.errors import IohError
from ioh.model.sample import Sample
from ioh.session.output import SeekableOutput
from ioh.session.packing import FOR_MEMORY
from ioh.session.reader import Session
from ioh.session.stream import Tick
from ioh.session.writer import SessionWriter

_NAME = "live"


@dataclass(slots=True, eq=False)
class _Half:
    """One session of the two that a recording in memory holds; its sample 0 is ``first_tick``."""

    first_tick: int
    output: SeekableOutput
    fd: int
    session: Session | None = None

    def read(self) -> Session | None:
        """The session, as far as it is written; None before its first sample."""
        if self.session is None:
            try:
                self.session = Session(_NAME, os.dup(self.fd))
            except IohError:  # nothing written yet
                return None
        self.session.refresh()
        return self.session

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
        os.close(self.fd)


class MemoryRecording:
    """Takes Samples as a SessionWriter does, and is read as a Session is, in the same process.

    Samples keep their numbers: when the older half is dropped, since ``max_bytes`` are full but for
    the last tick of each half, ``first_tick`` grows and len() does not shrink.  One thread may
    write and another one read.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half_bytes = max(1, max_bytes // 2)
        # Held while reading, and while a half is dropped, which must not be under a reader.
        self._lock = threading.Lock()
        self._halves: list[_Half] = []
        self._writer: SessionWriter  # into the newest
        self._ticks = 0
        self._begin_half()

    def write(self, sample: Sample) -> bool:
        """Take one sample; False when there is no memory for it.

        Raises OSError where a new half cannot be made, ValueError as SessionWriter.write().
        """
        if self._halves[-1].output.size_bytes >= self._half_bytes:
            self._begin_half()
        written = self._writer.write(sample)
        if written:
            self._ticks += 1
        return written

    def close(self) -> None:
        """Give all of the memory back."""
        with self._lock:
            self._writer.close()
            for half in self._halves:
                half.close()
            self._halves = []

    def __len__(self) -> int:
        """One more than the number of the newest sample."""
        return self._ticks

    @property
    def first_tick(self) -> int:
        """Number of the oldest sample held."""
        with self._lock:
            return self._halves[0].first_tick if self._halves else self._ticks

    @property
    def size_bytes(self) -> int:
        """What is held."""
        with self._lock:
            return sum(half.output.size_bytes for half in self._halves)

    def sample_at(self, tick: int) -> Sample | None:
        """One sample by its number; None where it is dropped or not there (yet)."""
        with self._lock:
            for half, session in reversed(self._sessions()):
                if tick >= half.first_tick:
                    return session.sample_at(tick - half.first_tick)
        return None

    def ticks(self, from_tick: int, *, is_brief: bool = False) -> Iterator[Tick]:
        """Samples from one on, to the newest; ends early when they are dropped meanwhile."""
        with self._lock:
            sessions = self._sessions()
        for at, (half, session) in enumerate(sessions):
            if at + 1 < len(sessions) and sessions[at + 1][0].first_tick <= from_tick:
                continue
            found = session.ticks(max(0, from_tick - half.first_tick), is_brief=is_brief)
            while True:
                with self._lock:
                    if half not in self._halves:
                        return
                    item = next(found, None)
                if item is None:
                    break
                yield Tick(item.tick + half.first_tick, item.sample)

    def _sessions(self) -> list[tuple[_Half, Session]]:
        return [(half, session) for half in self._halves if (session := half.read()) is not None]

    def _begin_half(self) -> None:
        fd = os.memfd_create("ioh-history")
        output = SeekableOutput(os.dup(fd), _NAME)
        half = _Half(self._ticks, output, fd)
        if self._halves:
            self._writer.close()
        self._writer = SessionWriter(output, effort=FOR_MEMORY)
        with self._lock:
            dropped, kept = self._halves[:-1], self._halves[-1:]
            self._halves = [*kept, half]
            for old in dropped:
                old.close()
