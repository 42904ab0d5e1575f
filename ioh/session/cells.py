"""Sparse differences between two vectors of numbers, and their application."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, count
from operator import add, ne
from typing import TypeVar

from ioh.model.sample import Value
from ioh.session.records import RecordError

_T = TypeVar("_T")
# A byte of common cells is a gap of 0, 1 or 2 (longer: 2 and the rest elsewhere), times 85, and
# an increment of 1 to 84 (any other: 0, and elsewhere).
_LONG_GAP, _MAX_SHORT_INC = 2, 84
_GAPS = bytes(byte // (_MAX_SHORT_INC + 1) for byte in range(256))
_INCS = bytes(byte % (_MAX_SHORT_INC + 1) for byte in range(256))
_IS_LONG = bytes(gap == _LONG_GAP or not inc for gap, inc in zip(_GAPS, _INCS, strict=True))
_MAX_VARINT_BITS = 77
MIN_INC, MAX_INC = -(1 << 63), (1 << 64) - 1
Counts = tuple[int, ...]
Cells = dict[int, dict[int, int]]  # histogram -> cell -> increment


@dataclass(slots=True)
class Numbers:
    """What changed of a vector of numbers.

    Shape:
        ``older`` all of them before; ``incs`` increments of integers by position; ``sets``
        values of whatever else changed.
    """

    older: Sequence[Value]
    incs: dict[int, int] = field(default_factory=dict)
    sets: dict[int, Value] = field(default_factory=dict)


def diff_values(older: Sequence[Value], newer: Sequence[Value]) -> Numbers:
    """What changed between two vectors of one length."""
    found = Numbers(older)
    for at, (a, b) in enumerate(zip(older, newer, strict=True)):
        if a is b or (a == b and type(a) is type(b)):
            continue
        if isinstance(a, int) and isinstance(b, int) and MIN_INC <= b - a <= MAX_INC:
            found.incs[at] = b - a
        else:
            found.sets[at] = b
    return found


def apply_values(values: list[Value], numbers: Numbers) -> None:
    """Change ``values`` in place.

    Raises:
        RecordError: A position beyond the end, or an increment of what is no integer.
    """
    at = -1
    try:
        for at, inc in numbers.incs.items():
            values[at] += inc  # type: ignore[operator]
        for at, value in numbers.sets.items():
            values[at] = value
    except (IndexError, TypeError):
        msg = f"no integer at position {at}"
        raise RecordError(msg) from None


def diff_cells(older: Sequence[Counts], newer: Sequence[Counts]) -> Cells:
    """What changed of histograms."""
    found: Cells = {}
    for number, (a, b) in enumerate(zip(older, newer, strict=True)):
        if a is not b and a != b:
            found[number] = {at: b[at] - a[at] for at in compress(count(), map(ne, a, b))}
    return found


def apply_cells(hists: list[list[int]], cells: Cells, unwanted: Container[int] = ()) -> None:
    """Change ``hists`` in place, but for those that nobody will look at."""
    for number, incs in cells.items():
        if number not in unwanted:
            hist = hists[number]
            for at, inc in incs.items():
                hist[at] += inc


def gaps_of(places: Iterable[int]) -> list[int]:
    """How many places are passed over before each of these, which rise."""
    found, after = [], 0
    for place in places:
        found.append(place - after)
        after = place + 1
    return found


def places_of(gaps: Sequence[int]) -> list[int]:
    """The reverse of gaps_of()."""
    return list(map(add, accumulate(gaps), count()))


def by_place(gaps: Sequence[int], values: Sequence[_T]) -> dict[int, _T]:
    """Gaps and values as a mapping.

    Raises:
        RecordError: There are more of one than of the other.
    """
    if len(gaps) != len(values):
        msg = "as many gaps as changes are needed"
        raise RecordError(msg)
    return dict(zip(places_of(gaps), values, strict=True))


def pack_cells(cells: Cells, hists: Sequence[Counts]) -> tuple[bytes, bytes]:
    """Increments as one byte each, and what does not fit there; see the README's appendix."""
    starts = starts_of(hists)
    common, rest = bytearray(), bytearray()
    after = 0
    for number in sorted(cells):
        start, incs = starts[number], cells[number]
        for at in sorted(incs):
            gap, inc = start + at - after, incs[at]
            after = start + at + 1
            short_gap = min(gap, _LONG_GAP)
            short_inc = inc if 0 < inc <= _MAX_SHORT_INC else 0
            common.append(short_gap * (_MAX_SHORT_INC + 1) + short_inc)
            if short_gap == _LONG_GAP:
                _add_varint(rest, gap - _LONG_GAP)
            if not short_inc:
                _add_varint(rest, inc << 1 if inc >= 0 else (-inc << 1) - 1)
    return bytes(common), bytes(rest)


def _add_varint(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(0x80 | number & 0x7F)
        number >>= 7
    data.append(number)


def _long_varint(data: bytes, at: int, number: int) -> tuple[int, int]:
    """A number of several bytes, of which the first one is known; and where the next begins.

    Raises:
        IndexError: It is cut off, or too long.
    """
    byte = data[at]
    if byte < 0x80:  # as most are
        return number & 0x7F | byte << 7, at + 1
    number &= 0x7F
    for shift in range(7, _MAX_VARINT_BITS, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError


def starts_of(hists: Iterable[Sequence[int]]) -> list[int]:
    """Where each histogram begins when all lie end to end, and where the last one ends."""
    return [0, *accumulate(map(len, hists))]


def unpack_cells(common: bytes, rest: bytes, starts: Sequence[int]) -> Cells:
    """The reverse of pack_cells(), for histograms that begin there; see starts_of().

    Raises:
        RecordError: A position beyond the last histogram, or bytes that are missing.
    """
    gaps, incs = list(common.translate(_GAPS)), list(common.translate(_INCS))
    next_at = 0
    try:
        for at in compress(count(), common.translate(_IS_LONG)):
            if gaps[at] == _LONG_GAP:
                gap = rest[next_at]
                next_at += 1
                if gap > 0x7F:
                    gap, next_at = _long_varint(rest, next_at, gap)
                gaps[at] += gap
            if not incs[at]:
                inc = rest[next_at]
                next_at += 1
                if inc > 0x7F:
                    inc, next_at = _long_varint(rest, next_at, inc)
                incs[at] = -((inc + 1) >> 1) if inc & 1 else inc >> 1
    except IndexError:
        msg = "histogram cells that are cut off"
        raise RecordError(msg) from None
    places = places_of(gaps)
    if places and places[-1] >= starts[-1]:
        msg = f"no histogram cell {places[-1]}"
        raise RecordError(msg)
    found: Cells = {}
    at = 0
    while at < len(places):
        number = bisect_right(starts, places[at]) - 1
        end, start = bisect_left(places, starts[number + 1], at), starts[number]
        mine = [place - start for place in places[at:end]]
        found[number] = dict(zip(mine, incs[at:end], strict=True))
        at = end
    return found
