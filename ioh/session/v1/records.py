"""What records of format 1 hold, and where they begin and end."""

from __future__ import annotations

import struct
from typing import Annotated, NamedTuple
from zlib import crc32

from msgspec import Meta, Raw, Struct

from ioh.model.metric import LayerSpec
from ioh.model.sample import Value
from ioh.session.frame import MAX_UNIX_S, V1_MARKER, FrameScanner
from ioh.session.records import (
    MAX_LAYERS,
    MAX_NAME_BYTES,
    MAX_OPS,
    MAX_PARTS,
    MAX_ROWS,
    LayerShape,
    refuse,
)

_FIRST = struct.Struct("<4sBBII")  # marker, kind, flags, payload bytes, sequence number
_HEAD_BYTES = _FIRST.size + 6
_MOMENT = struct.Struct("<Id")
_MAX_CHANGES = 1 << 17
ZSTD, STREAM, BEGINS = 1, 2, 4  # flags
HEADER, SPECS, FULL, DELTA, CHECKPOINT, MARK, GAP, END = b"HLSDCMGE"

_Text = Annotated[bytes, Meta(max_length=2 * MAX_NAME_BYTES)]
_Gaps = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=_MAX_CHANGES)]
_Ints = Annotated[list[int], Meta(max_length=_MAX_CHANGES)]
_Values = Annotated[list[Value], Meta(max_length=_MAX_CHANGES)]
_LayerAt = Annotated[int, Meta(ge=0, lt=MAX_LAYERS)]
_PartAt = Annotated[int, Meta(ge=0, lt=MAX_PARTS)]
_Steps = Annotated[list[Annotated[int, Meta(ge=0, lt=1 << 31)]], Meta(max_length=MAX_LAYERS)]
_Row = tuple[
    int, Annotated[list[_Text], Meta(max_length=16)], Annotated[list[Value], Meta(max_length=64)]
]


class Scanner(FrameScanner):
    """Finds frames of format 1; their kind has the flags above it."""

    marker, head_bytes = V1_MARKER, _HEAD_BYTES

    def _head(self, at: int) -> tuple[int, int, int, float, int] | None:
        raw = bytes(self._data[at : at + _HEAD_BYTES])
        _, kind, flags, length, number = _FIRST.unpack_from(raw)
        if crc32(raw[:-2]) & 0xFFFF != raw[-2] | raw[-1] << 8:
            return None
        # The CRC-32 goes on over the payload; where that begins is known by now.
        self._before = crc32(raw[: _FIRST.size])
        return kind | flags << 8, length, number, 0.0, int.from_bytes(raw[-6:-2], "little")

    def _crc(self, payload: bytes) -> int:
        return crc32(payload, self._before)


class Specs(Struct, array_like=True):
    """LayerSpecs of layers that later samples name."""

    specs: Annotated[list[LayerSpec], Meta(max_length=MAX_LAYERS)]


class TableShape(Struct, array_like=True, frozen=True):
    """A table: its layer's position, its name, how many key parts and columns a row has."""

    layer: _LayerAt
    name: _Text
    keys: Annotated[int, Meta(ge=0, le=16)]
    columns: Annotated[int, Meta(ge=0, le=64)]


class Changes(Struct, array_like=True):
    """Differences to the sample before: of numbers, of histograms' cells, and how both fold."""

    gaps: _Gaps = []
    incs: _Ints = []
    set_gaps: _Gaps = []
    sets: _Values = []
    cells: Annotated[bytes, Meta(max_length=_MAX_CHANGES)] = b""
    more_cells: Annotated[bytes, Meta(max_length=16 * _MAX_CHANGES)] = b""
    is_folded: bool = False
    members: Annotated[
        list[tuple[_LayerAt, Annotated[list[_PartAt], Meta(max_length=MAX_PARTS)]]],
        Meta(max_length=MAX_LAYERS),
    ] = []


class Rows(Struct, array_like=True):
    """Changes of all tables' rows; positions run over the rows as they were before."""

    removed: _Gaps = []
    gaps: _Gaps = []
    incs: _Ints = []
    set_gaps: _Gaps = []
    sets: _Values = []
    added: Annotated[list[_Row], Meta(max_length=MAX_ROWS)] = []


class Full(Struct, array_like=True):
    """A sample by itself."""

    mono_ns: int
    hostname: _Text
    kernel: _Text
    layers: Annotated[list[LayerShape], Meta(max_length=MAX_LAYERS)]
    tables: Annotated[list[TableShape], Meta(max_length=MAX_OPS)]
    changes: Changes
    rows: Raw
    read_after: _Steps = []


class Delta(Struct, array_like=True):
    """A sample as changes since the one before; a reshaped layer starts from all zero."""

    mono_inc_ns: int
    reshaped: Annotated[list[tuple[_LayerAt, LayerShape]], Meta(max_length=MAX_LAYERS)]
    changes: Changes
    rows: Raw
    read_after: _Steps = []


class Moment(NamedTuple):
    """What comes first in each record of a sample."""

    tick: int
    time_unix_s: float


def split_sample(payload: bytes) -> tuple[Moment, bytes]:
    """The number and the time of a sample, and the rest of it.

    Raises:
        RecordError: It is too short, or its time is beyond all calendars.
    """
    if len(payload) < _MOMENT.size:
        refuse(f"a sample of {len(payload)} bytes")
    moment = Moment(*_MOMENT.unpack_from(payload))
    if not 0 <= moment.time_unix_s <= MAX_UNIX_S:
        refuse(f"a sample of {moment.time_unix_s} s")
    return moment, payload[_MOMENT.size :]
