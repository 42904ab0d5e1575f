"""Compress payloads, each by itself or as pieces of one stream; unpack them within bounds."""

from __future__ import annotations

import zstandard

from ioh.session.frame import MAX_PLAIN_BYTES
from ioh.session.records import RecordError, refuse

# How far back a stream may refer: about a hundred busy ticks.
_WINDOW_LOG = 18
# A zstd block takes at least 4 bytes and unpacks to at most 128 KiB: this bounds each step.
_PIECE_BYTES = 64


# zstd's level and window, as a power of two.  A file is written once and kept: 5.5 MB of memory
# for each compressor.  The history in memory gets 1.2 MB; 3 MB would make it 0 to 1.4 % smaller,
# 5.5 MB another 4 %.
FOR_FILE, FOR_MEMORY = (16, _WINDOW_LOG), (9, 17)


class Packer:
    """Compresses payloads; it holds state, so each writer needs its own."""

    def __init__(self, effort: tuple[int, int] = FOR_FILE) -> None:
        level, window_log = effort
        parameters = zstandard.ZstdCompressionParameters.from_level(
            # Claim a small source: for an unknown size the level's tables take 16 MB.
            level,
            source_size=1 << window_log,
            window_log=window_log,
            write_content_size=0,
        )
        self._zstd = zstandard.ZstdCompressor(compression_params=parameters)
        self._stream = self._zstd.compressobj()

    def pack(self, plain: bytes, *, begins: bool = True) -> bytes:
        """Compress a payload: the first piece of a new zstd frame, or the next piece of the last.

        Raises ValueError if it is larger than readers accept.
        """
        if len(plain) > MAX_PLAIN_BYTES:
            msg = f"a record of {len(plain)} bytes"
            raise ValueError(msg)
        if begins:
            self._stream = self._zstd.compressobj()
        packed = self._stream.compress(plain)
        return packed + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


class Unpacker:
    """The reverse of Packer."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
        self._stream: zstandard.ZstdDecompressionObj | None = None

    def unpack(
        self, payload: bytes, *, begins: bool = True, most_bytes: int = MAX_PLAIN_BYTES
    ) -> bytes:
        """Unpack a payload.

        Raises RecordError if it is damaged, or as soon as it exceeds ``most_bytes``; after that
        nothing can be read until a new zstd frame begins.
        """
        stream, self._stream = self._stream, None
        if begins:
            stream = self._zstd.decompressobj()
        if stream is None:
            refuse("a delta without the sample before it")
        plain = bytearray()
        try:
            for at in range(0, len(payload), _PIECE_BYTES):
                plain += stream.decompress(payload[at : at + _PIECE_BYTES])
                if len(plain) > most_bytes:
                    refuse(f"a record of more than {most_bytes} bytes")
        except (zstandard.ZstdError, EOFError) as error:
            raise RecordError(str(error)) from None
        self._stream = stream
        return bytes(plain)
