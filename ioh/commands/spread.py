"""A long recording as text with every core: processes look through spans of it, one speaks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from ioh.model.closing import Closing
from ioh.session.frame import Damage
from ioh.session.stream import BadRecord, Item, LostTicks, Tick
from ioh.sinks.text_block import TextBlock

if TYPE_CHECKING:
    from ioh.commands.intervals import Intervals, Remarks
    from ioh.findings.engine import Engine, Look
    from ioh.session.reader import Session
    from ioh.sinks.text import TextSink
    from ioh.sources.moments import Part

# More would not fit into 100 MB with what they have in common.
MAX_WORKERS = 4
MAX_SPAN_TICKS = 1500
MAX_SPAN_BYTES = 4 << 20  # expected; and at most:
MAX_SENT_BYTES = 4 * MAX_SPAN_BYTES
# Before each span its process decodes what the rules look back at; more than this is wasted.
MIN_SPANS_OF_LOOK_BACK = 2
_MARGIN_S = 5.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be told of a recording, the same in every process.

    Shape:
        ``part`` is all that is told of it; nothing before that counts.
    """

    session: Session
    make_intervals: Callable[[], Intervals]
    engine: Engine | None
    sink: TextSink
    remarks: Remarks
    with_tables: bool
    with_parts: bool
    part: Part


class Looked(NamedTuple):
    """One interval, but for what depends on those before it; ``look`` where somebody judges."""

    interval_s: float
    block: TextBlock
    look: Look | None


Span = tuple[int, "int | None"]  # as look_through() takes them
Fault = Damage | BadRecord | LostTicks
Piece = Looked | str | Fault | None  # None: the end of what was asked for


def look_through(
    work: Work, begin: int, end: int | None = None, *, from_first: bool = False
) -> Iterator[Piece]:
    """Everything behind the sample before ``begin``, up to the one before ``end``.

    Args:
        work: What is told, and how.
        begin: The number of a sample; the interval that ends with it is the first one told.
        end: Another one, or None for the end of the recording.
        from_first: Let the rules see everything before, not only so far as they look back.

    Raises:
        LookupError: The sample before ``begin`` is lost.
    """
    ticks = 0
    if from_first:
        ticks = begin
    elif work.engine is not None:
        ticks = _look_back_ticks(work, work.engine)
    while True:
        with suppress(_TooLateError):
            yield from _look_from(work, max(work.part.begin_tick, begin - 1 - ticks), begin, end)
            return
        ticks *= 2  # samples come closer together here than on average


class _TooLateError(Exception):
    """The rules look back further than to where this began; nothing was told yet."""


def _look_from(work: Work, before: int, begin: int, end: int | None) -> Iterator[Piece]:
    """As look_through(), from a sample ``before`` that one on.

    Raises:
        LookupError: As there.
        _TooLateError: See there.
    """
    intervals = work.make_intervals()
    engine = work.engine.anew() if work.engine is not None else None
    for item, is_told in _items(work, before, begin, end):
        if not isinstance(item, Tick):
            yield from _said(work, item)
            continue
        snapshot = intervals.take(item.sample)
        if snapshot is not None and is_told:
            look = engine.look(snapshot) if engine is not None else None
            yield Looked(snapshot.interval_s, work.sink.lay_out(snapshot), look)
        elif snapshot is not None and engine is not None:
            engine.remember(snapshot)
        is_first = item.tick == begin - 1 and before > work.part.begin_tick
        if is_first and engine is not None and not engine.has_span:
            raise _TooLateError


def _items(
    work: Work, before: int, begin: int, end: int | None
) -> Iterator[tuple[Item | None, bool]]:
    """Samples from ``before`` on, then everything behind the one before ``begin``.

    Returns:
        With each whether it is told; None at the end of what was asked for.
    """
    is_told = False
    parts = {"with_tables": work.with_tables, "with_parts": work.with_parts}
    for item in work.session.items(before, **parts):
        if not isinstance(item, Tick):
            if is_told:
                yield item, True
            continue
        if work.part.is_over(item.tick, item.sample.time_unix_s):
            yield None, True
            return
        if item.tick >= begin and not is_told:
            msg = f"no sample {begin - 1}"
            raise LookupError(msg)
        yield item, is_told
        is_told = is_told or item.tick == begin - 1
        if end is not None and item.tick >= end - 1:
            return


def _look_back_ticks(work: Work, engine: Engine) -> int:
    """How many samples the rules look back, and a few more."""
    return ceil((engine.span_s + _MARGIN_S) / _cycle_s(work.session))


def _cycle_s(session: Session) -> float:
    """Mean time between two samples."""
    return max(1e-3, (session.end_unix_s - session.start_unix_s) / max(1, len(session) - 1))


