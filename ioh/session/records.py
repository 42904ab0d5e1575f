"""What records hold: typed and bounded on the way in, compressed one by one."""

from __future__ import annotations

import struct
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from ioh.model.hist import (
    FINE_EDGES_US,
    LATENCY_EDGES_US,
    SIZE_EDGES_BYTES,
    UNITS_PER_US,
)
from ioh.model.metric import LayerSpec
from ioh.model.sample import Value

FORMAT_VERSION = 1
_MOMENT = struct.Struct("<Id")
MAX_UNIX_S = 253_402_300_799.0  # the year 9999: what a calendar can show
MAX_LAYERS = 64
MAX_OPS = 256
MAX_PARTS = 1024
MAX_CHANGES = 1 << 17
MAX_ROWS = 20_000
MAX_NAME_BYTES = 4096
MAX_TEXT_BYTES = 1024

_Text = Annotated[bytes, Meta(max_length=2 * MAX_NAME_BYTES)]
_Gaps = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_CHANGES)]
_Ints = Annotated[list[int], Meta(max_length=MAX_CHANGES)]
_Values = Annotated[list[Value], Meta(max_length=MAX_CHANGES)]
_Names = Annotated[list[_Text], Meta(max_length=MAX_OPS)]
_LayerAt = Annotated[int, Meta(ge=0, lt=MAX_LAYERS)]
_PartAt = Annotated[int, Meta(ge=0, lt=MAX_PARTS)]
_Steps = Annotated[list[Annotated[int, Meta(ge=0, lt=1 << 31)]], Meta(max_length=MAX_LAYERS)]
_Row = tuple[
    int, Annotated[list[_Text], Meta(max_length=16)], Annotated[list[Value], Meta(max_length=64)]
]


class RecordError(Exception):
    """A record that holds something else than its kind says."""


class Header(Struct, kw_only=True):
    """The first record: whence the session comes and what its numbers mean.

    Units:
        ``fine_edges`` in 1/``units_per_us`` µs, upper edges inside; ``size_edges_bytes``;
        ``table_edges_us``; ``cycle_s`` the period asked for.
    """

    format_version: int
    ioh_version: str = ""
    hostname: _Text = b""
    kernel: _Text = b""
    started_unix_s: float = 0.0
    cycle_s: float = 1.0
    note: _Text = b""
    part: int = 1
    units_per_us: int = UNITS_PER_US
    fine_edges: Annotated[list[int], Meta(max_length=4096)] = []
    size_edges_bytes: Annotated[list[int], Meta(max_length=256)] = []
    table_edges_us: Annotated[list[int], Meta(max_length=256)] = []


def our_edges() -> dict[str, list[int]]:
    """The bucket edges of this ioh, as a header tells them."""
    return {
        "fine_edges": [int(edge * UNITS_PER_US) for edge in FINE_EDGES_US],
        "size_edges_bytes": list(SIZE_EDGES_BYTES),
        "table_edges_us": list(LATENCY_EDGES_US),
    }


class Specs(Struct, array_like=True):
    """LayerSpecs of layers that later samples name."""

    specs: Annotated[list[LayerSpec], Meta(max_length=MAX_LAYERS)]


class OpShape(Struct, array_like=True, frozen=True):
    """An op's name, and whether it has histograms: 0 none, 1 all zero (``()``), 2 counted."""

    name: _Text
    latency: Annotated[int, Meta(ge=0, le=2)]
    size_lat: Annotated[int, Meta(ge=0, le=2)]


_Ops = Annotated[list[OpShape], Meta(max_length=MAX_OPS)]


class LayerShape(Struct, array_like=True):
    """Everything of a layer but its numbers; ``reason`` only where it is not available."""

    name: _Text
    source: _Text
    reason: _Text | None = None
    hint: _Text = b""
    ops: _Ops = []
    parts: Annotated[list[tuple[_Text, _Ops]], Meta(max_length=MAX_PARTS)] = []
    metrics: _Names = []
    lost: _Names = []
    gauge_hists: _Names = []
    notes: _Names = []
    is_idle: bool = False


class TableShape(Struct, array_like=True, frozen=True):
    """A table: its layer's position, its name, how many key parts and columns a row has."""

    layer: _LayerAt
    name: _Text
    keys: Annotated[int, Meta(ge=0, le=16)]
    columns: Annotated[int, Meta(ge=0, le=64)]


class Changes(Struct, array_like=True):
    """Differences to the sample before, sparse.

    Shape:
        Two lists of positions, each a gap to the position before it (0: the very next):
        ``gaps`` with increments, ``set_gaps`` with values set as they are.  ``cells`` and
        ``more_cells``: see pack_cells().  ``is_folded``: see folding.py; ``members`` changes, by
        layer, which parts add up to the whole.
    """

    gaps: _Gaps = []
    incs: _Ints = []
    set_gaps: _Gaps = []
    sets: _Values = []
    cells: Annotated[bytes, Meta(max_length=MAX_CHANGES)] = b""
    more_cells: Annotated[bytes, Meta(max_length=16 * MAX_CHANGES)] = b""
    is_folded: bool = False
    members: Annotated[
        list[tuple[_LayerAt, Annotated[list[_PartAt], Meta(max_length=MAX_PARTS)]]],
        Meta(max_length=MAX_LAYERS),
    ] = []


