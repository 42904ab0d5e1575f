"""Compression of payloads: each by itself, or as pieces of one stream; bounded on the way out."""

from __future__ import annotations

import zstandard

from ioh.session.frame import BEGINS, STREAM, ZSTD
from ioh.session.records import RecordError

MAX_PLAIN_BYTES = 4 << 20
# A file is written once and kept; what stays in memory would pay 3 MB for being 4 % smaller.
FILE_LEVEL, MEMORY_LEVEL = 16, 9
_MIN_TO_COMPRESS = 64
# How far back a stream may refer: some hundred busy ticks.
_WINDOW_LOG = 18
# A block of zstd may stand for 128 KiB and takes at least 4 bytes: so much can come of a piece.
_PIECE_BYTES = 64


def _check_size(plain: bytes) -> None:
    if len(plain) > MAX_PLAIN_BYTES:
        msg = f"record of {len(plain)} bytes"
        raise ValueError(msg)


class Packer:
    """Compresses payloads; one each writer, since a compressor holds state.

    Args:
        level: Of zstd.
    """

    def __init__(self, level: int = FILE_LEVEL) -> None:
        self._zstd = zstandard.ZstdCompressor(level=level, write_content_size=True)

    def pack(self, plain: bytes) -> tuple[int, bytes]:
        """Flags and payload: compressed where that is shorter.

        Raises:
            ValueError: More than a reader would take.
        """
        _check_size(plain)
        if len(plain) >= _MIN_TO_COMPRESS:
            packed = self._zstd.compress(plain)
            if len(packed) < len(plain):
                return ZSTD, packed
        return 0, plain


class StreamPacker:
    """Compresses payloads as pieces of one zstd frame, each with what came before in mind.

    Args:
        level: Of zstd.
    """

    def __init__(self, level: int = FILE_LEVEL) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            # As if for so small a source: the level's own tables for one of any size take 16 MB.
            level,
            source_size=1 << _WINDOW_LOG,
            window_log=_WINDOW_LOG,
            write_content_size=0,
        )
        self._zstd = zstandard.ZstdCompressor(compression_params=parameters)
        self._stream: zstandard.ZstdCompressionObj | None = None

    def begin(self) -> None:
        """Let the next payload begin a new frame."""
        self._stream = None

    def pack(self, plain: bytes) -> tuple[int, bytes]:
        """Flags and payload; the next one can only be read after this one.

        Raises:
            ValueError: More than a reader would take.
        """
        _check_size(plain)
        flags = STREAM
        if self._stream is None:
            flags |= BEGINS
            self._stream = self._zstd.compressobj()
        packed = self._stream.compress(plain)
        return flags, packed + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


class StreamUnpacker:
    """The reverse of StreamPacker."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor(max_window_size=2 * MAX_PLAIN_BYTES)
        self._stream: zstandard.ZstdDecompressionObj | None = None

    def unpack(self, flags: int, payload: bytes) -> bytes:
        """A payload before compression.

        Raises:
            RecordError: It is damaged, or larger than MAX_PLAIN_BYTES, which is known before
                much more is unpacked; nothing can be read until a new frame begins.
        """
        if not flags & STREAM:
            return decompress(flags, payload)
        stream, self._stream = self._stream, None
        if flags & BEGINS:
            stream = self._zstd.decompressobj()
        if stream is None:
            msg = "a piece of a stream that began elsewhere"
            raise RecordError(msg)
        plain = bytearray()
        try:
            for at in range(0, len(payload), _PIECE_BYTES):
                plain += stream.decompress(payload[at : at + _PIECE_BYTES])
                if len(plain) > MAX_PLAIN_BYTES:
                    msg = f"a record of more than {MAX_PLAIN_BYTES} bytes"
                    raise RecordError(msg)
        except (zstandard.ZstdError, EOFError) as error:
            raise RecordError(str(error)) from None
        self._stream = stream
        return bytes(plain)


def decompress(flags: int, payload: bytes) -> bytes:
    """A payload before compression, where it stands by itself.

    Raises:
        RecordError: It is damaged, or larger than MAX_PLAIN_BYTES, which is known before
            anything is unpacked.
    """
    if flags & STREAM:
        msg = "a piece of a stream"
        raise RecordError(msg)
    if not flags & ZSTD:
        return payload
    try:
        size = zstandard.frame_content_size(payload)
        if not 0 <= size <= MAX_PLAIN_BYTES:
            msg = f"a record of {size} bytes" if size >= 0 else "a record of unknown size"
            raise RecordError(msg)
        decompressor = zstandard.ZstdDecompressor(max_window_size=2 * MAX_PLAIN_BYTES)
        plain: bytes = decompressor.decompress(payload, max_output_size=MAX_PLAIN_BYTES)
    except zstandard.ZstdError as error:
        raise RecordError(str(error)) from None
    return plain
