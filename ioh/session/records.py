"""The contents of records, with their types and limits.  docs/format.md describes them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import accumulate, count
from operator import add
from typing import Annotated, NoReturn, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Struct

from ioh.model.calls import CALL_NUMBERS, KEPT_BATCHES, MOST_CALLS
from ioh.model.errors import IohError
from ioh.model.hist import (
    FINE_BUCKETS,
    FINE_EDGES_US,
    LATENCY_BUCKETS,
    LATENCY_EDGES_US,
    SIZE_BUCKETS,
    SIZE_EDGES_BYTES,
    UNITS_PER_US,
)
from ioh.model.metric import LayerSpec, MetricSpec
from ioh.model.sample import HostSample, OpTotals, Value
from ioh.session.frame import MAX_UNIX_S, Kind

FORMAT_VERSION = 2
MAX_LAYERS = 32
MAX_OPS = 256
MAX_PARTS = 1024
MAX_ROWS = 20_000
MAX_CELLS = 1 << 21  # numbers of a whole sample and its deltas, including rows and removed ones
MAX_ALL_OPS = 1 << 13  # of all layers and parts
MAX_NAME_BYTES = 4096
MAX_TEXT_BYTES = 1024
MAX_ADDRESSES = 256  # of the host
MAX_ENTRIES = 1 << 16  # of an index
MAX_AGO_NS = 1 << 62  # between a sample and its calls
_MAX_CYCLE_S = 1e6
# Of a layer's spec.
_MAX_SPEC_NAME = 256
_MAX_SPEC_HELP = 4096
_MAX_SPEC_MEMBERS = 1024  # of all groups
HOST_FIELDS = tuple(field.name for field in fields(HostSample))
HOST_NUMBERS = len(HOST_FIELDS) + 2  # and self_cpu_ns_total, bpf_ns_total
OP_NUMBERS = len(fields(OpTotals)) - 2  # all but its histograms
SIZE_LAT_CELLS = SIZE_BUCKETS * LATENCY_BUCKETS

_UnixTime = Annotated[float, Meta(ge=0, le=MAX_UNIX_S)]  # can be shown as a clock time
_Text = Annotated[bytes, Meta(max_length=2 * MAX_NAME_BYTES)]
_Gaps = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_CELLS)]
_Ints = Annotated[list[int], Meta(max_length=MAX_CELLS)]
_Values = Annotated[list[Value], Meta(max_length=MAX_CELLS)]
_Names = Annotated[list[_Text], Meta(max_length=MAX_OPS)]
_At = Annotated[int, Meta(ge=0, lt=MAX_OPS)]
_Steps = Annotated[list[Annotated[int, Meta(ge=-1 << 31, lt=1 << 31)]], Meta(max_length=MAX_LAYERS)]
_Row = tuple[_At, Annotated[list[_Text], Meta(max_length=16)]]


class RecordError(Exception):
    """An invalid record."""


def refuse(why: str) -> NoReturn:
    """Raise a RecordError."""
    raise RecordError(why)


class Header(Struct, kw_only=True):
    """Where the recording comes from, and what its numbers mean.

    ``fine_edges`` are inclusive upper edges in 1/``units_per_us`` µs; ``cycle_s`` is the requested
    interval.  ``addresses`` are the host's own: they identify other hosts' mounts of this one.
    """

    format_version: int
    ioh_version: str = ""
    hostname: _Text = b""
    kernel: _Text = b""
    started_unix_s: _UnixTime = 0.0
    cycle_s: float = 1.0
    note: _Text = b""
    part: int = 1
    units_per_us: int = UNITS_PER_US
    fine_edges: Annotated[list[int], Meta(max_length=4096)] = []
    size_edges_bytes: Annotated[list[int], Meta(max_length=256)] = []
    table_edges_us: Annotated[list[int], Meta(max_length=256)] = []
    addresses: Annotated[
        list[Annotated[bytes, Meta(max_length=64)]], Meta(max_length=MAX_ADDRESSES)
    ] = []


def our_edges() -> dict[str, list[int]]:
    """The bucket edges of this ioh, as the fields of a header."""
    return {
        "fine_edges": [int(edge * UNITS_PER_US) for edge in FINE_EDGES_US],
        "size_edges_bytes": list(SIZE_EDGES_BYTES),
        "table_edges_us": list(LATENCY_EDGES_US),
    }


class Head(Struct, array_like=True):
    """The header, and the specs of all layers in samples up to the next head."""

    header: Header
    specs: Annotated[list[LayerSpec], Meta(max_length=MAX_LAYERS)]


class OpShape(Struct, array_like=True, frozen=True):
    """An op's name and histograms: 0 none, 1 all zero (``()``), 2 with counts."""

    name: _Text
    latency: Annotated[int, Meta(ge=0, le=2)]
    size_lat: Annotated[int, Meta(ge=0, le=2)]


