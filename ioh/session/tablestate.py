"""All tables of a sample while they are being read back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ioh.model.sample import Row, Value
from ioh.session.cells import places_of
from ioh.session.records import MAX_ROWS, RecordError, Rows, TableShape, to_text

Key = tuple[str, ...]


class _Table:
    """One table's rows; ``_shown`` is what was built of them last."""

    __slots__ = (
        "_changed", "_gone", "_known", "_shown", "_taken", "keys", "name", "rows", "shape",
    )  # fmt: skip

    def __init__(self, shape: TableShape) -> None:
        self.shape, self.name = shape, to_text(shape.name)
        self.keys: list[Key] = []
        self.rows: list[list[Value]] = []
        self._taken: set[Key] = set()
        self._shown: dict[Key, Row] = {}
        self._known = 0  # so many of the first rows are in _shown
        self._gone: list[Key] = []  # of those in _shown
        self._changed: dict[Key, list[Value]] = {}

    def change(self, places: Sequence[int], values: Sequence[Value], *, are_incs: bool) -> None:
        """Set values, or add to them; ``places`` count through the rows, from 0.

        Raises:
            RecordError: What is added to is no integer.
        """
        columns, keys, rows, changed = self.shape.columns, self.keys, self.rows, self._changed
        touched = set()
        for place, value in zip(places, values, strict=True):
            at = place // columns
            column = place - at * columns
            touched.add(at)
            if are_incs:
                row = rows[at]
                before = row[column]
                if before is None or value is None:
                    msg = f"no integer at position {place}"
                    raise RecordError(msg)
                row[column] = before + value
            else:
                rows[at][column] = value
        for at in touched:
            changed[keys[at]] = rows[at]

    def remove(self, gone: Sequence[int]) -> None:
        for row in reversed(gone):
            key = self.keys.pop(row)
            del self.rows[row]
            self._taken.discard(key)
            self._changed.pop(key, None)
            if row < self._known:
                self._known -= 1
                self._gone.append(key)

    def add(self, rows: Sequence[tuple[Key, list[Value]]]) -> None:
        for key, values in rows:
            self.keys.append(key)
            self.rows.append(values)
            self._taken.add(key)
            self._changed[key] = values
        if len(self._taken) != len(self.keys):
            msg = "a row that comes twice"
            raise RecordError(msg)

    def table(self) -> Mapping[Key, Row]:
        """The table as it now is; what is returned never changes."""
        if self._changed or self._gone:
            shown = dict(self._shown)
            for key in self._gone:
                del shown[key]
            # In their order, new rows at the end.
            for key in self.keys[self._known :]:
                shown[key] = ()
            for key, row in self._changed.items():
                shown[key] = tuple(row)
            self._shown, self._known = shown, len(self.keys)
            self._gone, self._changed = [], {}
        return self._shown


class TablesState:
    """The tables while they are being read back; they are built when somebody asks for them."""

    def __init__(self, shapes: Sequence[TableShape]) -> None:
        self._tables = list(map(_Table, shapes))
        self._of_layer: dict[int, list[_Table]] = {}
        for table in self._tables:
            self._of_layer.setdefault(table.shape.layer, []).append(table)

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
        last = max(
            self._change_some(rows.gaps, rows.incs, are_incs=True),
            self._change_some(rows.set_gaps, rows.sets, are_incs=False),
        )
        if last >= sum(len(t.rows) * t.shape.columns for t in self._tables):
            msg = f"no row at value {last}"
            raise RecordError(msg)

    def _change_some(self, gaps: Sequence[int], values: Sequence[Value], *, are_incs: bool) -> int:
        """Returns the last place; those of no table change nothing."""
        if len(gaps) != len(values):
            msg = "as many gaps as changes are needed"
            raise RecordError(msg)
        places = places_of(gaps)
        at = base = 0
        for table, end in zip(self._tables, self._ends(), strict=True):
            if at == len(places):
                break
            until = bisect_left(places, end, at)
            if until > at:
                mine = [place - base for place in places[at:until]]
                table.change(mine, values[at:until], are_incs=are_incs)
            at, base = until, end
        return places[-1] if places else -1

    def _ends(self) -> list[int]:
        """Where each table's values end, when those of all tables lie end to end."""
        return list(accumulate(len(t.rows) * t.shape.columns for t in self._tables))

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
        return {table.name: table.table() for table in self._of_layer.get(layer, ())}


def _between(places: Sequence[int], begin: int, end: int) -> Sequence[int]:
    """Those of sorted places in a range."""
    return places[bisect_left(places, begin) : bisect_left(places, end)]
