"""One wrong byte of a record found by its checksum: a CRC-32 tells which, and what it was."""

from __future__ import annotations

from zlib import crc32

from ioh.session.frame import HEAD_BYTES, MAX_CORRECTED_BYTES, Frame, head_is_of, whole_frame

_POLYNOMIAL = 0xEDB88320


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_table_entry, range(256)))
_BY_TOP = {entry >> 24: index for index, entry in enumerate(_TABLE)}


def corrected(raw: bytes, offset: int) -> Frame | None:
    """The record that differs from these bytes in a single one; None where there is none.

    Bytes that are no record but for more than one byte are taken for one with a chance of one
    in 10,000 for a record of 1,000 bytes, and what it holds must then still make sense.

    Args:
        raw: All bytes between two good records.
        offset: Where they lie in the stream.
    """
    if not HEAD_BYTES <= len(raw) <= MAX_CORRECTED_BYTES:
        return None
    if head_is_of(raw):
        return _with_payload_changed(raw, offset)
    return _with_head_changed(raw, offset)


def _with_head_changed(raw: bytes, offset: int) -> Frame | None:
    work = bytearray(raw)
    for at in range(HEAD_BYTES):
        for value in range(256):
            work[at] = value
            found = whole_frame(work, offset)
            if found is not None:
                return found
        work[at] = raw[at]
    return None


def _with_payload_changed(raw: bytes, offset: int) -> Frame | None:
    """Go back from the end, undoing the CRC's steps, until what is left is that of one byte."""
    stored = int.from_bytes(raw[HEAD_BYTES - 6 : HEAD_BYTES - 2], "little")
    wrong = stored ^ crc32(raw[HEAD_BYTES:], crc32(raw[: HEAD_BYTES - 6]))
    found: Frame | None = None
    for at in range(len(raw) - 1, HEAD_BYTES - 1, -1):
        index = _BY_TOP[wrong >> 24]
        if _TABLE[index] == wrong:
            work = bytearray(raw)
            work[at] ^= index
            frame = whole_frame(work, offset)
            if frame is not None and found is not None:
                return None  # two possible ones: neither is to be trusted
            found = found or frame
        wrong = (wrong ^ _TABLE[index]) << 8 & 0xFFFFFFFF | index
    return found
