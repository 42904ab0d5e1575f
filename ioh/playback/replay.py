"""Samples of a recording: paced or as fast as possible, from a file or a pipe, and by jumps."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.playback.time_range import Part, When, check_order, clock_unix_s, is_mark, part_of
from ioh.session.reader import Session
from ioh.session.recorded_file import STDIN, unreadable
from ioh.session.records import Gap, Header, Mark
from ioh.session.stream import Item, ItemReader, Tick

POLL_S = 0.2
_PIPE_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a session; None: from its first sample, to its last or what will come.

    Shape:
        The interval that begins with the last sample not later than ``begin`` comes first.
        ``utc``: whether clock times are UTC, else local.
    """

    begin: When | None = None
    end: When | None = None
    utc: bool = False


class ReplaySource(Closing):
    """A session as it goes by; a context manager and an iterator of items.

    A file that is still being recorded is followed.

    Args:
        path: A file, or ``-`` for stdin, which may be a pipe.
        span: Which part of it.
        speed: Times the pace of the recording; None for no waiting.
        with_tables: With breakdowns, which takes much longer.
        with_parts: With single devices and mounts.
        stdin_fd: Where stdin is, should descriptor 0 be something else by now.
        on_wait: Called when all that is in the file was given and more will come.

    Raises:
        IohError: It cannot be opened, is no recording, or lacks the moments of ``span``.
    """

    def __init__(  # noqa: PLR0913
        self,
        path: str,
        span: Span | None = None,
        *,
        speed: float | None = 1.0,
        with_tables: bool = True,
        with_parts: bool = True,
        stdin_fd: int = 0,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self._span = span or Span()
        self._on_wait = on_wait
        self._speed = speed
        self.with_tables, self.with_parts = with_tables, with_parts
        self._stopped = False
        self._paced_from: tuple[float, int] | None = None  # wall clock s, sample's mono_ns
        self.session: Session | None = None
        # Of a file, known with its first item.
        self.part = Part()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._fd = -1
        if path == "-":
            self._fd = stdin_fd
            marks = [w for w in (self._span.begin, self._span.end) if w and is_mark(w)]
            if marks:
                cause = f'"{marks[0].text}": marks cannot be looked up in a pipe'
                raise IohError(cause, "Save it to a file first", ExitCode.USAGE)
        else:
            self.session = Session(path)

    def close(self) -> None:
        """Close what was opened."""
        if self.session is not None:
            self.session.close()
        if self._wake_read >= 0:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1

    def stop(self) -> None:
        """End the iteration at once; safe to call from a signal handler."""
        self._stopped = True
        try:
            os.write(self._wake_write, b"x")
        except OSError:
            return

    def __iter__(self) -> Iterator[Item]:
        """Yield everything of the span in order, each sample when its time has come."""
        items = self._file_items(self.session) if self.session is not None else self._pipe_items()
        for item in items:
            if isinstance(item, Gap):
                self._paced_from = None  # nobody wants to sit through it
            if isinstance(item, Tick) and self._speed is not None:
                self._wait_for(item.sample)
            if self._stopped:
                return
            yield item

    def _file_items(self, session: Session) -> Iterator[Item]:
        part = self.part = part_of(self._span.begin, self._span.end, session, utc=self._span.utc)
        begun = False
        for item in session.items(
            part.begin_tick,
            with_tables=self.with_tables,
            with_parts=self.with_parts,
            awaits_more=lambda at: self._awaits_more(session, at),
        ):
            begun = begun or isinstance(item, Tick)
            if isinstance(item, Tick) and part.is_over(item.tick, item.sample.time_unix_s):
                return
            if begun or not isinstance(item, Mark) or item.time_unix_s >= part.begin_unix_s:
                yield item

    def _awaits_more(self, session: Session, at: int) -> bool:
        """Wait a moment at the end of the file; False when nothing will come."""
        if not session.is_growing:
            # What was written between the last read and the end of the lock is still to come.
            return session.size_bytes > at
        self._on_wait()
        self._sleep(POLL_S)
        return not self._stopped

    def _pipe_items(self) -> Iterator[Item]:
        reader = ItemReader(
            with_tables=self.with_tables, with_parts=self.with_parts, joins=True, name=STDIN
        )
        begin = end = None
        held: Tick | None = None
        while not self._stopped:
            ready, _, _ = select.select([self._fd, self._wake_read], [], [])
            if self._wake_read in ready:
                return
            piece = self._read_pipe()
            reader.feed(piece)
            for item in reader.items(at_end=not piece):
                if isinstance(item, Header):
                    begin, end = self._pipe_span(item.started_unix_s)
                elif isinstance(item, Tick):
                    now = item.sample.time_unix_s
                    if end is not None and now > end:
                        return
                    if begin is not None and now <= begin:
                        held = item  # perhaps the last one before
                        continue
                    if held is not None:
                        yield held
                        held = None
                yield item
            if not piece:  # behind one file there may be the next
                return

    def _read_pipe(self) -> bytes:
        try:
            return os.read(self._fd, _PIPE_CHUNK_BYTES)
        except OSError as error:
            raise unreadable(STDIN, error) from error

    def _pipe_span(self, start_unix_s: float) -> tuple[float | None, float | None]:
        def unix_s(when: When | None, since_unix_s: float) -> float | None:
            if when is None:
                return None
            if when.offset_s is not None:
                return start_unix_s + when.offset_s
            return clock_unix_s(when, max(start_unix_s, since_unix_s), utc=self._span.utc)

        begin_s = unix_s(self._span.begin, start_unix_s)
        end_s = unix_s(self._span.end, begin_s or start_unix_s)
        check_order(self._span.begin, self._span.end, begin_s, end_s)
        return begin_s, end_s

    def set_speed(self, speed: float) -> None:
        """Go on at another pace; from any thread."""
        self._paced_from, self._speed = None, speed

    def _wait_for(self, sample: Sample) -> None:
        while not self._stopped and (left := self._due(sample) - time.monotonic()) > 0:
            self._sleep(min(left, POLL_S))  # the pace may change

    def _due(self, sample: Sample) -> float:
        """When it is a sample's turn, by the monotonic clock."""
        now = time.monotonic()
        if self._paced_from is None or sample.mono_ns < self._paced_from[1]:
            self._paced_from = (now, sample.mono_ns)
        wall, mono_ns = self._paced_from
        due = wall + (sample.mono_ns - mono_ns) / 1e9 / (self._speed or 1.0)
        if due < now - 1.0:  # far behind, as a pipe's reader that began late: no hurry after it
            self._paced_from = (now, sample.mono_ns)
        return due

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stopped and (left := deadline - time.monotonic()) > 0:
            select.select([self._wake_read], [], [], left)


def no_interval(path: str, span: Span | None = None) -> IohError:
    """What to raise where there is nothing to show."""
    cause = f"no interval in that part of {printable(path)}"
    ends = (("from", span.begin), ("to", span.end)) if span is not None else ()
    if said := [f'{word} "{printable(when.text)}"' for word, when in ends if when is not None]:
        cause += f" ({' '.join(said)})"
    return IohError(cause, "See what it holds with: ioh verify", ExitCode.USAGE)