class Rows(Struct, array_like=True):
    """Changes of all tables' rows; positions run over the rows as they were before.

    Shape:
        ``removed`` positions of rows; then ``gaps`` … over values, row by row, the removed
        rows left in; then ``added`` rows: table, key, values.
    """

    removed: _Gaps = []
    gaps: _Gaps = []
    incs: _Ints = []
    set_gaps: _Gaps = []
    sets: _Values = []
    added: Annotated[list[_Row], Meta(max_length=MAX_ROWS)] = []


class Moment(NamedTuple):
    """What comes first in each record of a sample, never compressed.

    Shape:
        ``tick`` counts the samples of the session, from 0.
    """

    tick: int
    time_unix_s: float


MOMENT_BYTES = _MOMENT.size


def encode_moment(moment: Moment) -> bytes:
    """The first bytes of a sample's payload."""
    return _MOMENT.pack(moment.tick & 0xFFFFFFFF, moment.time_unix_s)


def decode_moment(payload: bytes) -> Moment:
    """The number and the time of a sample.

    Raises:
        RecordError: It is too short, or its time is beyond all calendars.
    """
    if len(payload) < MOMENT_BYTES:
        msg = f"a sample of {len(payload)} bytes"
        raise RecordError(msg)
    moment = Moment(*_MOMENT.unpack_from(payload))
    if not 0 <= moment.time_unix_s <= MAX_UNIX_S:  # not true for what is no number either
        msg = f"a sample of {moment.time_unix_s} s"
        raise RecordError(msg)
    return moment


class Full(Struct, array_like=True):
    """A sample by itself: ``changes`` and ``rows`` start from all zero and no row.

    Units:
        ``read_after`` as in LayerSample, of each layer, in READ_STEP_US; 0 of those not named.
    """

    mono_ns: int
    hostname: _Text
    kernel: _Text
    layers: Annotated[list[LayerShape], Meta(max_length=MAX_LAYERS)]
    tables: Annotated[list[TableShape], Meta(max_length=MAX_OPS)]
    changes: Changes
    rows: msgspec.Raw
    read_after: _Steps = []


class Delta(Struct, array_like=True):
    """A sample as changes since the one before; a reshaped layer starts from all zero."""

    mono_inc_ns: int
    reshaped: Annotated[list[tuple[_LayerAt, LayerShape]], Meta(max_length=MAX_LAYERS)]
    changes: Changes
    rows: msgspec.Raw
    read_after: _Steps = []


class Mark(Struct, array_like=True):
    """A named moment."""

    time_unix_s: float
    text: Annotated[bytes, Meta(max_length=MAX_TEXT_BYTES)]


class Gap(Struct, array_like=True):
    """Time that was not recorded, and why."""

    from_unix_s: float
    to_unix_s: float
    reason: Annotated[bytes, Meta(max_length=MAX_TEXT_BYTES)]


class IndexEntry(Struct, array_like=True, frozen=True):
    """Where a record of note lies.

    Shape:
        ``tick`` of the sample in it, or of the next one.
    """

    offset: Annotated[int, Meta(ge=0)]
    kind: int
    tick: Annotated[int, Meta(ge=0)]
    time_unix_s: float


class Index(Struct, array_like=True):
    """Entries since the index record at ``previous`` (-1: this is the first).

    Shape:
        ``ticks`` samples so far; ``is_last``: the recording ended in order behind it.
    """

    previous: int
    ticks: Annotated[int, Meta(ge=0)]
    last_unix_s: float
    entries: Annotated[list[IndexEntry], Meta(max_length=MAX_CHANGES)]


class End(Struct, array_like=True):
    """An orderly end."""

    ticks: Annotated[int, Meta(ge=0)]
    time_unix_s: float


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[object, msgspec.msgpack.Decoder[object]] = {}
_T = TypeVar("_T")


def encode_plain(record: object) -> bytes:
    """A record before compression.

    Raises:
        ValueError: An integer beyond 64 bits, or a text that is no Unicode.
    """
    try:
        return _encoder.encode(record)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def decode_plain(plain: bytes | msgspec.Raw, kind: type[_T]) -> _T:
    """A record of a type, every part of the type and the length that it must be.

    Raises:
        RecordError: It is anything else.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        found = decoder.decode(plain)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RecordError(str(error)) from None
    if not isinstance(found, kind):
        raise RecordError(str(type(found)))
    return found


def to_bytes(text: str) -> bytes:
    """A name as stored: UTF-8, stray surrogates included, cut to MAX_NAME_BYTES."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_NAME_BYTES:
        return data
    import zlib  # noqa: PLC0415 (rare)

    cut = data[: MAX_NAME_BYTES - 16].decode("utf-8", "ignore").encode()
    return cut + b"~%08x" % zlib.crc32(data)


def to_text(data: bytes) -> str:
    """The name that to_bytes() stored; what it cannot have stored is escaped."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")
