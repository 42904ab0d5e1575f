"""All tables of a sample while they are being read back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ioh.model.sample import Row, Value
from ioh.session.cells import Numbers, apply_values, by_place, places_of
from ioh.session.records import MAX_ROWS, RecordError, Rows, TableShape, to_text

Key = tuple[str, ...]


class _Table:
    """One table's rows, end to end in ``values``; ``_shown`` is what was built of them last."""

    __slots__ = ("_changed", "_is_other", "_shown", "keys", "shape", "values")

    def __init__(self, shape: TableShape) -> None:
        self.shape = shape
        self.keys: list[Key] = []
        self.values: list[Value] = []
        self._shown: dict[Key, Row] = {}
        self._changed: set[Key] = set()
        self._is_other = False  # rows came or went

    def change(self, incs: dict[int, int], sets: dict[int, Value]) -> None:
        apply_values(self.values, Numbers((), incs, sets))
        keys, columns = self.keys, self.shape.columns
        self._changed.update([keys[at // columns] for at in (*incs, *sets)])

    def remove(self, rows: Sequence[int]) -> None:
        columns = self.shape.columns
        keys: list[Key] = []
        values: list[Value] = []
        after = 0
        for row in (*rows, len(self.keys)):
            keys += self.keys[after:row]
            values += self.values[after * columns : row * columns]
            after = row + 1
        self.keys, self.values = keys, values
        self._is_other = True

    def add(self, rows: Sequence[tuple[Key, list[Value]]]) -> None:
        self.keys += [key for key, _ in rows]
        for key, values in rows:
            self.values += values
            self._changed.add(key)
        if len({*self.keys}) != len(self.keys):
            msg = "a row that comes twice"
            raise RecordError(msg)
        self._is_other = True

    def table(self) -> Mapping[Key, Row]:
        """The table as it now is; what is returned never changes."""
        if not (self._changed or self._is_other):
            return self._shown
        columns, values, older = self.shape.columns, self.values, self._shown
        shown: dict[Key, Row] = {} if self._is_other else dict(older)
        for row, key in enumerate(self.keys):
            if key in self._changed:
                shown[key] = tuple(values[row * columns : (row + 1) * columns])
            elif self._is_other:
                shown[key] = older[key]
        self._shown, self._changed, self._is_other = shown, set(), False
        return shown


class TablesState:
    """The tables while they are being read back; they are built when somebody asks for them."""

    def __init__(self, shapes: Sequence[TableShape]) -> None:
        self._tables = list(map(_Table, shapes))

    def apply(self, rows: Rows) -> None:
        """Take over a record's changes.

        Raises:
            RecordError: It does not fit the tables; they are of no use then.
        """
        if rows.gaps or rows.set_gaps:
            self._change(rows)
        if rows.removed:
            self._remove(rows.removed)
        if rows.added:
            self._add(rows.added)

    def _change(self, rows: Rows) -> None:
        incs, sets = by_place(rows.gaps, rows.incs), by_place(rows.set_gaps, rows.sets)
        inc_places, set_places = list(incs), list(sets)
        base = 0
        for table in self._tables:
            end = base + len(table.values)
            mine = {at - base: incs[at] for at in _between(inc_places, base, end)}
            mine_set = {at - base: sets[at] for at in _between(set_places, base, end)}
            if mine or mine_set:
                table.change(mine, mine_set)
            base = end
        last = max(inc_places[-1:] + set_places[-1:])
        if last >= base:
            msg = f"no row at value {last}"
            raise RecordError(msg)

    def _remove(self, gaps: Sequence[int]) -> None:
        gone = places_of(gaps)
        base = 0
        for table in self._tables:
            end = base + len(table.keys)
            mine = _between(gone, base, end)
            if mine:
                table.remove([row - base for row in mine])
            base = end
        if gone[-1] >= base:
            msg = f"no row {gone[-1]}"
            raise RecordError(msg)

    def _add(self, added: Sequence[tuple[int, list[bytes], list[Value]]]) -> None:
        found: dict[int, list[tuple[Key, list[Value]]]] = {}
        for number, names, values in added:
            if not 0 <= number < len(self._tables):
                msg = f"no table {number}"
                raise RecordError(msg)
            shape = self._tables[number].shape
            key = tuple(map(to_text, names))
            if len(key) != shape.keys or len(values) != shape.columns:
                msg = "a row of another width"
                raise RecordError(msg)
            found.setdefault(number, []).append((key, values))
        for number, rows in found.items():
            self._tables[number].add(rows)
        if sum(len(table.keys) for table in self._tables) > 4 * MAX_ROWS:
            msg = "too many rows"
            raise RecordError(msg)

    def of_layer(self, layer: int) -> dict[str, Mapping[Key, Row]]:
        """The tables of one layer by name."""
        return {
            to_text(table.shape.name): table.table()
            for table in self._tables
            if table.shape.layer == layer
        }


def _between(places: Sequence[int], begin: int, end: int) -> Sequence[int]:
    """Those of sorted places in a range."""
    return places[bisect_left(places, begin) : bisect_left(places, end)]
