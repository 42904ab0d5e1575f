"""Play a recording's samples from a file or a pipe: paced or as fast as possible, with jumps."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator

from ioh.model.closing import Closing
from ioh.model.errors import ExitCode, IohError, refuse_if
from ioh.model.printable import printable
from ioh.model.sample import Sample
from ioh.model.waking import WakePipe
from ioh.playback.time_range import Excerpt, Span, check_order, excerpt_of, is_mark, unmarked_unix_s
from ioh.session.reader import Session
from ioh.session.recorded_file import STDIN, unreadable
from ioh.session.records import Gap, Header, Mark
from ioh.session.stream import Item, ItemReader, LostTicks, Tick

POLL_S = 0.2
GROWTH_S = 1.0  # how often to check for growth of a recording that is not playing
MAX_DEBT_S = 0.5  # the most delay that later samples make up for
MAX_WAIT_S = 3600.0  # at a time: select() does not accept the years of a very low speed
_PIPE_CHUNK_BYTES = 1 << 16


class ReplaySource(Closing):
    """Plays a session; a context manager and an iterator of items.

    A file that is still being recorded is followed.  Its controls may be used from any thread.

    Args:
        path: A file, open or not, or ``-`` for stdin, which may be a pipe.
        span: The part to play.
        speed: Relative to the recording's pace; None for no waiting.
        with_tables: With breakdowns, which takes much longer.
        with_parts: With single devices and mounts.
        stdin_fd: The descriptor of stdin, if it is not 0.
        on_wait: Called at the end of a growing file, and while playing is paused; returns whether
            to wait for more.

    Raises:
        IohError: It cannot be opened, is not a recording, or lacks the marks of ``span``.
    """

    def __init__(  # noqa: PLR0913
        self,
        path: str | Session,
        span: Span | None = None,
        *,
        speed: float | None = 1.0,
        with_tables: bool = True,
        with_parts: bool = True,
        stdin_fd: int = 0,
        on_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        self._span = span or Span()
        self._on_wait = on_wait
        self._speed = speed
        self.with_tables, self.with_parts = with_tables, with_parts
        self._stopped = self._is_held = False
        self._next: deque[int] = deque(maxlen=1)  # the sample to continue from
        self._due_s: float | None = None  # when the last sample was due
        self._paced_ns = 0  # that sample's time
        self.session: Session | None = None
        self.excerpt = Excerpt()  # of a file, set before its first item
        self._waking = WakePipe()
        self._fd = -1
        if path == "-":
            self._fd = stdin_fd
            for when in self._span.ends:
                cause = f'"{when.text}": marks cannot be looked up in a pipe'
                refuse_if(is_mark(when), cause, "Save it to a file first")
        else:
            self.session = Session(path) if isinstance(path, str) else path

    def close(self) -> None:
        """Close the session."""
        if self.session is not None:
            self.session.close()
        self._waking.close()

    def stop(self) -> None:
        """End the iteration immediately; safe to call from a signal handler."""
        self._stopped = True
        self._waking.wake()

    def set_speed(self, speed: float) -> None:
        """Change the speed."""
        self._speed = speed
        self._waking.wake()

    def hold(self) -> None:
        """Pause a file until play_from()."""
        self._is_held = True
        self._waking.wake()

    def play_from(self, tick: int) -> None:
        """End the iteration of a file immediately, and make next_start() return this sample."""
        self._next.append(tick)
        self._is_held = False
        self._waking.wake()

    @property
    def is_interrupted(self) -> bool:
        """Whether stop() or play_from() ended the iteration, not the end of the recording."""
        return self._stopped or bool(self._next)

    def next_start(self) -> int | None:
        """Wait for play_from(), and return its sample; None after stop()."""
        while not self.is_interrupted:
            self._pause()
        return None if self._stopped else self._next.pop()

    def __iter__(self) -> Iterator[Item]:
        """Yield the items of the span in order, each sample when it is due."""
        if self.session is None:
            return self._paced(self._pipe_items(), 0)
        self.excerpt = excerpt_of(self._span, self.session)
        return self.play(self.session, self.excerpt.begin_tick)

    def samples(self, take: Callable[[Item], object] = lambda _: None) -> Iterator[Sample]:
        """Yield only the samples; pass all other items to ``take``."""
        for item in self:
            if isinstance(item, Tick):
                yield item.sample
            else:
                take(item)

    def play(self, session: Session, first: int, paced_from: int = 0) -> Iterator[Item]:
        """Yield a file's items from a sample to the end of ``excerpt``.

        Samples up to ``paced_from`` come without waiting.
        """
        return self._paced(self._file_items(session, first), paced_from)

    def _paced(self, items: Iterator[Item], paced_from: int) -> Iterator[Item]:
        self._due_s = None
        for item in items:
            if isinstance(item, (Gap, LostTicks)):
                self._due_s = None  # do not wait for its length
            if isinstance(item, Tick) and item.tick >= paced_from:
                self._wait_for(item.sample)
            if self.is_interrupted:
                return
            yield item

    def _file_items(self, session: Session, first: int) -> Iterator[Item]:
        excerpt, begun = self.excerpt, False
        for item in session.items(
            first,
            with_tables=self.with_tables,
            with_parts=self.with_parts,
            awaits_more=lambda at: self._awaits_more(session, at),
        ):
            begun = begun or isinstance(item, Tick)
            if isinstance(item, Tick) and excerpt.is_over(item.tick, item.sample.time_unix_s):
                return
            if begun or not isinstance(item, Mark) or item.time_unix_s >= excerpt.begin_unix_s:
                yield item

    def _awaits_more(self, session: Session, at: int) -> bool:
        """Wait a moment at the end of the file; False if nothing will come."""
        if not (session.is_growing and self._on_wait()):
            # Data may have been written between the last read and the release of the lock.
            return session.size_bytes > at
        self._waking.wait(POLL_S)
        return not self.is_interrupted

    def _pipe_items(self) -> Iterator[Item]:
        reader = ItemReader(
            with_tables=self.with_tables, with_parts=self.with_parts, joins=True, name=STDIN
        )
        begin = end = None
        baseline: Tick | None = None
        while not self._stopped:
            watched: list[int | WakePipe] = [self._fd, self._waking]
            if self._waking in select.select(watched, [], [])[0]:
                self._waking.forget()
                continue
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
                        baseline = item  # perhaps the last one before the span: its baseline
                        continue
                    if baseline is not None:
                        yield baseline
                        baseline = None
                yield item
            if not piece:
                return

    def _read_pipe(self) -> bytes:
        try:
            return os.read(self._fd, _PIPE_CHUNK_BYTES)
        except OSError as error:
            raise unreadable(STDIN, error) from error

    def _pipe_span(self, start_unix_s: float) -> tuple[float | None, float | None]:
        span = self._span
        begin_s = unmarked_unix_s(span.begin, start_unix_s, utc=span.utc)
        end_s = unmarked_unix_s(span.end, start_unix_s, begin_s, utc=span.utc)
        check_order(span, begin_s, end_s)
        return begin_s, end_s

    def _wait_for(self, sample: Sample) -> None:
        """Wait until a sample is due."""
        interval_s = max(0.0, (sample.mono_ns - self._paced_ns) / 1e9)
        self._paced_ns = sample.mono_ns
        while self._speed is not None and not self.is_interrupted:
            now = time.monotonic()
            if self._is_held:
                self._pause()
                self._due_s = None
                continue
            due = now if self._due_s is None else self._due_s + interval_s / self._speed
            if due <= now:
                self._due_s = max(due, now - MAX_DEBT_S)
                return
            self._waking.wait(min(due - now, MAX_WAIT_S))

    def _pause(self) -> None:
        """Wait for the next request; a growing recording is checked regularly."""
        self._waking.wait(GROWTH_S if self._on_wait() else None)


def no_interval(path: str, span: Span) -> IohError:
    """The error to raise if a span holds no interval."""
    cause = f"no interval in that part of {path}"
    ends = (("from", span.begin), ("to", span.end))
    if words := [f'{word} "{printable(when.text)}"' for word, when in ends if when is not None]:
        cause += f" ({' '.join(words)})"
    return IohError(cause, "See what it holds with: ioh verify", ExitCode.USAGE)
