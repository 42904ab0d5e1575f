"""Open a recording in a file: its time range, any sample in it, and what is appended."""

from __future__ import annotations

import contextlib
import shlex
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from ioh.model.closing import Closing
from ioh.model.errors import refuse_if
from ioh.model.metric import LayerSpec
from ioh.model.sample import Sample
from ioh.session.frame import Kind
from ioh.session.index import Contents, frame_at, last_tick_until, look_on, read_contents
from ioh.session.packing import Unpacker
from ioh.session.recorded_file import RecordedFile
from ioh.session.records import (
    MAX_TEXT_BYTES,
    Gap,
    Head,
    IndexEntry,
    Mark,
    RecordError,
    decode_head,
    decode_plain,
    refuse,
    to_text,
)
from ioh.session.stream import BEGIN_BYTES, Item, ItemReader, Tick, no_recording

_CHUNK_BYTES = 1 << 16
_MAX_MOMENT_BYTES = 2 * MAX_TEXT_BYTES  # of a mark or a gap, before compression
_MAX_STRETCH_BYTES = 16 << 20  # more than a writer leaves between two whole samples
_MAX_HEADS = 50  # tried: damage in one place does not hit so many
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Moment:
    """A mark or a gap; ``tick`` is the number of the first sample after it.

    ``text`` is as recorded: call printable() on it.  ``until_unix_s`` is of gaps only.
    """

    time_unix_s: float
    text: str
    tick: int
    until_unix_s: float | None = None


class Recording(Closing):
    """Samples by number, read on demand; a context manager.

    ``first_tick`` is the number of the first sample held, ``begin_bytes`` its offset.
    """

    first_tick = begin_bytes = 0
    _started_unix_s = 0.0  # while there is no sample

    def __init__(self, path: str) -> None:
        self.path = path
        self._contents = Contents()
        self._head: tuple[bytes, Head] | None = None  # the payload last decoded, and what it held

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes from an offset on: fewer at the end, none if they were dropped."""
        raise NotImplementedError

    def __len__(self) -> int:
        """One more than the number of the last sample known; see refresh()."""
        return self._contents.ticks

    def refresh(self) -> int:
        """Read what was appended; return the number of samples now known."""
        if not self._contents.is_ended:
            look_on(self._contents, self.read)
        return len(self)

    @property
    def start_unix_s(self) -> float:
        """Time of the first sample."""
        whole = self._entries(Kind.WHOLE)
        return whole[0].time_unix_s if whole else self._started_unix_s

    @property
    def end_unix_s(self) -> float:
        """Time of the last sample known, or of an earlier one if the clock was set back."""
        if not len(self):
            return self.start_unix_s
        return max(
            [self._contents.last_unix_s, *(e.time_unix_s for e in self._entries(Kind.WHOLE))]
        )

    def tick_at(self, time_unix_s: float) -> int:
        """Number of the last sample before the first that is later than a time; at least 0.

        After the clock was set back, samples count as of the time before, until it is reached.
        """
        whole = self._entries(Kind.WHOLE)
        times = list(accumulate((entry.time_unix_s for entry in whole), max))
        behind = bisect_right(times, time_unix_s)
        if behind == 0:
            return 0
        # The first record of that time; later ones may share it, after the clock was set back.
        begin = whole[bisect_left(times, times[behind - 1])]
        end = whole[behind].offset if behind < len(whole) else sys.maxsize
        return last_tick_until(self.read, begin, end, time_unix_s)

    def items(
        self,
        from_tick: int = 0,
        *,
        with_tables: bool = True,
        with_parts: bool = True,
        awaits_more: Callable[[int], bool] = lambda _: False,
        most_bytes: int = sys.maxsize,
    ) -> Iterator[Item]:
        """Yield everything from a sample on, in order, to the end of the file.

        Skipping tables is much faster; ``with_parts=False`` leaves out single devices and mounts.
        ``awaits_more`` is called at the end of the file, with its offset: False ends the iteration.
        ``most_bytes`` limits how far to read from the whole sample at or before ``from_tick``.
        """
        at = self.begin_bytes
        for entry in self._entries(Kind.WHOLE):
            if entry.number > from_tick:
                break
            at = entry.offset if entry.number else self.begin_bytes
        reader = ItemReader(
            at,
            self.specs_before(at),
            with_tables=with_tables,
            with_parts=with_parts,
            from_tick=from_tick,
            name=self.path,
        )
        return reader.items_of(self._pieces(at, at + most_bytes, awaits_more))

    def _pieces(self, at: int, end: int, awaits_more: Callable[[int], bool]) -> Iterator[bytes]:
        while at < end:
            piece = self.read(at, _CHUNK_BYTES)
            at += len(piece)
            if piece:
                yield piece
            elif not awaits_more(at):
                return

    def ticks(self, from_tick: int, *, is_brief: bool = False) -> Iterator[Tick]:
        """Yield samples from one on; brief ones lack tables and parts, and are much faster."""
        items = self.items(from_tick, with_tables=not is_brief, with_parts=not is_brief)
        return (item for item in items if isinstance(item, Tick))

    def specs_before(self, offset: int) -> dict[str, LayerSpec] | None:
        """The layers' specs before an offset, or else from anywhere in the file."""
        head = self._head_before(offset)
        return {spec.name: spec for spec in head.specs} if head is not None else None

    def sample_at(self, tick: int) -> Sample | None:
        """Read one sample by number; None if it is lost, dropped or not recorded yet."""
        if not self.first_tick <= tick < len(self):
            return None
        items = self.items(tick, most_bytes=_MAX_STRETCH_BYTES)
        tick_item = next((item for item in items if isinstance(item, Tick)), None)
        return tick_item.sample if tick_item is not None and tick_item.tick == tick else None

    def _entries(self, *kinds: Kind) -> list[IndexEntry]:
        return [entry for entry in self._contents.entries if entry.kind in kinds]

    def _payload(self, entry: IndexEntry) -> bytes:
        frame = frame_at(self.read, entry.offset)
        if frame is None or frame.kind != entry.kind:
            refuse("damaged")
        return frame.payload

    def _head_before(self, offset: int) -> Head | None:
        """The last head before an offset, or the nearest one that is neither damaged nor dropped.

        A repeated head is not decoded again: code that derives from samples plans once for each
        LayerSpec.
        """
        entries = self._entries(Kind.HEAD)
        at = bisect_right([entry.offset for entry in entries], offset)
        for entry in (*reversed(entries[:at]), *entries[at:])[:_MAX_HEADS]:
            with contextlib.suppress(RecordError):
                payload = self._payload(entry)
                if self._head is None or self._head[0] != payload:
                    self._head = (payload, decode_head(Unpacker().unpack(payload)))
                return self._head[1]
        return self._head[1] if self._head is not None else None