def _said(work: Work, item: Item | None) -> Iterator[Piece]:
    if item is None or isinstance(item, Fault):
        yield item
    elif text := work.remarks(item):
        yield text


class Spread(Closing):
    """Looks through what is left of a recording with several processes; a context manager.

    Each takes every so manieth span, and sends what it found when it has all of it.

    Args:
        work: What is told, and how.
        spans: What spans_of() made.
        workers: How many processes.
    """

    def __init__(self, work: Work, spans: Sequence[Span], workers: int) -> None:
        self._work, self._spans = work, spans
        context = get_context("fork")  # they share what is imported and open
        self._readers: list[Connection] = []
        self._processes = []
        for number in range(workers):
            reader, writer = context.Pipe(duplex=False)
            self._readers.append(reader)
            process = context.Process(
                target=_serve,
                args=(work, spans[number::workers], writer, self._readers, os.getpid()),
                daemon=True,
            )
            process.start()
            writer.close()
            self._processes.append(process)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
        for process, reader in zip(self._processes, self._readers, strict=True):
            process.join()
            reader.close()
        self._processes, self._readers = [], []

    def pieces(self, is_wanted: Callable[[], bool]) -> Iterator[Piece]:
        """All that is told, in order; from the first span with a fault on by this process alone.

        Args:
            is_wanted: Asked while waiting; False ends it.
        """
        for number, (begin, end) in enumerate(self._spans):
            found = self._receive(self._readers[number % len(self._readers)], is_wanted)
            if not is_wanted():
                return
            if found is None:
                self.close()
                yield from _alone(self._work, begin)
                return
            yield from found
            if end is None or (found and found[-1] is None):
                return
        self.close()
        yield from _alone(self._work, begin=self._spans[-1][1] or 0)

    @staticmethod
    def _receive(reader: Connection, is_wanted: Callable[[], bool]) -> list[Piece] | None:
        """One span; None where its process found a fault, or is gone."""
        try:
            while not reader.poll(_POLL_S):
                if not is_wanted():
                    return None
            found: list[Piece] | None = reader.recv()
        except (EOFError, OSError):
            return None
        return found


def _alone(work: Work, begin: int) -> Iterator[Piece]:
    """The rest of the recording, whatever it takes."""
    pieces = look_through(work, begin)
    try:
        first = next(pieces, None)
    except LookupError:
        pieces = look_through(work, begin, from_first=True)
        first = next(pieces, None)
    if first is not None:
        yield first
        yield from pieces


def _serve(
    work: Work,
    spans: Sequence[Span],
    writer: Connection,
    inherited: Sequence[Connection],
    parent: int,
) -> None:
    """In the process: look through one span after another, and send what is found."""
    for reader in inherited:  # else who sends would wait for ever for a reader that was killed
        reader.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; who prints ends the others
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    for begin, end in spans:
        found = _found(work, begin, end, parent)
        try:
            writer.send(found)
        except OSError:  # nobody wants it any more
            return
        if found is None:
            return


def _found(work: Work, begin: int, end: int | None, parent: int) -> list[Piece] | None:
    """All that is told of a span; None where one process had better go on alone."""
    found: list[Piece] = []
    size = 0
    try:
        for piece in look_through(work, begin, end):
            if isinstance(piece, Looked):
                size += sum(map(len, piece.block.before))
            if isinstance(piece, Fault) or size > MAX_SENT_BYTES or os.getppid() != parent:
                return None
            found.append(piece)
    except LookupError:
        return None
    return found


def spans_of(
    work: Work, begin: int, *, told_bytes: float, run_s: float | None, workers: int
) -> list[Span]:
    """What is left in pieces of a size; none where one process is as good.

    Args:
        work: What is told.
        begin: The first sample that is not told yet.
        told_bytes: How long the text of an interval is.
        run_s: How much of it is wanted; None for all.
        workers: How many processes there may be.
    """
    end = last = len(work.session)
    if work.part.has_end:
        end = last = work.part.last_tick(work.session) + 1
    if run_s is not None:
        end = min(last, begin + ceil(run_s / _cycle_s(work.session)))
    least = 1
    if work.engine is not None:
        least = max(1, MIN_SPANS_OF_LOOK_BACK * _look_back_ticks(work, work.engine))
    most = min(MAX_SPAN_TICKS, int(MAX_SPAN_BYTES / max(1.0, told_bytes)))
    if workers < 2 or end - begin < workers * least or most < least:
        return []
    rounds = ceil((end - begin) / (workers * most))
    step = max(least, ceil((end - begin) / (workers * rounds)))
    return list(pairwise([*range(begin, end, step), None if end == last else end]))
