"""All tables of a sample as one list of rows, and their changes from sample to sample."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.sample import LayerSample, Row, Sample, Table, Value
from ioh.session.cells import diff_values, gaps_of
from ioh.session.records import Rows, TableShape, to_bytes, to_text

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