class Session(RecordedFile, Recording):
    """A recorded session in a seekable file, opened for reading.

    ``path`` and ``fd`` are as for RecordedFile.  Raises IohError if it is not a recording, or one
    that this ioh cannot read.
    """

    def __init__(self, path: str, fd: int | None = None) -> None:
        RecordedFile.__init__(self, path, fd)
        Recording.__init__(self, path)
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            cause = f"{path} is not seekable"
            refuse_if(not self.seeks, cause, "Read it as a stream: ioh replay -")
            self._contents = read_contents(self.read, self.size_bytes)
            head = self._head_before(0)
            if head is None:
                raise no_recording(path, self.read(0, BEGIN_BYTES))
            self.header, self._started_unix_s = head.header, head.header.started_unix_s
            cause = f"{path} holds several recordings, one after the other"
            hint = f"Merge them: ioh verify {shlex.quote(path)} --repair NEW"
            refuse_if(self._contents.has_others, cause, hint)
            stack.pop_all()

    @property
    def is_ended(self) -> bool:
        """Whether the recording was closed properly: nothing more will be appended."""
        return self._contents.is_ended

    @property
    def is_growing(self) -> bool:
        """Whether another process is recording into this file."""
        return not self.is_ended and self.is_locked

    def marks(self) -> list[Moment]:
        """All marks, in the order of recording."""
        return [
            Moment(mark.time_unix_s, to_text(mark.text), entry.number)
            for entry, mark in self._records(Kind.MARK, Mark)
        ]

    def gaps(self) -> list[Moment]:
        """All gaps: spans of time that could not be recorded, with the reason."""
        return [
            Moment(gap.from_unix_s, to_text(gap.reason), entry.number, gap.to_unix_s)
            for entry, gap in self._records(Kind.GAP, Gap)
        ]

    def _records(self, kind: Kind, record_type: type[_T]) -> Iterator[tuple[IndexEntry, _T]]:
        """Yield undamaged marks or gaps with their index entries."""
        unpacker = Unpacker()  # one for all: creating it takes longer than using it
        for entry in self._entries(kind):
            with contextlib.suppress(RecordError):
                plain = unpacker.unpack(self._payload(entry), most_bytes=_MAX_MOMENT_BYTES)
                yield entry, decode_plain(plain, record_type)
