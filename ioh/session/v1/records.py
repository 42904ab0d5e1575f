"""What records of format 1 hold."""

from __future__ import annotations

import struct
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from ioh.model.metric import LayerSpec
from ioh.model.sample import Value
from ioh.session.frame import MAX_UNIX_S
from ioh.session.records import (
    MAX_LAYERS,
    MAX_NAME_BYTES,
    MAX_OPS,
    MAX_PARTS,
    MAX_ROWS,
    LayerShape,
    refuse,
)

# Marker, kind, flags, payload bytes, sequence number, a CRC-32 of all these and the payload; then
# the low half of the CRC-32 of what comes before.
HEAD = struct.Struct("<4sBBIIIH")
FIRST_BYTES = 14  # of the head, before both checksums
_MOMENT = struct.Struct("<Id")
_MAX_CHANGES = 1 << 17
ZSTD, STREAM, BEGINS = 1, 2, 4  # flags
HEADER, SPECS, FULL, DELTA, CHECKPOINT, MARK, GAP, END = b"HLSDCMGE"

_Text = Annotated[bytes, Meta(max_length=2 * MAX_NAME_BYTES)]
_Gaps = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=_MAX_CHANGES)]
_Ints = Annotated[list[int], Meta(max_length=_MAX_CHANGES)]
_Values = Annotated[list[Value], Meta(max_length=_MAX_CHANGES)]
_LayerAt = Annotated[int, Meta(ge=0, lt=MAX_LAYERS)]
_TableAt = Annotated[int, Meta(ge=0, lt=MAX_OPS)]
_PartAt = Annotated[int, Meta(ge=0, lt=MAX_PARTS)]
_Steps = Annotated[list[Annotated[int, Meta(ge=0, lt=1 << 31)]], Meta(max_length=MAX_LAYERS)]
Row = tuple[
    _TableAt,
    Annotated[list[_Text], Meta(max_length=16)],
    Annotated[list[Value], Meta(max_length=64)],
]


class Specs(Struct, array_like=True):
    """LayerSpecs of layers that later samples name."""

    specs: Annotated[list[LayerSpec], Meta(max_length=MAX_LAYERS)]


class Changes(Struct, array_like=True):
    """Differences to the sample before: of numbers, of histograms' cells, and how both fold."""

    gaps: _Gaps
    incs: _Ints
    set_gaps: _Gaps
    sets: _Values
    cells: Annotated[bytes, Meta(max_length=_MAX_CHANGES)]
    more_cells: Annotated[bytes, Meta(max_length=16 * _MAX_CHANGES)]
    is_folded: bool
    members: Annotated[
        list[tuple[_LayerAt, Annotated[list[_PartAt], Meta(max_length=MAX_PARTS)]]],
        Meta(max_length=MAX_LAYERS),
    ]


class Rows(Struct, array_like=True):
    """Changes of all tables' rows; positions run over the rows as they were before."""

    removed: _Gaps
    gaps: _Gaps
    incs: _Ints
    set_gaps: _Gaps
    sets: _Values
    added: Annotated[list[Row], Meta(max_length=MAX_ROWS)]


class Full(Struct, array_like=True):
    """A sample by itself; tables by their layer's position, their name, and sizes of a row."""

    mono_ns: int
    hostname: _Text
    kernel: _Text
    layers: Annotated[list[LayerShape], Meta(max_length=MAX_LAYERS)]
    tables: Annotated[list[tuple[_LayerAt, _Text, int, int]], Meta(max_length=MAX_OPS)]
    changes: Changes
    rows: Rows
    read_after: _Steps = []


class Delta(Struct, array_like=True):
    """A sample as changes since the one before; a reshaped layer starts from all zero."""

    mono_ns: int
    reshaped: Annotated[list[tuple[_LayerAt, LayerShape]], Meta(max_length=MAX_LAYERS)]
    changes: Changes
    rows: Rows
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
