"""A sample of format 1 while it is being read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Raw

from ioh.model.metric import LayerSpec
from ioh.model.sample import Sample, Value
from ioh.session.decoder import Decoder, rest_of
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
from ioh.session.v1.folding import Folding, Numbers, by_place, starts_of, unpack_cells
from ioh.session.v1.records import Changes, Delta, Full, Moment, Rows, TableShape

Key = tuple[str, ...]


class _Layer:
    """A layer's shape, and how many numbers it has, its histograms apart."""

    def __init__(self, shape: LayerShape) -> None:
        if shape.reason is not None:
            hint, is_idle = shape.hint, shape.is_idle
            shape = LayerShape(shape.name, shape.source, shape.reason, hint, is_idle=is_idle)
        self.shape, self.name = shape, to_text(shape.name)
        self.ops = [*shape.ops, *(op for _, ops in shape.parts for op in ops)]
        self.hists = [size for op in self.ops for size in hist_sizes(op) if size]
        self.numbers = OP_NUMBERS * len(self.ops) + rest_of(shape)


class State:
    """Everything that the records so far hold.

    Args:
        specs: Of the layers.
    """

    def __init__(self, specs: Mapping[str, LayerSpec]) -> None:
        self._specs = dict(specs)
        self._layers: list[_Layer] = []
        self._values: list[list[Value]] = [[0] * HOST_NUMBERS]  # of the host, of each layer
        self._hists: list[list[list[int]]] = []  # of each layer
        self._members: list[frozenset[int] | None] = []
        self._shapes: list[TableShape] = []
        self._tables: list[dict[Key, list[Value]]] = []
        self._names = (b"", b"")
        self._mono_ns = 0
        self._read_after: list[int] = []
        self.moment = Moment(-1, 0.0)

    def take_full(self, moment: Moment, plain: bytes) -> None:
        """Start from a whole sample.

        Raises:
            RecordError: It is none.
        """
        full = decode_plain(plain, Full)
        for at, shape in enumerate(full.layers):
            self._take_layer(at, shape)
        names = [layer.name for layer in self._layers]
        if len(set(names)) != len(names) or not set(names) <= set(self._specs):
            refuse("a layer that comes twice, or without its description")
        self._check_tables(full.tables)
        self._shapes, self._tables = full.tables, [{} for _ in full.tables]
        self._names = (full.hostname, full.kernel)
        self._mono_ns = full.mono_ns
        self._apply(moment, full.changes, full.rows, full.read_after)

    def take_delta(self, moment: Moment, plain: bytes) -> None:
        """Go on by a delta.

        Raises:
            RecordError: It is none.
        """
        delta = decode_plain(plain, Delta)
        for at, shape in delta.reshaped:
            if at >= len(self._layers) or self._layers[at].shape.name != shape.name:
                refuse(f"no layer {at}")
            self._take_layer(at, shape)
        self._mono_ns += delta.mono_inc_ns
        self._apply(moment, delta.changes, delta.rows, delta.read_after)

    def _take_layer(self, at: int, shape: LayerShape) -> None:
        layer = _Layer(shape)
        others = [other for number, other in enumerate(self._layers) if number != at]
        every = [layer, *others]
        cells = sum(each.numbers + sum(each.hists) for each in every)
        if cells > MAX_CELLS:
            refuse("more numbers than any sample has")
        self._layers[at : at + 1] = [layer]
        self._values[at + 1 : at + 2] = [[0] * layer.numbers]
        self._hists[at : at + 1] = [[[0] * size for size in layer.hists]]
        self._members[at : at + 1] = [None]

    def _check_tables(self, shapes: Sequence[TableShape]) -> None:
        seen: set[tuple[int, bytes]] = set()
        for shape in shapes:
            found: Mapping[str, tuple[int, int]] = {}
            if shape.layer < len(self._layers) and (shape.layer, shape.name) not in seen:
                spec = self._specs[self._layers[shape.layer].name]
                found = {t.name: (len(t.keys), len(t.raw_columns)) for t in spec.tables}
            if found.get(to_text(shape.name)) != (shape.keys, shape.columns):
                refuse("a table that is not its layer's")
            seen.add((shape.layer, shape.name))

    def _apply(self, moment: Moment, changes: Changes, rows: Raw, read_after: list[int]) -> None:
        for at, parts in changes.members:
            if at >= len(self._members):
                refuse(f"no layer {at}")
            self._members[at] = frozenset(parts)
        begins = starts_of(self._values)
        flat = [value for values in self._values for value in values]
        hists = [hist for layer in self._hists for hist in layer]
        numbers = Numbers(
            flat,
            by_place(changes.gaps, changes.incs),
            by_place(changes.set_gaps, changes.sets),
        )
        cells = unpack_cells(changes.cells, changes.more_cells, starts_of(hists))
        shapes = [layer.shape for layer in self._layers]
        folding = Folding(shapes, begins[1:-1], self._members)
        if changes.is_folded:
            folding.unfold(numbers, cells, hists)
        self._set(flat, numbers, begins)
        for number, incs in cells.items():
            for at, inc in incs.items():
                hists[number][at] += inc
        self._take_rows(decode_plain(rows, Rows))
        self._read_after, self.moment = read_after, moment

    def _set(self, flat: list[Value], numbers: Numbers, begins: Sequence[int]) -> None:
        at = -1
        try:
            for at, inc in numbers.incs.items():
                flat[at] += inc  # type: ignore[operator]
            for at, value in numbers.sets.items():
                flat[at] = value
        except (IndexError, TypeError):
            refuse(f"no integer at position {at}")
        self._values = [flat[begin:end] for begin, end in pairwise(begins)]

    def _take_rows(self, rows: Rows) -> None:
        """Positions of values and rows run over all tables, as they were before."""
        every = [(table, key) for table in self._tables for key in table]
        flat = [value for table, key in every for value in table[key]]
        numbers = Numbers(flat, by_place(rows.gaps, rows.incs), by_place(rows.set_gaps, rows.sets))
        try:
            for at, inc in numbers.incs.items():
                flat[at] += inc  # type: ignore[operator]
            for at, value in numbers.sets.items():
                flat[at] = value
            begin = 0
            for table, key in every:
                end = begin + len(table[key])
                table[key], begin = flat[begin:end], end
            for number in places_of(rows.removed):
                table, key = every[number]
                del table[key]
        except (IndexError, TypeError, KeyError):
            refuse("no such row, or no number in it")
        for number, names, values in rows.added:
            shape = self._shapes[number] if 0 <= number < len(self._shapes) else None
            key = tuple(map(to_text, names))
            if (
                shape is None
                or (len(names), len(values)) != (shape.keys, shape.columns)
                or key in self._tables[number]
            ):
                refuse("a row that fits no table, or comes twice")
            self._tables[number][key] = values
        cells = sum(
            len(t) * (1 + s.columns) for t, s in zip(self._tables, self._shapes, strict=True)
        )
        if cells > MAX_CELLS or sum(map(len, self._tables)) > 4 * MAX_ROWS:
            refuse("too many rows")

    @property
    def work(self) -> int:
        """What a sample costs, as Decoder.work: here all of it is built each time."""
        hists = sum(len(hist) for layer in self._hists for hist in layer)
        return (sum(map(len, self._values)) + hists) // 32 + sum(map(len, self._tables))

    def sample(self) -> Sample:
        """The sample of the last record taken, by way of a whole one of format 2.

        Raises:
            RecordError: It makes no sense.
        """
        tables = [(shape.layer, shape.name) for shape in self._shapes]
        rows = [(at, key) for at, table in enumerate(self._tables) for key in table][:MAX_ROWS]
        values = [*self._values[0]]
        for at in range(len(self._layers)):
            values += self._laid_out(at)
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
            start=Start(*self._names, tables),
        )
        decoder.take(record, self.moment.time_unix_s)
        return decoder.sample()

    def _laid_out(self, number: int) -> list[Value]:
        """A layer's numbers as format 2 has them: each op's histograms behind it."""
        values, hists = self._values[number + 1], iter(self._hists[number])
        found: list[Value] = []
        at = 0
        for op in self._layers[number].ops:
            found += values[at : at + OP_NUMBERS]
            at += OP_NUMBERS
            for _ in range((op.latency == 2) + (op.size_lat == 2)):
                found += next(hists)
        return [*found, *values[at:]]
