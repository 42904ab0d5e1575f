"""Frames: where a record begins and ends in a stream of bytes, and whether it is whole."""

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
# CRC-32 of all these, so that a wrong length is known at once.
_HEAD = struct.Struct("<4sBIIdI")
_CHECK = struct.Struct("<H")
HEAD_BYTES = _HEAD.size + _CHECK.size
MAX_PLAIN_BYTES = 4 << 20
MAX_PAYLOAD_BYTES = MAX_PLAIN_BYTES + (64 << 10)  # what does not compress grows a little
MAX_UNIX_S = 253_402_300_799.0  # the year 9999: what a calendar can show
MAX_FALSE_HEADS = 1 << 16


class Kind(IntEnum):
    """What a record is; a reader skips kinds that it does not know."""

    HEAD = ord("H")  # what the recording is of, and what its layers offer
    WHOLE = ord("S")  # a sample that needs no other record
    DELTA = ord("D")  # a sample as changes since the one before
    MARK = ord("M")
    GAP = ord("G")
    INDEX = ord("I")
    END = ord("E")
    JOINED = ord("J")  # which hosts' recordings lie in the file; see recorded_file.py


SAMPLE_KINDS = frozenset({Kind.WHOLE, Kind.DELTA})


class Frame(NamedTuple):  # made for each record: a frozen dataclass takes four times as long
    """One whole record, ``offset`` bytes from the start of the stream.

    ``number`` of the sample in it, from 0, or of the next one: how many came before.
    """

    offset: int
    kind: int
    number: int
    time_unix_s: float
    payload: bytes

    @property
    def end(self) -> int:
        """Offset of the byte behind the record."""
        return self.offset + HEAD_BYTES + len(self.payload)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record; ``is_tail``: the stream ends in them, as in a torn last record."""

    offset: int
    size_bytes: int
    is_tail: bool = False


Event = Frame | Damage


def make_frame(kind: int, number: int, time_unix_s: float, payload: bytes) -> bytes:
    """The bytes of one record; ValueError where a reader would not take so large a payload."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        msg = f"a record of {len(payload)} bytes"
        raise ValueError(msg)
    head = _HEAD.pack(MARKER, kind, len(payload), number, time_unix_s, crc32(payload))
    return head + _CHECK.pack(crc32(head) & 0xFFFF) + payload


def frame_head(
    data: bytes | bytearray, at: int, offset: int
) -> tuple[int, int, int, float, int] | None:
    """Kind, length, number, time and check; None where no head is, or one that no recording has.

    ``data`` has HEAD_BYTES from ``at``, which lie at ``offset`` of the recording.
    """
    if not data.startswith(MARKER, at):
        return None
    end = at + _HEAD.size
    _, kind, length, number, time_unix_s, check = _HEAD.unpack_from(data, at)
    if (
        crc32(data[at:end]) & 0xFFFF != data[end] | data[end + 1] << 8
        or length > MAX_PAYLOAD_BYTES
        or number * HEAD_BYTES > offset  # that many samples take more room
        or not 0 <= time_unix_s <= MAX_UNIX_S  # not true for what is no number either
    ):
        return None
    return kind, length, number, time_unix_s, check


class FrameScanner:
    """Finds frames in a stream that is fed to it piece by piece; never looks back."""

    def __init__(self, offset: int = 0) -> None:
        self._data = bytearray()
        self._offset = offset  # of _data[0]
        self._good_until = offset  # behind the last whole record: from there on, it is damage
        self._false_heads = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the stream."""
        self._data += piece

    def events(self, *, at_end: bool = False) -> Iterator[Event]:
        """Frames and damage in order, as far as the bytes fed so far show.

        At the end an incomplete record is damage.  Raises IohError where more places only look like
        records than damage explains.
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
            # The head's own check shows that the length is right: else only this record is lost.
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
        """The next place where a record may begin; IohError as events()."""
        self._false_heads += self._data.startswith(MARKER, at)
        if self._false_heads > MAX_FALSE_HEADS:
            cause = f"more than {MAX_FALSE_HEADS:,} places of the recording are damaged"
            raise IohError(cause, "Cut out what is whole, or record again")
        to = self._data.find(MARKER, at + 1)
        if to < 0:
            # The last bytes may be the beginning of a marker.
            to = len(self._data) if at_end else max(at + 1, len(self._data) - len(MARKER) + 1)
        return to

    def _damage(self, to: int, *, is_tail: bool = False) -> Iterator[Damage]:
        """What lies between the last whole record and this offset."""
        if to > self._good_until:
            yield Damage(self._good_until, to - self._good_until, is_tail=is_tail)