def hist_sizes(op: OpShape) -> tuple[int, int]:
    """The number of counts in an op's histograms: latency, and size × latency."""
    return FINE_BUCKETS * (op.latency == 2), SIZE_LAT_CELLS * (op.size_lat == 2)


_Ops = Annotated[list[OpShape], Meta(max_length=MAX_OPS)]


class LayerShape(Struct, array_like=True):
    """All of a layer but its numbers; ``reason`` only if the layer is not available."""

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


class Start(Struct, array_like=True):
    """What only a whole sample has; ``tables`` are [layer's position, name]."""

    hostname: _Text
    kernel: _Text
    tables: Annotated[list[tuple[_At, _Text]], Meta(max_length=MAX_OPS)]


class CallRecord(Struct, array_like=True, frozen=True):
    """A CallBatch of a layer; ``after_ns`` counts from the sample's ``mono_ns``."""

    layer: Annotated[int, Meta(ge=0, lt=MAX_LAYERS)]
    after_ns: Annotated[int, Meta(ge=-MAX_AGO_NS, le=MAX_AGO_NS)]
    peers: Annotated[list[Annotated[bytes, Meta(max_length=64)]], Meta(max_length=MOST_CALLS)]
    numbers: Annotated[
        list[Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]],
        Meta(max_length=MOST_CALLS * CALL_NUMBERS),
    ]


class SampleRecord(Struct, array_like=True):
    """A sample as changes since the previous one; a whole sample, since nothing.

    See docs/format.md for the fields.  ``mono_ns`` counts from the previous sample; ``read_after``
    is in READ_STEP_US.
    """

    mono_ns: int
    layers: Annotated[list[tuple[_At, LayerShape]], Meta(max_length=MAX_LAYERS)] = []
    removed: _Gaps = []
    added: Annotated[list[_Row], Meta(max_length=MAX_ROWS)] = []
    gaps: _Gaps = []
    incs: _Ints = []
    set_gaps: _Gaps = []
    sets: _Values = []
    read_after: _Steps = []
    start: Start | None = None
    calls: Annotated[list[CallRecord], Meta(max_length=MAX_LAYERS * KEPT_BATCHES)] = []


class Mark(Struct, array_like=True):
    """A named moment."""

    time_unix_s: _UnixTime
    text: Annotated[bytes, Meta(max_length=MAX_TEXT_BYTES)]


class Gap(Struct, array_like=True):
    """A span of time that was not recorded, and why."""

    from_unix_s: _UnixTime
    to_unix_s: _UnixTime
    reason: Annotated[bytes, Meta(max_length=MAX_TEXT_BYTES)]


MOMENTS: dict[int, type[Mark | Gap]] = {Kind.MARK: Mark, Kind.GAP: Gap}


class IndexEntry(Struct, array_like=True, frozen=True):
    """The offset of a head, a whole sample, a mark or a gap; its frame's number and time."""

    offset: Annotated[int, Meta(ge=0)]
    kind: int
    number: Annotated[int, Meta(ge=0)]
    time_unix_s: _UnixTime


class Index(Struct, array_like=True):
    """Entries since the index at ``previous`` (-1: this is the first); ``offset`` is its own."""

    offset: int
    previous: int
    entries: Annotated[list[IndexEntry], Meta(max_length=MAX_ENTRIES)]


class End(Struct, array_like=True):
    """The end of a recording that was closed properly."""

    ticks: int
    time_unix_s: float


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[object, msgspec.msgpack.Decoder[object]] = {}
# msgspec's description of a type is incomplete while it is built: a thread that decodes by it then
# (two hosts that answer at the same time) crashes.
_one_makes = threading.Lock()
_T = TypeVar("_T")


def encode_plain(record: object) -> bytes:
    """Encode a record; ValueError for an integer beyond 64 bits, or invalid Unicode."""
    try:
        return _encoder.encode(record)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def encode_sample(record: SampleRecord) -> bytes:
    """As encode_plain(), without ``calls`` if there are none."""
    fields = msgspec.structs.astuple(record)
    return encode_plain(fields if record.calls else fields[:-1])


