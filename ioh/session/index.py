"""Find the samples, marks and gaps of a file without reading all of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from zlib import crc32

from ioh.session.frame import (
    HEAD_BYTES,
    MARKER,
    SAMPLE_KINDS,
    Frame,
    FrameScanner,
    Kind,
    frame_head,
)
from ioh.session.packing import Unpacker
from ioh.session.records import MAX_ENTRIES, Index, IndexEntry, RecordError, decode_plain
from ioh.session.stream import MAX_FIRST_OFFSET_BYTES

Read = Callable[[int, int], bytes]  # offset, length: fewer bytes at the end of the file
_STEP_BYTES = 1 << 16
SCAN_BYTES = 1 << 18
# Far more than a writer writes after its last index.
_MAX_TAIL_BYTES = 16 << 20
_MAX_FALSE_INDEXES = 1000
# Bounds for opening: all indexes, unpacked (plus the cost of finding each), and the records after
# the last one.
_MAX_INDEX_BYTES, _INDEX_COST_BYTES = 16 << 20, 1 << 10
_MAX_FRAMES = 1 << 18
NOTED = frozenset({Kind.HEAD, Kind.WHOLE, Kind.MARK, Kind.GAP})


@dataclass(slots=True)
class Contents:
    """The table of contents of a session, up to ``scanned_bytes``.

    ``entries`` are of the kinds NOTED, by offset.  ``is_ended``: the recording was closed
    properly; ``has_others``: another one follows in the same file.
    """

    entries: list[IndexEntry] = field(default_factory=list)
    ticks: int = 0
    last_unix_s: float = 0.0
    scanned_bytes: int = 0
    is_ended: bool = False
    has_others: bool = False

    def take(self, frame: Frame) -> None:
        """Add a record."""
        kind, number = frame.kind, frame.number
        self.scanned_bytes = frame.end
        self.has_others = self.has_others or number < self.ticks
        if kind in SAMPLE_KINDS:
            number += 1
            self.last_unix_s = frame.time_unix_s
        self.ticks = max(self.ticks, number)
        self.is_ended = self.is_ended or kind == Kind.END
        if kind in NOTED and len(self.entries) < MAX_ENTRIES:
            entry = IndexEntry(frame.offset, kind, frame.number, frame.time_unix_s)
            self.entries.append(entry)

    def forget(self, before: int) -> int:
        """Drop the entries before an offset; return the number of the first sample after it."""
        self.entries = [entry for entry in self.entries if entry.offset >= before]
        return self.entries[0].number


def read_contents(read: Read, size_bytes: int) -> Contents:
    """Read the table of contents from the index records, and scan what follows the last one.

    If an index record is damaged, or from another file, scan the whole file instead.  A file
    without an index that does not begin like a recording is not scanned.
    """
    last = _last_index_frame(read, size_bytes)
    begin_bytes = min(size_bytes, MAX_FIRST_OFFSET_BYTES)
    if last is None and next(_frames(read, 0, begin_bytes), None) is None:
        return Contents()
    places = (_from_index(read, last) if last is not None else None) or Contents()
    look_on(places, read)
    return places


def look_on(places: Contents, read: Read) -> None:
    """Add the whole records after ``scanned_bytes``."""
    for frame in _frames(read, places.scanned_bytes):
        places.take(frame)


def last_tick_until(read: Read, begin: IndexEntry, end_bytes: int, time_unix_s: float) -> int:
    """Find the last sample not later than a time, between a whole sample and an offset."""
    tick = begin.number
    for frame in _frames(read, begin.offset, end_bytes):
        if frame.kind in SAMPLE_KINDS:
            if frame.time_unix_s > time_unix_s:
                break
            tick = max(tick, frame.number)
    return tick


def frame_at(read: Read, offset: int) -> Frame | None:
    """Read the record at an offset; None if there is none."""
    raw = read(offset, HEAD_BYTES)
    head = frame_head(raw, 0, offset) if len(raw) == HEAD_BYTES else None
    if head is None:
        return None
    kind, length, number, time_unix_s, check = head
    payload = read(offset + HEAD_BYTES, length)
    is_whole = len(payload) == length and crc32(payload) == check
    return Frame(offset, kind, number, time_unix_s, payload) if is_whole else None


def _frames(read: Read, begin: int, end: int = sys.maxsize) -> Iterator[Frame]:
    """Yield the records between two offsets, _MAX_FRAMES at most."""
    scanner, at, rest = FrameScanner(begin), begin, _MAX_FRAMES
    while at < end and (piece := read(at, min(SCAN_BYTES, end - at))):
        scanner.feed(piece)
        at += len(piece)
        for event in scanner.events():
            if isinstance(event, Frame):
                yield event
                rest -= 1
                if not rest:
                    return


def _from_index(read: Read, last: Frame) -> Contents | None:
    """Follow the chain of index records back from the last one; None if one is damaged."""
    room_bytes, room = _MAX_INDEX_BYTES, MAX_ENTRIES
    spans: list[list[IndexEntry]] = []
    frame: Frame | None = last
    while frame is not None and frame.kind == Kind.INDEX:
        try:
            plain = Unpacker().unpack(frame.payload, most_bytes=room_bytes)
            index = decode_plain(plain, Index)
        except RecordError:
            return None
        room_bytes -= len(plain) + _INDEX_COST_BYTES
        room -= len(index.entries)
        offsets = [index.previous, *(entry.offset for entry in index.entries), frame.offset]
        is_rising = all(a < b for a, b in pairwise(offsets))
        if index.offset != frame.offset or not is_rising or min(room_bytes, room) < 0:
            return None  # e.g. its offsets count from the start of a concatenated recording
        spans.append(index.entries)
        if index.previous < 0:
            entries = list(chain(*reversed(spans)))
            return Contents(entries, last.number, last.time_unix_s, last.end)
        frame = frame_at(read, index.previous)
    return None


def _last_index_frame(read: Read, size_bytes: int) -> Frame | None:
    head = MARKER + bytes([Kind.INDEX])
    begin, tries = size_bytes, _MAX_FALSE_INDEXES
    while begin > 0 and size_bytes - begin < _MAX_TAIL_BYTES:
        end, begin = begin, max(0, begin - _STEP_BYTES)
        piece = read(begin, end - begin + len(head) - 1)
        at = piece.rfind(head)
        while at >= 0:
            frame = frame_at(read, begin + at)
            tries -= 1
            if frame is not None or not tries:
                return frame
            at = piece.rfind(head, 0, at)
    return None
