"""Where the samples, marks and gaps of a file lie, found without reading all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ioh.session.frame import (
    HEAD_BYTES,
    MARKER,
    MAX_PAYLOAD_BYTES,
    SAMPLE_KINDS,
    Frame,
    FrameScanner,
    Kind,
)
from ioh.session.packing import decompress
from ioh.session.records import (
    Header,
    Index,
    IndexEntry,
    Mark,
    RecordError,
    decode_moment,
    decode_plain,
)

Read = Callable[[int, int], bytes]  # offset, length: fewer bytes at the end of the file
_STEP_BYTES = 1 << 16
_MAX_TAIL_BYTES = 64 << 20
SCAN_BYTES = 1 << 18


@dataclass
class Places:
    """The table of contents of a session, as far as the file has been looked at.

    Shape:
        ``entries`` by offset: FULL, CHECKPOINT, MARK, GAP and SPECS records.
        ``ticks`` samples; ``scanned_bytes`` how far the file is known; ``is_ended``: the
        recording ended in order; ``has_others``: another one follows in the same file.
    """

    entries: list[IndexEntry] = field(default_factory=list)
    ticks: int = 0
    last_unix_s: float = 0.0
    scanned_bytes: int = 0
    is_ended: bool = False
    has_others: bool = False


def read_places(read: Read, size_bytes: int) -> Places:
    """The table of contents from the index records, the last part by looking.

    Where an index record is damaged, or another file's, the whole file is looked at instead.
    """
    places = _from_index(read, size_bytes) or Places()
    look_on(places, read, size_bytes)
    return places


def look_on(places: Places, read: Read, size_bytes: int) -> None:
    """Take in what lies behind ``scanned_bytes``, whole records only."""
    scanner = FrameScanner(places.scanned_bytes)
    at = places.scanned_bytes
    while at < size_bytes:
        piece = read(at, min(SCAN_BYTES, size_bytes - at))
        if not piece:
            break
        scanner.feed(piece)
        at += len(piece)
        for event in scanner.events():
            if isinstance(event, Frame):
                _take(places, event)


def last_tick_until(read: Read, begin: IndexEntry, end_bytes: int, time_unix_s: float) -> int:
    """Number of the last sample not later than a time, from a whole record to an offset.

    Looks at the times of the records only; nothing else of them is decoded.
    """
    found = begin.tick
    scanner = FrameScanner(begin.offset)
    at = begin.offset
    while at < end_bytes and (piece := read(at, min(SCAN_BYTES, end_bytes - at))):
        scanner.feed(piece)
        at += len(piece)
        for event in scanner.events():
            if not isinstance(event, Frame) or event.kind not in SAMPLE_KINDS:
                continue
            try:
                moment = decode_moment(event.payload)
            except RecordError:
                continue
            if moment.time_unix_s > time_unix_s:
                return found
            found = max(found, moment.tick)
    return found


def _take(places: Places, frame: Frame) -> None:
    kind = frame.kind
    places.scanned_bytes = frame.end
    tick, when = places.ticks, places.last_unix_s
    try:
        if kind in SAMPLE_KINDS:
            moment = decode_moment(frame.payload)
            tick, when = moment.tick, moment.time_unix_s
            places.ticks, places.last_unix_s = max(places.ticks, tick + 1), when
        elif kind == Kind.MARK:
            when = decode_plain(decompress(frame.flags, frame.payload), Mark).time_unix_s
        elif kind == Kind.END:
            places.is_ended = True
        elif kind == Kind.HEADER and frame.offset:
            decode_plain(decompress(frame.flags, frame.payload), Header)
            places.has_others = True
    except RecordError:
        return
    if kind in {Kind.FULL, Kind.CHECKPOINT, Kind.MARK, Kind.GAP, Kind.SPECS}:
        places.entries.append(IndexEntry(frame.offset, kind, tick, when))


def _from_index(read: Read, size_bytes: int) -> Places | None:
    """What the chain of index records tells; None where there is none or one is damaged."""
    found = _last_index(read, size_bytes)
    if found is None:
        return None
    frame, index = found
    newest, end = index, frame.end
    spans = [index.entries]
    at = frame.offset
    while index.previous >= 0:
        if index.previous >= at:
            return None
        at = index.previous
        older = _index_at(read, at)
        if older is None:
            return None
        index = older[1]
        spans.append(index.entries)
    entries = [entry for span in reversed(spans) for entry in span]
    offsets = [entry.offset for entry in entries]
    if offsets != sorted(offsets) or (offsets and offsets[-1] >= end):
        return None
    if entries and not _is_one(read, entries[-1].offset, frame.offset):
        return None  # it counts from where its own recording begins, behind another one
    return Places(entries, newest.ticks, newest.last_unix_s, end)


def _is_one(read: Read, begin: int, end: int) -> bool:
    """Whether no recording ends between two offsets."""
    scanner = FrameScanner(begin)
    at = begin
    while at < end and (piece := read(at, min(SCAN_BYTES, end - at))):
        scanner.feed(piece)
        at += len(piece)
        if any(isinstance(e, Frame) and e.kind == Kind.HEADER for e in scanner.events()):
            return False
    return True


def _last_index(read: Read, size_bytes: int) -> tuple[Frame, Index] | None:
    wanted = MARKER + bytes([Kind.INDEX])
    begin = size_bytes
    while begin > 0 and size_bytes - begin < _MAX_TAIL_BYTES:
        end, begin = begin, max(0, begin - _STEP_BYTES)
        piece = read(begin, end - begin + len(wanted) - 1)
        at = piece.rfind(wanted)
        while at >= 0:
            found = _index_at(read, begin + at)
            if found is not None:
                return found
            at = piece.rfind(wanted, 0, at)
    return None


def _index_at(read: Read, offset: int) -> tuple[Frame, Index] | None:
    head = read(offset, HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    length = int.from_bytes(head[6:10], "little")
    if length > MAX_PAYLOAD_BYTES:
        return None
    scanner = FrameScanner(offset)
    scanner.feed(head + read(offset + HEAD_BYTES, length))
    event = next(scanner.events(at_end=True), None)
    if not isinstance(event, Frame) or event.kind != Kind.INDEX or event.offset != offset:
        return None
    try:
        return event, decode_plain(decompress(event.flags, event.payload), Index)
    except RecordError:
        return None
