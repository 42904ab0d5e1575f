"""Changes of format 1, unpacked and unfolded: what follows from others was not stored."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from ioh.session.decoder import owners_of, rest_of
from ioh.session.records import HOST_NUMBERS, OP_NUMBERS, LayerShape, places_of, refuse

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


class _Op(NamedTuple):
    """Where an op lies: its first number, its histograms; None where it has none."""

    at: int
    latency: int | None
    size_lat: int | None


def _places(shapes: Sequence[LayerShape]) -> list[list[dict[bytes, _Op]]]:
    """Of each layer, where its own ops lie, and those of each part."""
    layers, at, hists = [], HOST_NUMBERS, 0
    for shape in shapes:
        owners: list[dict[bytes, _Op]] = []
        for ops in owners_of(shape):
            owners.append({})
            for op in ops:
                has = op.latency == 2, op.size_lat == 2
                latency, size_lat = hists, hists + has[0]
                owners[-1][op.name] = _Op(
                    at, latency if has[0] else None, size_lat if has[1] else None
                )
                at, hists = at + OP_NUMBERS, hists + sum(has)
        at += rest_of(shape)
        layers.append(owners)
    return layers


def unfold(
    layers: Sequence[tuple[LayerShape, Sequence[int] | None]],
    older: Mapping[int, Value],
    incs: dict[int, int],
    cells: Cells,
    hists: Sequence[Sequence[int]],
) -> None:
    """Put back into a sample's increments, in place, what follows from others.

    Args:
        layers: Each one's shape, and the parts that add up to its own ops; None: all.
        older: The numbers before, of those that may have been folded.
        incs: Increments of plain numbers.
        cells: Increments of each histogram by cell.
        hists: The histograms before.

    Raises:
        RecordError: There are no such parts.
    """
    pairs: list[tuple[_Op, int]] = []  # ops with both histograms; the own op's one by size
    whole_of: dict[int, int] = {}  # number of a part -> number of the whole
    whole_hist: dict[int | None, int | None] = {}
    places = _places([shape for shape, _ in layers])
    for (own, *parts), (_, members) in zip(places, layers, strict=True):
        pairs += _pairs(own, parts)
        joined = set(range(len(parts)) if members is None else members)
        if max(joined, default=-1) >= len(parts):
            refuse("no such parts of a layer")
        summed = [n for n in range(OP_NUMBERS) if len(joined) == 1 or n not in _MAXIMA]
        for name, op in ((name, op) for part in joined for name, op in parts[part].items()):
            if (whole := own.get(name)) is not None:
                whole_of |= {op.at + number: whole.at + number for number in summed}
                hists_of = zip(op[1:], whole[1:], strict=True)
                whole_hist |= {part: mine for part, mine in hists_of if None not in (part, mine)}
    wholes = set(whole_hist.values())
    pairs = [(op, own_sizes) for op, own_sizes in pairs if op.size_lat not in wholes]
    for op, own_sizes in pairs:
        _add_sizes(op, cells, hists[own_sizes])
    for op, _ in pairs:
        _add_sums(op, older, incs, cells)
    _add_parts(whole_of, older, incs)
    for hist in [hist for hist in cells if hist in whole_hist]:
        whole_cells = cells.setdefault(whole_hist[hist] or 0, {})
        for at, inc in cells[hist].items():
            _put(whole_cells, at, whole_cells.get(at, 0) + inc)


def _pairs(
    own: Mapping[bytes, _Op], parts: Iterable[Mapping[bytes, _Op]]
) -> Iterator[tuple[_Op, int]]:
    for name, op in ((name, op) for ops in (own, *parts) for name, op in ops.items()):
        whole = own.get(name)
        if whole is not None and whole.size_lat is not None and None not in op:
            yield op, whole.size_lat


def _add_parts(
    whole_of: Mapping[int, int], older: Mapping[int, Value], incs: dict[int, int]
) -> None:
    for at in [at for at in incs if at in whole_of]:
        if (place := whole_of[at]) in older:
            _put(incs, place, incs.get(place, 0) + incs[at])


def _add_sizes(op: _Op, cells: Cells, own_sizes: Sequence[int]) -> None:
    """In each column, what the most frequent size so far has."""
    latency, size_lat = op.latency, op.size_lat
    if latency is None or size_lat is None or not (latency in cells or size_lat in cells):
        return
    found = cells.setdefault(size_lat, {})
    excess: dict[int, int] = {}
    for at, inc in cells.get(latency, {}).items():
        excess[_COLUMN[at]] = excess.get(_COLUMN[at], 0) + inc
    for at, inc in found.items():
        excess[at % LATENCY_BUCKETS] = excess.get(at % LATENCY_BUCKETS, 0) - inc
    for column, left in excess.items():
        counts = own_sizes[column::LATENCY_BUCKETS]
        usual = counts.index(max(counts)) * LATENCY_BUCKETS + column
        _put(found, usual, 2 * found.get(usual, 0) + left)


def _add_sums(op: _Op, older: Mapping[int, Value], incs: dict[int, int], cells: Cells) -> None:
    """Add to an op's sums what follows from its histograms' increments."""
    by_time, by_size = cells.get(op.latency or 0), cells.get(op.size_lat or 0)
    if not by_time or not by_size:
        return
    ops = sum(by_time.values())
    told = {
        _COUNT: ops,
        _BYTES_TOTAL: sum(map(mul, map(_BYTES.__getitem__, by_size), by_size.values())),
        _LATENCY_NS: sum(map(mul, map(_NS.__getitem__, by_time), by_time.values())),
    }
    told |= {number: ops for number in (_QUEUED, _STARTED) if older.get(op.at + number)}
    for number, inc in told.items():
        at = op.at + number
        if at in older:
            _put(incs, at, incs.get(at, 0) + inc)


def starts_of(vectors: Iterable[Sequence[object]]) -> list[int]:
    """Where each begins when all lie end to end, and where the last one ends."""
    return [0, *accumulate(map(len, vectors))]


def _put(incs: dict[int, int], at: int, inc: int) -> None:
    if inc:
        incs[at] = inc
    else:
        incs.pop(at, None)
