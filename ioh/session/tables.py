"""All tables of a sample as one list of rows, and their changes from sample to sample."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ioh.model.sample import LayerSample, Row, Sample, Table, Value
from ioh.session.cells import (
    Numbers,
    apply_values,
    by_place,
    diff_values,
    gaps_of,
    places_of,
)
from ioh.session.records import MAX_ROWS, RecordError, Rows, TableShape, to_bytes, to_text

# Names of new rows in one record; what is beyond comes with the next one.
_MAX_NEW_NAME_BYTES = 1 << 20
_MAX_NEW_ROWS = 8192
Key = tuple[str, ...]


def table_shapes(sample: Sample) -> list[TableShape]:
    """Every table of the sample, with its layer's position.

    Raises:
        KeyError: A layer without its spec, which is a bug in the source.
    """
    found = []
    for at, (name, layer) in enumerate(sample.layers.items()):
        if not isinstance(layer, LayerSample):
            continue
        specs = {table.name: table for table in sample.specs[name].tables}
        for table in layer.tables:
            if table in specs:
                spec = specs[table]
                shape = TableShape(at, to_bytes(table), len(spec.keys), len(spec.raw_columns))
                found.append(shape)
    return found


def tables_of(sample: Sample, shapes: Sequence[TableShape]) -> list[Table]:
    """The tables in the order of their shapes."""
    layers = list(sample.layers.values())
    found: list[Table] = []
    for shape in shapes:
        layer = layers[shape.layer]
        found.append(layer.tables[to_text(shape.name)] if isinstance(layer, LayerSample) else {})
    return found


class TablesWriter:
    """What a reader of the records so far knows of the tables' rows."""

    def __init__(self, count: int) -> None:
        self._known: list[dict[Key, Row]] = [{} for _ in range(count)]

    def changes(self, tables: Sequence[Table]) -> tuple[Rows, list[dict[Key, Row]]]:
        """The difference to ``tables``, and what a reader will know then; see adopt()."""
        removed: list[int] = []
        older: list[Value] = []
        newer: list[Value] = []
        spans: list[tuple[int, int]] = []  # of changed rows: first value, width
        added: list[tuple[int, list[bytes], list[Value]]] = []
        knowing: list[dict[Key, Row]] = []
        row_at = value_at = after_removed = room = 0
        for number, (known, table) in enumerate(zip(self._known, tables, strict=True)):
            kept: dict[Key, Row] = {}
            for key, before in known.items():
                row = table.get(key)
                if row is None or len(row) != len(before):
                    removed.append(row_at - after_removed)
                    after_removed = row_at + 1
                else:
                    kept[key] = row
                    if row is not before and row != before:
                        older += before
                        newer += row
                        spans.append((value_at, len(row)))
                row_at += 1
                value_at += len(before)
            for key, row in table.items():
                if key not in kept and room < _MAX_NEW_NAME_BYTES and len(added) < _MAX_NEW_ROWS:
                    names = [to_bytes(part) for part in key]
                    room += sum(map(len, names))
                    added.append((number, names, list(row)))
                    kept[key] = row
            knowing.append(kept)
        places = [at + i for at, width in spans for i in range(width)]
        found = diff_values(older, newer)
        rows = Rows(
            removed,
            gaps_of(places[at] for at in found.incs),
            list(found.incs.values()),
            gaps_of(places[at] for at in found.sets),
            list(found.sets.values()),
            added,
        )
        return rows, knowing

    def adopt(self, knowing: list[dict[Key, Row]]) -> None:
        """The record went out."""
        self._known = knowing

    def whole(self) -> Rows:
        """Everything a reader knows, as changes from nothing."""
        return Rows(
            added=[
                (number, [to_bytes(part) for part in key], list(row))
                for number, known in enumerate(self._known)
                for key, row in known.items()
            ]
        )


class TablesState:
    """The tables while they are being read back."""

    def __init__(self, shapes: Sequence[TableShape]) -> None:
        self._shapes = list(shapes)
        self._tables: list[dict[Key, Row]] = [{} for _ in shapes]

    def apply(self, rows: Rows) -> None:
        """Take over a record's changes.

        Raises:
            RecordError: It does not fit the tables.
        """
        if rows.gaps or rows.set_gaps:
            self._change(rows)
        if rows.removed:
            self._remove(rows.removed)
        if rows.added:
            # Tables handed out before must not change.
            for number in {number for number, _, _ in rows.added}:
                if not 0 <= number < len(self._tables):
                    msg = f"no table {number}"
                    raise RecordError(msg)
                self._tables[number] = dict(self._tables[number])
        for number, names, values in rows.added:
            shape = self._shapes[number]
            key = tuple(map(to_text, names))
            if len(key) != shape.keys or len(values) != shape.columns:
                msg = "a row of another width"
                raise RecordError(msg)
            self._tables[number][key] = tuple(values)
        if sum(map(len, self._tables)) > 4 * MAX_ROWS:
            msg = "too many rows"
            raise RecordError(msg)

    def _change(self, rows: Rows) -> None:
        """Rows one after another are one long list of values; only those touched are looked at."""
        incs, sets = by_place(rows.gaps, rows.incs), by_place(rows.set_gaps, rows.sets)
        places = sorted({*incs, *sets})
        spans: list[tuple[int, Key, int]] = []  # table, key, first value of the row
        flat: list[Value] = []
        where: dict[int, int] = {}  # place -> position in flat
        base = at = 0
        for number, (table, shape) in enumerate(zip(self._tables, self._shapes, strict=True)):
            end = base + len(table) * shape.columns
            if at < len(places) and places[at] < end:
                keys = list(table)
                while at < len(places) and places[at] < end:
                    row = (places[at] - base) // shape.columns
                    start = base + row * shape.columns
                    spans.append((number, keys[row], len(flat)))
                    where.update({start + i: len(flat) + i for i in range(shape.columns)})
                    flat += table[keys[row]]
                    at = bisect_left(places, start + shape.columns, at)
            base = end
        if at < len(places):
            msg = f"no row at value {places[at]}"
            raise RecordError(msg)
        here = Numbers(
            flat,
            {where[place]: inc for place, inc in incs.items()},
            {where[place]: value for place, value in sets.items()},
        )
        apply_values(flat, here)
        for number in {number for number, _, _ in spans}:
            self._tables[number] = dict(self._tables[number])
        for number, key, start in spans:
            self._tables[number][key] = tuple(flat[start : start + self._shapes[number].columns])

    def _remove(self, gaps: Sequence[int]) -> None:
        gone = set(places_of(gaps))
        base = 0
        for number, table in enumerate(self._tables):
            end = base + len(table)
            if any(base <= row < end for row in gone):
                rows = enumerate(table.items(), base)
                self._tables[number] = {key: row for at, (key, row) in rows if at not in gone}
            base = end
        if max(gone) >= base:
            msg = f"no row {max(gone)}"
            raise RecordError(msg)

    def of_layer(self, layer: int) -> dict[str, Mapping[Key, Row]]:
        """The tables of one layer by name."""
        return {
            to_text(shape.name): table
            for shape, table in zip(self._shapes, self._tables, strict=True)
            if shape.layer == layer
        }