def decode_plain(plain: bytes, kind: type[_T]) -> _T:
    """Decode a record and check all types and limits; RecordError if one is violated."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _one_makes:
            decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        record = decoder.decode(plain)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RecordError(str(error)) from None
    if not isinstance(record, kind):
        raise RecordError(str(type(record)))
    return record


def to_bytes(text: str) -> bytes:
    """Encode a name as UTF-8, including stray surrogates, cut to MAX_NAME_BYTES."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_NAME_BYTES:
        return data
    cut = data[: MAX_NAME_BYTES - 16].decode("utf-8", "ignore").encode()
    return cut + b"~%08x" % crc32(data)


def to_text(data: bytes) -> str:
    """The reverse of to_bytes(); other bytes are escaped."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def gaps_of(places: Iterable[int]) -> list[int]:
    """How many places are skipped before each of these ascending places."""
    gaps, after = [], 0
    for place in places:
        gaps.append(place - after)
        after = place + 1
    return gaps


def places_of(gaps: Sequence[int]) -> list[int]:
    """The reverse of gaps_of()."""
    return list(map(add, accumulate(gaps), count()))


def decode_head(plain: bytes) -> Head:
    """Decode a HEAD record; an implausible interval is 1 s.

    Raises RecordError if it is invalid, IohError for a newer format, or other bucket edges.
    """
    head = decode_plain(plain, Head)
    version, edges = head.header.format_version, our_edges()
    if version > FORMAT_VERSION:
        cause = f"the recording has format {version}, this ioh reads up to {FORMAT_VERSION}"
        raise IohError(cause, "Update ioh")
    if any(getattr(head.header, name) != edges[name] for name in edges):
        cause = "the recording uses other histogram buckets than this ioh"
        raise IohError(cause, f"Read it with ioh {head.header.ioh_version[:32]}")
    for spec in head.specs:
        _check_spec(spec)
    if not 0 < head.header.cycle_s < _MAX_CYCLE_S:
        head.header.cycle_s = 1.0
    return head


def _check_spec(spec: LayerSpec) -> None:
    """Raise RecordError unless names are short and distinct, ratios use existing columns, etc."""
    lists = [[spec.name], spec.ops, tuple(spec.groups), *spec.groups.values(), spec.lost]
    lists += [[each.name for each in of] for of in (spec.metrics, spec.gauge_hists, spec.tables)]
    for table in spec.tables:
        lists += [table.keys, [column.name for column in table.columns], table.sort_by]
        _check_metrics(table.columns, table=True)
        derived = {column.derived_name for column in table.columns}
        if not derived.issuperset(table.sort_by) or not table.columns:
            refuse("a layer's table is sorted by a column that it lacks")
        if len(table.keys) > 16 or len(table.columns) > 64:
            refuse("a layer's table is too wide")
    _check_metrics(spec.metrics, table=False)
    if sum(map(len, spec.groups.values())) > _MAX_SPEC_MEMBERS:
        refuse("a layer's groups have too many operations")
    for names in lists:
        _check_names(names)
    is_short = max(len(spec.title), len(spec.part)) <= _MAX_SPEC_NAME
    if not is_short or not -(1 << 31) < spec.rank < 1 << 31:
        refuse("a layer's title is too long, or its rank too large")


def _check_names(names: Sequence[str]) -> None:
    if len(names) > MAX_OPS or len(set(names)) != len(names):
        refuse("a layer has too many names, or one of them twice")
    if any(not name or len(name) > _MAX_SPEC_NAME or not name.isprintable() for name in names):
        refuse("a layer has an empty, long or unprintable name")


def _check_metrics(metrics: Sequence[MetricSpec], *, table: bool) -> None:
    stored = {metric.name for metric in metrics if metric.kind != "ratio"}
    for metric in metrics:
        parts = {metric.numerator, metric.denominator or metric.numerator}
        if table and metric.kind == "ratio" and not parts <= stored:
            refuse("a layer's ratio uses columns that do not exist")
        if len(metric.help) > _MAX_SPEC_HELP or len(metric.title) > _MAX_SPEC_NAME:
            refuse("a layer's help text is too long")
        if not math.isfinite(metric.scale):
            refuse("a layer's scale is not a finite number")
