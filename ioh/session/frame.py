"""Frames: find records in a stream of bytes, and check that they are whole."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

from ioh.model.errors import IohError

MARKER = b"\xf6IOH"
# Marker, kind, payload bytes, number, unix time, CRC-32 of the payload; then the low half of the
# CRC-32 of all these, which shows a wrong length before the payload is read.
_HEAD = struct.Struct("<4sBIIdI")
_CHECK = struct.Struct("<H")
HEAD_BYTES = _HEAD.size + _CHECK.size
MAX_PLAIN_BYTES = 4 << 20
MAX_PAYLOAD_BYTES = MAX_PLAIN_BYTES + (64 << 10)  # incompressible data grows a little
MAX_UNIX_S = 253_402_300_799.0  # the end of the year 9999: datetime's limit
MAX_FALSE_HEADS = 1 << 16


class Kind(IntEnum):
    """The kind of a record; readers skip unknown kinds."""

    HEAD = ord("H")  # the recorded host, and what its layers measure
    WHOLE = ord("S")  # a sample that needs no other record
    DELTA = ord("D")  # a sample as changes since the previous one
    MARK = ord("M")
    GAP = ord("G")
    INDEX = ord("I")
    END = ord("E")
    JOINED = ord("J")  # the hosts whose recordings the file holds; see recorded_file.py


SAMPLE_KINDS = frozenset({Kind.WHOLE, Kind.DELTA})


class Frame(NamedTuple):  # created for each record: a frozen dataclass takes four times as long
    """One whole record, ``offset`` bytes from the start of the stream.

    ``number`` is how many samples came before: for a sample, its own number, from 0.
    """

    offset: int
    kind: int
    number: int
    time_unix_s: float
    payload: bytes

    @property
    def end(self) -> int:
        """Offset of the byte after the record."""
        return self.offset + HEAD_BYTES + len(self.payload)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes outside any record; ``is_tail``: the stream ends in them, as in a torn last record."""

    offset: int
    size_bytes: int
    is_tail: bool = False


Event = Frame | Damage


def make_frame(kind: int, number: int, time_unix_s: float, payload: bytes) -> bytes:
    """Encode one record."""
    head = _HEAD.pack(MARKER, kind, len(payload), number, time_unix_s, crc32(payload))
    return head + _CHECK.pack(crc32(head) & 0xFFFF) + payload


def frame_head(
    data: bytes | bytearray, at: int, offset: int
) -> tuple[int, int, int, float, int] | None:
    """Decode kind, length, number, time and check; None if there is no plausible head.

    ``data`` holds HEAD_BYTES from ``at`` on, which is ``offset`` in the recording.
    """
    if not data.startswith(MARKER, at):
        return None
    end = at + _HEAD.size
    _, kind, length, number, time_unix_s, check = _HEAD.unpack_from(data, at)
    if (
        crc32(data[at:end]) & 0xFFFF != data[end] | data[end + 1] << 8
        or length > MAX_PAYLOAD_BYTES
        or number * HEAD_BYTES > offset  # so many samples take more room
        or not 0 <= time_unix_s <= MAX_UNIX_S  # refuses NaN, too
    ):
        return None
    return kind, length, number, time_unix_s, check


class FrameScanner:
    """Finds frames in a stream fed piece by piece, without seeking."""

    def __init__(self, offset: int = 0) -> None:
        self._data = bytearray()
        self._offset = offset  # of _data[0]
        self._good_until = offset  # end of the last whole record: damage begins here
        self._false_heads = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the stream."""
        self._data += piece

    def events(self, *, at_end: bool = False) -> Iterator[Event]:
        """Yield frames and damage in order, as far as the fed bytes reach.

        At the end an incomplete record is damage.  Raises IohError if more than MAX_FALSE_HEADS
        places look like a record and are not.
        """
        at, data = 0, self._data
        while len(data) - at >= HEAD_BYTES:
            head = frame_head(data, at, self._offset + at)
            if head is None:
                at = self._skip(at, at_end=at_end)
                continue
            kind, length, number, time_unix_s, check = head
            end = at + HEAD_BYTES + length
            if end > len(data):
                if not at_end:
                    break
                at = self._skip(at, at_end=True)  # a false head may hide whole records
                continue
            payload = bytes(data[at + HEAD_BYTES : end])
            # The head's check proves that the length is right: only this payload is damaged.
            if crc32(payload) == check:
                yield from self._damage(self._offset + at)
                self._good_until = self._offset + end
                yield Frame(self._offset + at, kind, number, time_unix_s, payload)
            at = end
        at = len(data) if at_end else at
        del data[:at]
        self._offset += at
        if at_end:
            yield from self._damage(self._offset, is_tail=True)
            self._good_until = self._offset

    def _skip(self, at: int, *, at_end: bool) -> int:
        """Find the next place where a record may begin; raises as events()."""
        self._false_heads += self._data.startswith(MARKER, at)
        if self._false_heads > MAX_FALSE_HEADS:
            cause = f"more than {MAX_FALSE_HEADS:,} places of the recording are damaged"
            raise IohError(cause, "Cut out the undamaged part, or record again")
        to = self._data.find(MARKER, at + 1)
        if to < 0:
            # The last bytes may be the start of a marker.
            to = len(self._data) if at_end else max(at + 1, len(self._data) - len(MARKER) + 1)
        return to

    def _damage(self, to: int, *, is_tail: bool = False) -> Iterator[Damage]:
        """Yield the bytes between the last whole record and this offset, if any."""
        if to > self._good_until:
            yield Damage(self._good_until, to - self._good_until, is_tail=is_tail)
