"""Frames: where a record begins and ends in a stream of bytes, and whether it is whole."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from zlib import crc32

MARKER = b"\xf6ioh"
# marker, kind, flags, payload bytes, sequence number; then CRC-32 of those and the payload, and
# the low half of the CRC-32 of everything before it, so that a wrong length is known at once.
_FIRST = struct.Struct("<4sBBII")
_CHECKS = struct.Struct("<IH")
HEAD_BYTES = _FIRST.size + _CHECKS.size
MAX_PAYLOAD_BYTES = 4 << 20
MAX_CORRECTED_BYTES = 1 << 16  # more would take too long to be put right
# Flags of a payload: it is one zstd frame that tells its size; it is the next piece of a zstd
# frame that goes from record to record; it is the first piece of one.
ZSTD, STREAM, BEGINS = 1, 2, 4


class Kind(IntEnum):
    """What a record is; a reader skips kinds that it does not know."""

    HEADER = ord("H")
    SPECS = ord("L")
    FULL = ord("S")  # a sample that needs no other record
    DELTA = ord("D")  # a sample as changes since the one before
    CHECKPOINT = ord("C")  # the sample before it once more, whole
    MARK = ord("M")
    GAP = ord("G")
    PARITY = ord("P")  # gives back one lost record of those before it
    INDEX = ord("I")
    END = ord("E")


SAMPLE_KINDS = frozenset({Kind.FULL, Kind.DELTA, Kind.CHECKPOINT})
# The file can be read without these, so no parity record covers them.
UNCOVERED = frozenset({Kind.CHECKPOINT, Kind.PARITY, Kind.INDEX, Kind.END})


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole record as it lies in the stream.

    Shape:
        ``raw`` is all of it, head included; ``seq`` counts the records that parity covers,
        others bear the number of the next one.

    Units:
        ``offset`` in bytes from the start of the stream.
    """

    offset: int
    kind: int
    flags: int
    seq: int
    raw: bytes

    @property
    def payload(self) -> bytes:
        """What the record holds, as stored."""
        return self.raw[HEAD_BYTES:]

    @property
    def end(self) -> int:
        """Offset of the byte behind the record."""
        return self.offset + len(self.raw)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record.

    Shape:
        ``is_tail``: the stream ends within them, as a torn last record does; ``is_mended``:
        what was lost there follows all the same, from a parity record or by its checksum;
        ``raw``: the bytes, where they are at most MAX_CORRECTED_BYTES.
    """

    offset: int
    size_bytes: int
    is_tail: bool = False
    is_mended: bool = False
    raw: bytes = b""


Event = Frame | Damage


def make_frame(kind: int, flags: int, seq: int, payload: bytes) -> bytes:
    """The bytes of one record.

    Raises:
        ValueError: The payload is larger than a reader would take.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        msg = f"record of {len(payload)} bytes"
        raise ValueError(msg)
    first = _FIRST.pack(MARKER, kind, flags, len(payload), seq & 0xFFFFFFFF)
    body_crc = crc32(payload, crc32(first))
    head = first + struct.pack("<I", body_crc)
    return head + struct.pack("<H", crc32(head) & 0xFFFF) + payload


def _head_is_whole(data: bytes | bytearray, at: int) -> bool:
    check = data[at + HEAD_BYTES - 2] | data[at + HEAD_BYTES - 1] << 8
    return crc32(bytes(data[at : at + HEAD_BYTES - 2])) & 0xFFFF == check


def head_is_of(raw: bytes | bytearray) -> bool:
    """Whether these bytes begin with the whole head of a record that takes all of them."""
    if len(raw) < HEAD_BYTES or raw[:4] != MARKER or not _head_is_whole(raw, 0):
        return False
    length: int = _FIRST.unpack_from(raw)[3]
    return HEAD_BYTES + length == len(raw)


def whole_frame(raw: bytes | bytearray, offset: int) -> Frame | None:
    """The record that these bytes are, all of them; None where they are none."""
    if not head_is_of(raw):
        return None
    _, kind, flags, _, seq = _FIRST.unpack_from(raw)
    body_crc, _ = _CHECKS.unpack_from(raw, _FIRST.size)
    if crc32(memoryview(raw)[HEAD_BYTES:], crc32(raw[: _FIRST.size])) != body_crc:
        return None
    return Frame(offset, kind, flags, seq, bytes(raw))


class FrameScanner:
    """Finds frames in a stream that is fed to it piece by piece; never looks back.

    Args:
        offset: Where in the stream the first piece begins.
    """

    def __init__(self, offset: int = 0) -> None:
        self._data = bytearray()
        self._offset = offset  # of _data[0]
        self._bad_from: int | None = None
        self._bad = bytearray()  # what lies there, as far as it is of use

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the stream."""
        self._data += piece

    def events(self, *, at_end: bool = False) -> Iterator[Event]:
        """Frames and damage in order, as far as what was fed tells.

        Args:
            at_end: Nothing more will come: an incomplete record is damage.
        """
        at = 0
        data = self._data
        while len(data) - at >= HEAD_BYTES:
            if data[at : at + 4] != MARKER or not _head_is_whole(data, at):
                at = self._skip(at, at_end=at_end)
                continue
            length = _FIRST.unpack_from(data, at)[3]
            end = at + HEAD_BYTES + length
            if length > MAX_PAYLOAD_BYTES:
                at = self._skip(at, at_end=at_end)
                continue
            if end > len(data):
                if not at_end:
                    break
                at = self._skip(at, at_end=True)  # a false head may hide whole records
                continue
            frame = whole_frame(bytes(data[at:end]), self._offset + at)
            if frame is None:
                # The head's own check tells that the length is right: only this record is lost.
                self._note_bad(at, end)
                at = end
                continue
            yield from self._close_damage(self._offset + at)
            yield frame
            at = end
        if at_end and at < len(data):
            self._note_bad(at, len(data))
            at = len(data)
        del data[:at]
        self._offset += at
        if at_end:
            yield from self._close_damage(self._offset, is_tail=True)

    def _skip(self, at: int, *, at_end: bool) -> int:
        """The next place where a record may begin."""
        to = self._data.find(MARKER, at + 1)
        if to < 0:
            # The last bytes may be the beginning of a marker.
            to = len(self._data) if at_end else max(at + 1, len(self._data) - len(MARKER) + 1)
        self._note_bad(at, to)
        return to

    def _note_bad(self, at: int, to: int) -> None:
        if self._bad_from is None:
            self._bad_from = self._offset + at
            self._bad.clear()
        self._bad += self._data[at : min(to, at + MAX_CORRECTED_BYTES + 1 - len(self._bad))]

    def _close_damage(self, to: int, *, is_tail: bool = False) -> Iterator[Damage]:
        if self._bad_from is not None:
            size = to - self._bad_from
            raw = bytes(self._bad) if len(self._bad) == size <= MAX_CORRECTED_BYTES else b""
            yield Damage(self._bad_from, size, is_tail=is_tail, raw=raw)
            self._bad_from = None
