"""A sample of format 1 while it is being read back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ioh.model.metric import LayerSpec
from ioh.model.sample import Sample, Value
from ioh.session.decoder import Decoder, owners_of, rest_of
from ioh.session.records import (
    HOST_NUMBERS,
    MAX_CELLS,
    MAX_ROWS,
    OP_NUMBERS,
    LayerShape,
    SampleRecord,
    Start,
    decode_plain,
    hist_sizes,
    places_of,
    refuse,
    to_bytes,
    to_text,
)
from ioh.session.v1.folding import by_place, starts_of, unfold, unpack_cells
from ioh.session.v1.records import Changes, Delta, Full, Rows


class _Layer:
    """A layer's shape and numbers, its histograms apart.

    Shape:
        ``members``: the parts that add up to the layer's own ops; None: all.
    """

    def __init__(self, shape: LayerShape) -> None:
        self.shape = shape
        self.ops = [op for ops in owners_of(shape) for op in ops]
        sizes = [size for op in self.ops for size in hist_sizes(op) if size]
        if sum(sizes) > MAX_CELLS:
            refuse("more numbers than any sample has")
        self.values: list[Value] = [0] * (OP_NUMBERS * len(self.ops) + rest_of(shape))
        self.hists = [[0] * size for size in sizes]
        self.members: list[int] | None = None
        self.size = len(self.values) + sum(sizes)

    def laid_out(self) -> list[Value]:
        """Its numbers as format 2 has them: each op's histograms behind it."""
        hists, found, at = iter(self.hists), list[Value](), 0
        for op in self.ops:
            found += self.values[at : at + OP_NUMBERS]
            at += OP_NUMBERS
            for _ in filter(None, hist_sizes(op)):
                found += next(hists)
        return [*found, *self.values[at:]]


class State:
    """Everything that the records so far hold.

    Args:
        specs: Of the layers.
        plain: A whole sample.

    Raises:
        RecordError: It is none.
    """

    def __init__(self, specs: Mapping[str, LayerSpec], plain: bytes) -> None:
        full = decode_plain(plain, Full)
        self._specs = dict(specs)
        self._host: list[Value] = [0] * HOST_NUMBERS
        self._layers: list[_Layer] = []
        self._tables: list[dict[tuple[str, ...], list[Value]]] = [{} for _ in full.tables]
        tables = [(at, name) for at, name, _, _ in full.tables]
        self._start = Start(full.hostname, full.kernel, tables)
        self._mono_ns = full.mono_ns
        for at, shape in enumerate(full.layers):
            self._take_layer(at, shape)
        self._apply(full.changes, full.rows, full.read_after)

    def take_delta(self, plain: bytes) -> None:
        """Go on by a delta.

        Raises:
            RecordError: It is none.
        """
        delta = decode_plain(plain, Delta)
        for at, shape in delta.reshaped:
            if at >= len(self._layers) or self._layers[at].shape.name != shape.name:
                refuse(f"no layer {at}")
            self._take_layer(at, shape)
        self._mono_ns += delta.mono_ns
        self._apply(delta.changes, delta.rows, delta.read_after)

    def _take_layer(self, at: int, shape: LayerShape) -> None:
        self._layers[at : at + 1] = [_Layer(shape)]
        if sum(layer.size for layer in self._layers) > MAX_CELLS:
            refuse("more numbers than any sample has")

    def _apply(self, changes: Changes, rows: Rows, read_after: list[int]) -> None:
        for at, parts in changes.members:
            if at >= len(self._layers):
                refuse(f"no layer {at}")
            self._layers[at].members = parts
        vectors = [self._host, *(layer.values for layer in self._layers)]
        flat = [value for values in vectors for value in values]
        hists = [hist for layer in self._layers for hist in layer.hists]
        incs = by_place(changes.gaps, changes.incs)
        sets = by_place(changes.set_gaps, changes.sets)
        cells = unpack_cells(changes.cells, changes.more_cells, starts_of(hists))
        if changes.is_folded:
            shapes = [(layer.shape, layer.members) for layer in self._layers]
            # Of what is set, or is no integer, nothing was folded.
            ints = {at for at, value in enumerate(flat) if type(value) is int} - sets.keys()
            unfold(shapes, {at: flat[at] for at in ints}, incs, cells, hists)
        _change(flat, incs, sets)
        for values, (begin, end) in zip(vectors, pairwise(starts_of(vectors)), strict=True):
            values[:] = flat[begin:end]
        for number, cell_incs in cells.items():
            for at, inc in cell_incs.items():
                hists[number][at] += inc
        self._take_rows(rows)
        self._read_after = read_after

    def _take_rows(self, rows: Rows) -> None:
        """Positions of values and rows run over all tables, as they were before."""
        every = [(table, key) for table in self._tables for key in table]
        vectors = [table[key] for table, key in every]
        flat = [value for values in vectors for value in values]
        _change(flat, by_place(rows.gaps, rows.incs), by_place(rows.set_gaps, rows.sets))
        for values, (begin, end) in zip(vectors, pairwise(starts_of(vectors)), strict=True):
            values[:] = flat[begin:end]
        try:
            for number in places_of(rows.removed):
                table, key = every[number]
                del table[key]
            for number, names, values in rows.added:
                self._tables[number][tuple(map(to_text, names))] = values
        except (IndexError, KeyError):
            refuse("no such row, or no such table")
        if sum(map(len, self._tables)) > 4 * MAX_ROWS:
            refuse("too many rows")

    @property
    def work(self) -> int:
        """What a sample costs, as Decoder.work: here all of it is built each time."""
        return sum(layer.size for layer in self._layers) // 32 + sum(map(len, self._tables))

    def sample(self, time_unix_s: float) -> Sample:
        """The sample of the last record taken, by way of a whole one of format 2.

        Raises:
            RecordError: It makes no sense.
        """
        rows = [(at, key) for at, table in enumerate(self._tables) for key in table][:MAX_ROWS]
        values = [*self._host]
        for layer in self._layers:
            values += layer.laid_out()
        for at, key in rows:
            values += self._tables[at][key]
        decoder = Decoder()
        decoder.specs = self._specs
        record = SampleRecord(
            self._mono_ns,
            [(at, layer.shape) for at, layer in enumerate(self._layers)],
            added=[(at, list(map(to_bytes, key))) for at, key in rows],
            set_gaps=[0] * len(values),
            sets=values,
            read_after=self._read_after,
            start=self._start,
        )
        if decoder.take(record, time_unix_s) != len(values) - HOST_NUMBERS:
            refuse("rows that fit no table")
        return decoder.sample()


def _change(values: list[Value], incs: Mapping[int, int], sets: Mapping[int, Value]) -> None:
    at = -1
    try:
        for at, inc in incs.items():
            values[at] += inc  # type: ignore[operator]
        for at, value in sets.items():
            values[at] = value
    except (IndexError, TypeError):
        refuse(f"no integer at position {at}")
