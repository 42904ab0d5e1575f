"""Changes of format 1, unpacked and unfolded: what follows from others was not stored."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, count, pairwise
from operator import mul
from typing import NamedTuple, TypeVar

from ioh.model.hist import (
    FINE_EDGES_US,
    LATENCY_BUCKETS,
    LATENCY_EDGES_US,
    SIZE_EDGES_BYTES,
    UNITS_PER_US,
)
from ioh.model.sample import Value
from ioh.session.records import OP_NUMBERS, LayerShape, OpShape, places_of, refuse

_T = TypeVar("_T")
# A byte of common cells is a gap of 0, 1 or 2 (longer: 2 and the rest elsewhere), times 85, and
# an increment of 1 to 84 (any other: 0, and elsewhere).
_LONG_GAP, _MAX_SHORT_INC = 2, 84
_GAPS = bytes(byte // (_MAX_SHORT_INC + 1) for byte in range(256))
_INCS = bytes(byte % (_MAX_SHORT_INC + 1) for byte in range(256))
_IS_LONG = bytes(gap == _LONG_GAP or not inc for gap, inc in zip(_GAPS, _INCS, strict=True))
_MAX_VARINT_BITS = 77
# Column of a size x latency histogram that holds what a fine latency bucket holds.
_COLUMN = (*(bisect_left(LATENCY_EDGES_US, edge) for edge in FINE_EDGES_US), LATENCY_BUCKETS - 1)
# About what an operation of a fine latency bucket, and one of a size bucket, adds to the sums.
_EDGES = [0, *(int(edge * UNITS_PER_US) for edge in FINE_EDGES_US)]
_NS = (
    *((low + high) * 500 // UNITS_PER_US for low, high in pairwise(_EDGES)),
    _EDGES[-1] * 1000 // UNITS_PER_US,
)
_SIZES = (*SIZE_EDGES_BYTES, 2 * SIZE_EDGES_BYTES[-1])
_BYTES = tuple(size for size in _SIZES for _ in range(LATENCY_BUCKETS))
# Of the numbers of an op, those that its histograms tell about, and those that do not add up.
_COUNT, _BYTES_TOTAL, _LATENCY_NS, _QUEUED, _STARTED = 0, 1, 3, 5, 6
_MAXIMA = (7, 8)
Cells = dict[int, dict[int, int]]  # histogram -> cell -> increment


@dataclass(slots=True)
class Numbers:
    """What changed of a vector of numbers: increments, and values set, by position."""

    older: Sequence[Value]
    incs: dict[int, int]
    sets: dict[int, Value]


def by_place(gaps: Sequence[int], values: Sequence[_T]) -> dict[int, _T]:
    """Gaps and values as a mapping.

    Raises:
        RecordError: There are more of one than of the other.
    """
    if len(gaps) != len(values):
        refuse("as many gaps as changes are needed")
    return dict(zip(places_of(gaps), values, strict=True))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next one begins.

    Raises:
        IndexError: It is cut off, or too long.
    """
    number = 0
    for shift in range(0, _MAX_VARINT_BITS, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError


def unpack_cells(common: bytes, rest: bytes, starts: Sequence[int]) -> Cells:
    """Increments of histograms that begin there.

    Raises:
        RecordError: A position beyond the last histogram, or bytes that are missing.
    """
    gaps, incs = list(common.translate(_GAPS)), list(common.translate(_INCS))
    next_at = 0
    try:
        for at in compress(count(), common.translate(_IS_LONG)):
            if gaps[at] == _LONG_GAP:
                gap, next_at = _varint(rest, next_at)
                gaps[at] += gap
            if not incs[at]:
                inc, next_at = _varint(rest, next_at)
                incs[at] = -((inc + 1) >> 1) if inc & 1 else inc >> 1
    except IndexError:
        refuse("histogram cells that are cut off")
    places = places_of(gaps)
    if places and places[-1] >= starts[-1]:
        refuse(f"no histogram cell {places[-1]}")
    found: Cells = {}
    for place, inc in zip(places, incs, strict=True):
        number = bisect_right(starts, place) - 1
        found.setdefault(number, {})[place - starts[number]] = inc
    return found


@dataclass(frozen=True, slots=True)
class _Op:
    """Where an op lies: its first number, its histograms; None where it has none."""

    at: int
    latency: int | None
    size_lat: int | None


@dataclass(slots=True)
class _Layer:
    own: dict[bytes, _Op] = field(default_factory=dict)
    parts: list[dict[bytes, _Op]] = field(default_factory=list)


class _Pair(NamedTuple):
    """An op with both histograms, and the one by size of the layer's own op of its name."""

    at: int
    latency: int
    size_lat: int
    own: int


class Folding:
    """Puts back into a sample's increments what follows from others.

    Args:
        shapes: Of each layer.
        begins: Where the numbers of each layer begin.
        members: Of each layer, the parts that add up to the layer's own ops; None: all.
    """

    def __init__(
        self,
        shapes: Sequence[LayerShape],
        begins: Sequence[int],
        members: Sequence[frozenset[int] | None],
    ) -> None:
        self._whole_of: dict[int, int] = {}  # number of a part -> number of the whole
        self._whole_hist: dict[int, int] = {}
        pairs: list[_Pair] = []
        hists = 0
        for shape, begin, chosen in zip(shapes, begins, members, strict=True):
            layer, at = _Layer(), begin
            if shape.reason is None:
                layer.own, at, hists = _ops(shape.ops, at, hists)
                for _, ops in shape.parts:
                    part, at, hists = _ops(ops, at, hists)
                    layer.parts.append(part)
            pairs += _pairs(layer)
            joined = range(len(layer.parts)) if chosen is None else chosen
            if max(joined, default=-1) >= len(layer.parts):
                refuse("no such parts of a layer")
            for number in sorted(joined):
                self._join(layer, layer.parts[number], is_only=len(joined) == 1)
        wholes = set(self._whole_hist.values())
        self._pairs = [pair for pair in pairs if pair.size_lat not in wholes]

    def _join(self, layer: _Layer, part: Mapping[bytes, _Op], *, is_only: bool) -> None:
        for name, op in part.items():
            own = layer.own.get(name)
            if own is None:
                continue
            for at in range(OP_NUMBERS):
                if is_only or at not in _MAXIMA:
                    self._whole_of[op.at + at] = own.at + at
            if op.latency is not None and own.latency is not None:
                self._whole_hist[op.latency] = own.latency
            if op.size_lat is not None and own.size_lat is not None:
                self._whole_hist[op.size_lat] = own.size_lat

    def unfold(self, numbers: Numbers, cells: Cells, hists: Sequence[Sequence[int]]) -> None:
        """Put back, in place, what is not stored.

        Args:
            numbers: Increments of plain numbers.
            cells: Increments of each histogram by cell.
            hists: The histograms before.
        """
        self._add_sizes(cells, hists)
        self._add_sums(numbers, cells)
        self._add_parts(numbers, cells)

    def _add_sizes(self, cells: Cells, hists: Sequence[Sequence[int]]) -> None:
        """In each column, what the most frequent size so far has."""
        for _, latency, size_lat, own in self._pairs:
            if latency not in cells and size_lat not in cells:
                continue
            found = cells.setdefault(size_lat, {})
            excess: dict[int, int] = {}
            for at, inc in cells.get(latency, {}).items():
                excess[_COLUMN[at]] = excess.get(_COLUMN[at], 0) + inc
            for at, inc in found.items():
                excess[at % LATENCY_BUCKETS] = excess.get(at % LATENCY_BUCKETS, 0) - inc
            for column, left in excess.items():
                counts = hists[own][column::LATENCY_BUCKETS]
                usual = counts.index(max(counts)) * LATENCY_BUCKETS + column
                _put(found, usual, 2 * found.get(usual, 0) + left)

    def _add_sums(self, numbers: Numbers, cells: Cells) -> None:
        """Add to an op's sums what follows from its histograms' increments."""
        older = numbers.older
        for first, latency, size_lat, _ in self._pairs:
            by_time, by_size = cells.get(latency), cells.get(size_lat)
            if not by_time or not by_size:
                continue
            ops = sum(by_time.values())
            told = {
                _COUNT: ops,
                _BYTES_TOTAL: sum(map(mul, map(_BYTES.__getitem__, by_size), by_size.values())),
                _LATENCY_NS: sum(map(mul, map(_NS.__getitem__, by_time), by_time.values())),
            }
            told |= {at: ops for at in (_QUEUED, _STARTED) if older[first + at]}
            for number, inc in told.items():
                at = first + number
                if type(older[at]) is int and at not in numbers.sets:
                    _put(numbers.incs, at, numbers.incs.get(at, 0) + inc)

    def _add_parts(self, numbers: Numbers, cells: Cells) -> None:
        """Add the increments of parts to those of the whole."""
        incs = numbers.incs
        for at in [at for at in incs if at in self._whole_of]:
            whole = self._whole_of[at]
            if type(numbers.older[whole]) is int and whole not in numbers.sets:
                _put(incs, whole, incs.get(whole, 0) + incs[at])
        for hist in [hist for hist in cells if hist in self._whole_hist]:
            whole_cells = cells.setdefault(self._whole_hist[hist], {})
            for at, inc in cells[hist].items():
                _put(whole_cells, at, whole_cells.get(at, 0) + inc)


def _ops(shapes: Iterable[OpShape], at: int, hists: int) -> tuple[dict[bytes, _Op], int, int]:
    found = {}
    for shape in shapes:
        latency = hists if shape.latency == 2 else None
        hists += shape.latency == 2
        size_lat = hists if shape.size_lat == 2 else None
        hists += shape.size_lat == 2
        found[shape.name] = _Op(at, latency, size_lat)
        at += OP_NUMBERS
    return found, at, hists


def _pairs(layer: _Layer) -> Iterable[_Pair]:
    for ops in (layer.own, *layer.parts):
        for name, op in ops.items():
            own = layer.own.get(name)
            size_lat = own.size_lat if own is not None else None
            if op.latency is not None and op.size_lat is not None and size_lat is not None:
                yield _Pair(op.at, op.latency, op.size_lat, size_lat)


def starts_of(hists: Iterable[Sequence[object]]) -> list[int]:
    """Where each histogram begins when all lie end to end, and where the last one ends."""
    return [0, *accumulate(map(len, hists))]


def _put(incs: dict[int, int], at: int, inc: int) -> None:
    if inc:
        incs[at] = inc
    else:
        incs.pop(at, None)
