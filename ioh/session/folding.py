"""Increments that follow from others are not stored: a whole from its parts, sizes from times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import mul
from typing import NamedTuple

from ioh.model.hist import (
    FINE_EDGES_US,
    LATENCY_BUCKETS,
    LATENCY_EDGES_US,
    SIZE_EDGES_BYTES,
    UNITS_PER_US,
)
from ioh.session.cells import Cells, Numbers
from ioh.session.records import LayerShape, OpShape, RecordError

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
_COLUMN_OF_CELL = tuple(range(LATENCY_BUCKETS)) * len(_SIZES)
# Of the numbers of an op, those that its histograms tell about.
_COUNT, _BYTES_TOTAL, _LATENCY_NS, _QUEUED, _STARTED = 0, 1, 3, 5, 6
_MAXIMA = (7, 8)  # of the numbers of an op: the only ones that do not add up
OP_NUMBERS = 11
# The parts that add up to the whole are looked for anew when more than this share does not.
_MISFIT_SHARE = 0.1
Increments = dict[tuple[bytes, int], int]  # by op and cell; cell -1: all of them
# Of a histogram by size and each column of it, the cell of the size that was most frequent so far.
Usual = dict[int, dict[int, int]]
Members = list[frozenset[int]]  # of each layer, the parts whose sum is the layer's own ops


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
    """An op with both histograms.

    Shape:
        ``at`` its first number; its histograms; ``own`` that by size of the layer's own op of
        this name, itself or not.
    """

    at: int
    latency: int
    size_lat: int
    own: int


class Layout:
    """What lies where in the numbers and histograms of a sample, all layers end to end.

    Args:
        shapes: Of each layer.
        sizes: How many numbers each layer has.
        begin: How many numbers come before those of the first layer.
    """

    def __init__(self, shapes: Sequence[LayerShape], sizes: Sequence[int], begin: int) -> None:
        self.layers: list[_Layer] = []
        self.pairs: list[_Pair] = []
        hists = 0
        for shape, size in zip(shapes, sizes, strict=True):
            layer, at = _Layer(), begin
            if shape.reason is None:
                layer.own, at, hists = _ops(shape.ops, at, hists)
                for _, ops in shape.parts:
                    part, at, hists = _ops(ops, at, hists)
                    layer.parts.append(part)
            self.layers.append(layer)
            self._note_pairs(layer)
            begin += size

    def _note_pairs(self, layer: _Layer) -> None:
        for ops in (layer.own, *layer.parts):
            for name, op in ops.items():
                own = layer.own.get(name)
                size_lat = own.size_lat if own is not None else None
                if op.latency is not None and op.size_lat is not None and size_lat is not None:
                    self.pairs.append(_Pair(op.at, op.latency, op.size_lat, size_lat))

    def everyone(self) -> Members:
        """All parts of each layer."""
        return [frozenset(range(len(layer.parts))) for layer in self.layers]


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


def fitting_members(
    layout: Layout, members: Members, incs: dict[int, int], cells: Cells
) -> Members:
    """``members``, or where they do not add up, those that do so best.

    Args:
        layout: Where everything lies.
        members: Those so far.
        incs: Increments of numbers by position.
        cells: Increments of each histogram by cell.
    """
    found = list(members)
    for number, layer in enumerate(layout.layers):
        if not layer.parts:
            continue
        wholes = {name: incs.get(op.at, 0) for name, op in layer.own.items()}
        left = dict(wholes)
        for part in members[number]:
            for name, op in layer.parts[part].items():
                if name in left:
                    left[name] -= incs.get(op.at, 0)
        if sum(map(abs, left.values())) > _MISFIT_SHARE * sum(map(abs, wholes.values())):
            found[number] = _best_members(layer, members[number], incs, cells)
    return found


def _best_members(
    layer: _Layer, members: frozenset[int], incs: dict[int, int], cells: Cells
) -> frozenset[int]:
    """Members by the latencies of their operations: equal counts alone may be chance."""

    def increments(ops: dict[bytes, _Op]) -> Increments:
        found: Increments = {}
        for name, op in ops.items():
            if name in layer.own:
                by_time = cells.get(op.latency, {}) if op.latency is not None else {}
                found |= {(name, at): inc for at, inc in by_time.items()}
                found[name, -1] = incs.get(op.at, 0)
        return found

    left, parts = increments(layer.own), [increments(part) for part in layer.parts]

    def toggle(part: int, sign: int) -> None:
        for key, inc in parts[part].items():
            left[key] = left.get(key, 0) + sign * inc

    def gain(part: int, sign: int) -> int:
        pairs = ((left.get(key, 0), inc) for key, inc in parts[part].items())
        return sum(abs(rest) - abs(rest + sign * inc) for rest, inc in pairs)

    chosen = set(members)
    for part in chosen:
        toggle(part, -1)
    for _ in parts:
        gains = [gain(part, 1 if part in chosen else -1) for part in range(len(parts))]
        best = max(range(len(parts)), key=gains.__getitem__)
        if gains[best] <= 0:
            break
        toggle(best, 1 if best in chosen else -1)
        chosen ^= {best}
    return frozenset(chosen)


class Folding:
    """Takes out of a sample's increments what others tell, and puts it back.

    Args:
        layout: Where everything lies.
        members: See Members.
    """

    def __init__(self, layout: Layout, members: Members) -> None:
        self.layout, self.members = layout, members
        self._whole_of: dict[int, int] = {}  # number of a part -> number of the whole
        self._whole_hist: dict[int, int] = {}
        for layer, chosen in zip(layout.layers, members, strict=True):
            for at in sorted(chosen):
                self._join(layer, layer.parts[at], is_only=len(chosen) == 1)
        wholes = set(self._whole_hist.values())
        self._pairs = [pair for pair in layout.pairs if pair.size_lat not in wholes]

    def reshaped(self, layout: Layout, layers: Sequence[int]) -> Folding:
        """The same where these layers have another shape: all their parts are members."""
        members = layout.everyone()
        for at, chosen in enumerate(self.members):
            if at not in layers:
                members[at] = chosen
        return Folding(layout, members)

    def with_members(self, changes: Sequence[tuple[int, Sequence[int]]]) -> Folding:
        """The same with other members in some layers.

        Raises:
            RecordError: There is no such layer, or no such part.
        """
        members = list(self.members)
        for at, parts in changes:
            if at >= len(members) or max(parts, default=-1) >= len(self.layout.layers[at].parts):
                msg = f"no such parts of layer {at}"
                raise RecordError(msg)
            members[at] = frozenset(parts)
        return Folding(self.layout, members)

    def _join(self, layer: _Layer, part: dict[bytes, _Op], *, is_only: bool) -> None:
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

    def fold(self, numbers: Numbers, cells: Cells, hists: Sequence[Sequence[int]]) -> None:
        """Leave, in place, only what a reader cannot tell from the rest.

        Args:
            numbers: Increments of plain numbers.
            cells: Increments of each histogram by cell.
            hists: The histograms before.
        """
        self._add_parts(numbers, cells, -1)
        self._add_sums(numbers, cells, -1)
        for found, usual_of, excess in self._columns(cells, hists, {}):
            for column, left in excess.items():
                _put(found, usual_of[column], -left)

    def unfold(
        self, numbers: Numbers, cells: Cells, hists: Sequence[Sequence[int]], known: Usual
    ) -> None:
        """The reverse of fold().

        Args:
            numbers: As there.
            cells: As there.
            hists: As there.
            known: What is known of them already; what is found out is added.  See note_usual().
        """
        for found, usual_of, excess in self._columns(cells, hists, known):
            for column, left in excess.items():
                usual = usual_of[column]
                inc = 2 * found.get(usual, 0) + left
                if inc:
                    found[usual] = inc
                else:
                    found.pop(usual, None)
        self._add_sums(numbers, cells, 1)
        self._add_parts(numbers, cells, 1)

    def _add_parts(self, numbers: Numbers, cells: Cells, sign: int) -> None:
        """Add the increments of parts to those of the whole, or take them away."""
        whole_of, incs = self._whole_of, numbers.incs
        for at in [at for at in incs if at in whole_of]:
            whole = whole_of[at]
            if type(numbers.older[whole]) is int and whole not in numbers.sets:
                _put(incs, whole, incs.get(whole, 0) + sign * incs[at])
        for hist in [hist for hist in cells if hist in self._whole_hist]:
            whole, part_cells = self._whole_hist[hist], cells[hist]
            whole_cells = cells.get(whole)
            if whole_cells is None and sign > 0:
                cells[whole] = dict(part_cells)
            elif whole_cells == part_cells and sign < 0:
                del cells[whole]
            else:
                whole_cells = cells.setdefault(whole, {})
                for at, inc in part_cells.items():
                    _put(whole_cells, at, whole_cells.get(at, 0) + sign * inc)

    def _add_sums(self, numbers: Numbers, cells: Cells, sign: int) -> None:
        """Add to an op's sums what its histograms' increments tell of them, or take it away."""
        older, incs, sets = numbers.older, numbers.incs, numbers.sets
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
                if type(older[at]) is int and at not in sets:
                    _put(incs, at, incs.get(at, 0) + sign * inc)

    def _columns(
        self, cells: Cells, hists: Sequence[Sequence[int]], known: Usual
    ) -> Iterator[tuple[dict[int, int], dict[int, int], dict[int, int]]]:
        """Size x latency histograms in which something changed.

        Returns:
            The histogram's increments; of each column that changed the cell of the size that was
            most frequent so far; and its increments by the latency histogram, less those by this
            one.
        """
        for _, latency, size_lat, own in self._pairs:
            if latency not in cells and size_lat not in cells:
                continue
            found, by_time = cells.setdefault(size_lat, {}), cells.get(latency, {})
            excess: dict[int, int] = {}
            for at, inc in by_time.items():
                column = _COLUMN[at]
                excess[column] = excess.get(column, 0) + inc
            for at, inc in found.items():
                column = _COLUMN_OF_CELL[at]
                excess[column] = excess.get(column, 0) - inc
            before, usual_of = hists[own], known.setdefault(own, {})
            for column in excess.keys() - usual_of.keys():
                counts = before[column::LATENCY_BUCKETS]
                usual_of[column] = counts.index(max(counts)) * LATENCY_BUCKETS + column
            yield found, usual_of, excess


def note_usual(known: Usual, cells: Cells, hists: Sequence[Sequence[int]]) -> None:
    """Keep what is known true after changes: the first one of the largest counts of a column.

    Args:
        known: Changed in place.
        cells: Increments of each histogram by cell.
        hists: The histograms after them.
    """
    for number in cells.keys() & known.keys():
        usual_of, hist, incs = known[number], hists[number], cells[number]
        for at, inc in incs.items():
            usual = usual_of.get(_COLUMN_OF_CELL[at])
            if usual is None:
                continue
            if inc < 0:  # any other one of the column may be the largest now
                del usual_of[_COLUMN_OF_CELL[at]]
            elif (hist[at], usual) > (hist[usual], at):
                usual_of[_COLUMN_OF_CELL[at]] = at


def _put(incs: dict[int, int], at: int, inc: int) -> None:
    if inc:
        incs[at] = inc
    else:
        incs.pop(at, None)
