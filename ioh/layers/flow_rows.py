"""Running totals of one breakdown: the busiest get their own rows, the others share one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from heapq import nlargest, nsmallest
from typing import Generic, NamedTuple, TypeVar

from ioh.model.rows import Key, Rows
from ioh.model.sample import Table

# Where each op's count, bytes and time go in a row: reads 0-2, writes 3-5, syncs 6-7, faults 8-10,
# once more those that waited: reads 11-13, writes 14-16; copies between files 17-19; calls on names
# and attributes 20-21, again those that waited 22-23, locks 24-25.
READ, WRITE, SYNC, FAULT, READ_WAITED, WRITE_WAITED, COPY = 0, 3, 6, 8, 11, 14, 17
META, META_WAITED, LOCK = 20, 22, 24
# Rows of NFS have metadata in the place of faults: count and time, 8-9.
METADATA = 8


class Columns(NamedTuple):
    """A row's columns: their number, those of a count and a time, and where bytes and times are."""

    width: int
    timed: tuple[int, ...]
    bytes_at: tuple[int, ...]
    ns_at: tuple[int, ...]


IO = Columns(8, (SYNC,), (1, 4), (2, 5, 7))
RPCS = Columns(10, (SYNC, METADATA), (1, 4), (2, 5, 7, 9))
CALLS_OF_FILE = Columns(20, (SYNC,), (1, 4, 9, 18), (2, 5, 7, 10, 19))
CALLS = Columns(26, (SYNC, META, META_WAITED, LOCK), (1, 4, 9, 18), (2, 5, 7, 10, 19, 21, 25))

# A new row costs a name: to find, to make printable, to record.
MAX_NEWCOMERS = 64
_NAMES_A_ROW = 4  # a file that is replaced each time it is written has one name and many inodes
_KEPT_TICKS = 5  # beyond their rest, for idle entries in RoundRobin
_SPARE = 256

Id = TypeVar("Id", bound=Hashable)


class FlowRows(Generic[Id]):
    """Rows of a tick's busiest items; the other items are added to the row of the others.

    ``name`` finds an item's key, and is called only for items that get a row.
    """

    def __init__(
        self,
        rows: Rows,
        name: Callable[[Id], Key],
        newcomers: int = MAX_NEWCOMERS,
        columns: Columns = IO,
    ) -> None:
        self._columns, self._timed = columns, columns.timed
        self._rows, self._name, self._newcomers = rows, name, newcomers
        self._pending: dict[Id, list[int]] = {}
        self._names: dict[Id, Key] = {}

    def add(self, what: Id, column: int, sums: tuple[int, int, int]) -> None:
        """Add a flow's count, bytes and time at one of the above, without bytes if it has none."""
        row = self._pending.get(what)
        if row is None:
            row = self._pending[what] = [0] * self._columns.width
        count, size, ns = sums
        row[column] += count
        if column in self._timed:
            row[column + 1] += ns
        else:
            row[column + 1] += size
            row[column + 2] += ns

    def add_to_others(self, column: int, sums: tuple[int, int, int]) -> None:
        """Like add(), for items that the probe does not tell apart."""
        count, _, ns = sums
        numbers = (count, ns) if column in self._timed else sums
        row = [0] * self._columns.width
        row[column : column + len(numbers)] = numbers
        self._rows.add_to_others(row)

    def key_of(self, what: Id) -> Key | None:
        """The key of an item that has a name."""
        return self._names.get(what)

    def forget_names(self, matches: Callable[[Id], bool]) -> None:
        """Forget the names of the items for which ``matches`` is True."""
        self._names = {what: key for what, key in self._names.items() if not matches(what)}

    def rename(self, items: Iterable[Id]) -> None:
        """Find the names of these named items again, now: they may belong to other rows."""
        for what in items:
            if what in self._names:
                self._names[what] = self._name(what)

    def call(self, what: Id, key: Key) -> None:
        """Change the name of an item that has one."""
        if what in self._names:
            self._names[what] = key

    def table(self) -> Table:
        """All rows, once a tick."""
        pending, self._pending = self._pending, {}
        for what in self._with_rows(pending):
            key = self._names.get(what)
            if key is None:
                key = self._names[what] = self._name(what)
            self._rows.add(key, pending.pop(what))
        for row in pending.values():
            self._rows.add_to_others(row)
        table = self._rows.table()
        if self._rows.dropped:
            self._names = {what: key for what, key in self._names.items() if key in table}
        if len(self._names) > _NAMES_A_ROW * self._rows.most:
            self._names.clear()
        return table

    def _with_rows(self, pending: dict[Id, list[int]]) -> Sequence[Id]:
        """The items that have a row, or get one in this tick."""
        names = self._names
        fresh = [what for what in pending if what not in names]
        items: Sequence[Id] = list(pending)
        if len(fresh) > self._newcomers:
            old = [what for what in pending if what in names]
            items = old + self._busiest(fresh, pending, self._newcomers)
        most = self._rows.most
        return items if len(items) <= most else self._busiest(items, pending, most)

    def _busiest(self, among: Sequence[Id], pending: dict[Id, list[int]], count: int) -> list[Id]:
        """Choose three quarters by bytes, the rest by time: an fsync has no bytes."""

        def sum_at(columns: tuple[int, ...]) -> Callable[[Id], int]:
            return lambda what: sum(map(pending[what].__getitem__, columns))

        by_bytes, by_time = sum_at(self._columns.bytes_at), sum_at(self._columns.ns_at)
        items = dict.fromkeys(nlargest(count - count // 4, among, key=by_bytes))
        for what in nlargest(count, among, key=by_time):
            if len(items) == count:
                break
            items[what] = None
        return list(items)


class RoundRobin(Generic[Id]):
    """Choose which items to check again: per tick ``most``, those checked longest ago.

    No item is checked again within ``rest`` ticks.  ``is_known``: new items count as just checked;
    otherwise they come first.
    """

    def __init__(self, most: int, rest: int, *, is_known: bool) -> None:
        self._most, self._rest, self._is_known = most, rest, is_known
        self._last_looks: dict[Id, int] = {}

    def take(self, at_work: Collection[Id], tick: int) -> list[Id]:
        """The items to check now."""
        last_looks, new = self._last_looks, tick if self._is_known else 0
        for what in at_work:
            last_looks.setdefault(what, new)
        due = [what for what in at_work if tick - last_looks[what] >= self._rest]
        items = nsmallest(self._most, due, key=last_looks.__getitem__)
        last_looks.update(dict.fromkeys(items, tick))
        if len(last_looks) > 2 * len(at_work) + _SPARE:
            oldest = tick - self._rest - _KEPT_TICKS
            self._last_looks = {
                what: when for what, when in last_looks.items() if when > oldest or what in at_work
            }
        return items
