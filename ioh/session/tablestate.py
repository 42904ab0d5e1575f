"""All tables of a sample while they are being read back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ioh.model.sample import Row, Value
from ioh.session.cells import places_of
from ioh.session.records import MAX_ROWS, RecordError, Rows, TableShape, to_text

Key = tuple[str, ...]


class _Table:
    """One table's keys; its values are the state's.  ``_shown`` is what was built of them last."""

    __slots__ = ("_gone", "_known", "_shown", "_taken", "changed", "columns", "keys", "name")

    def __init__(self, shape: TableShape) -> None:
        self.name, self.columns = to_text(shape.name), shape.columns
        self.keys: list[Key] = []
        self.changed: set[int] = set()  # numbers of rows since they were built
        self._taken: set[Key] = set()
        self._shown: dict[Key, Row] = {}
        self._known = 0  # so many of the first rows are in _shown
        self._gone: list[Key] = []  # of those in _shown

    @property
    def size(self) -> int:
        """How many values its rows have."""
        return len(self.keys) * self.columns

    def remove(self, gone: Sequence[int]) -> None:
        for row in reversed(gone):
            key = self.keys.pop(row)
            self._taken.discard(key)
            if row < self._known:
                self._known -= 1
                self._gone.append(key)
        left = self.changed.difference(gone)
        self.changed = {row - bisect_left(gone, row) for row in left}

    def add(self, keys: Sequence[Key]) -> None:
        self.keys += keys
        self._taken.update(keys)
        if len(self._taken) != len(self.keys):
            msg = "a row that comes twice"
            raise RecordError(msg)

    def table(self, values: Sequence[Value], begin: int) -> Mapping[Key, Row]:
        """The table as it now is; what is returned never changes.

        Args:
            values: Those of all tables.
            begin: Where its own begin.
        """
        known, columns = self._known, self.columns
        if not (self.changed or self._gone or known < len(self.keys)):
            return self._shown
        shown = dict(self._shown)
        for key in self._gone:
            del shown[key]
        # In their order, new rows at the end.
        changed = (row for row in self.changed if row < known)
        for row in chain(changed, range(known, len(self.keys))):
            at = begin + row * columns
            shown[self.keys[row]] = tuple(values[at : at + columns])
        self._shown, self._known = shown, len(self.keys)
        self._gone, self.changed = [], set()
        return shown


class TablesState:
    """The tables while they are being read back; they are built when somebody asks for them.

    On the way to a sample that is asked for lie up to a hundred others, most of which only add to
    values: those lie in one list, row by row, table by table.
    """

    def __init__(self, shapes: Sequence[TableShape]) -> None:
        self._shapes = shapes
        self._tables = list(map(_Table, shapes))
        self._values: list[Value] = []
        self._changed: set[int] = set()  # places of values that no table knows of yet

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
        values = self._values
        if len(rows.gaps) != len(rows.incs) or len(rows.set_gaps) != len(rows.sets):
            msg = "as many gaps as changes are needed"
            raise RecordError(msg)
        places, set_places = places_of(rows.gaps), places_of(rows.set_gaps)
        at = -1
        try:
            for at, inc in zip(places, rows.incs, strict=True):
                values[at] += inc  # type: ignore[operator]
            for at, value in zip(set_places, rows.sets, strict=True):
                values[at] = value
        except (IndexError, TypeError):
            msg = f"no number in the tables' rows at {at}"
            raise RecordError(msg) from None
        self._changed.update(places, set_places)

    def _settle(self) -> None:
        """Let the tables know which of their rows changed, before rows get other places."""
        places = sorted(self._changed)
        self._changed.clear()
        at = 0
        for table, begin in self._begins():
            if at == len(places):
                break
            end = bisect_left(places, begin + table.size, at)
            table.changed.update([(place - begin) // table.columns for place in places[at:end]])
            at = end

    def _begins(self) -> Iterator[tuple[_Table, int]]:
        """Each table, and where its values begin."""
        begin = 0
        for table in self._tables:
            yield table, begin
            begin += table.size

    def _remove(self, gaps: Sequence[int]) -> None:
        self._settle()
        gone = places_of(gaps)
        kept: list[Value] = []
        row_at = value_at = 0
        for table in self._tables:
            rows, columns = len(table.keys), table.columns
            until = bisect_left(gone, row_at + rows)
            mine = [row - row_at for row in gone[bisect_left(gone, row_at) : until]]
            after = 0
            for row in (*mine, rows):
                kept += self._values[value_at + after * columns : value_at + row * columns]
                after = row + 1
            row_at, value_at = row_at + rows, value_at + rows * columns
            if mine:
                table.remove(mine)
        if gone[-1] >= row_at:
            msg = f"no row {gone[-1]}"
            raise RecordError(msg)
        self._values = kept

    def _add(self, added: Sequence[tuple[int, list[bytes], list[Value]]]) -> None:
        self._settle()
        found: dict[int, tuple[list[Key], list[Value]]] = {}
        for number, names, values in added:
            if not 0 <= number < len(self._tables):
                msg = f"no table {number}"
                raise RecordError(msg)
            shape = self._shapes[number]
            if len(names) != shape.keys or len(values) != shape.columns:
                msg = "a row of another width"
                raise RecordError(msg)
            keys, numbers = found.setdefault(number, ([], []))
            keys.append(tuple(map(to_text, names)))
            numbers += values
        end = 0
        for number, table in enumerate(self._tables):
            end += table.size
            if number in found:
                keys, numbers = found[number]
                self._values[end:end] = numbers
                end += len(numbers)
                table.add(keys)
        if sum(len(table.keys) for table in self._tables) > 4 * MAX_ROWS:
            msg = "too many rows"
            raise RecordError(msg)

    def by_layer(self) -> Mapping[int, Mapping[str, Mapping[Key, Row]]]:
        """The tables by name, of each layer that has some."""
        self._settle()
        found: dict[int, dict[str, Mapping[Key, Row]]] = {}
        for (table, begin), shape in zip(self._begins(), self._shapes, strict=True):
            found.setdefault(shape.layer, {})[table.name] = table.table(self._values, begin)
        return found
