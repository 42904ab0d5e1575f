"""Derives a layer's numbers and the rows of its tables over one interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ioh.model.lazy import by_identity
from ioh.model.metric import MetricSpec, TableSpec
from ioh.model.rates import delta, quotient
from ioh.model.sample import Row, Table, Value, others_key
from ioh.model.snapshot import TableRow


def derive_metrics(
    specs: tuple[MetricSpec, ...],
    older: Mapping[str, Value],
    newer: Mapping[str, Value],
    interval_s: float,
) -> dict[str, Value]:
    """Derive a layer's numbers, like one row."""
    plan = _plan(specs)
    before, row = tuple(map(older.get, plan.raw)), tuple(map(newer.get, plan.raw))
    return {name: column.value(before, row, interval_s) for name, column in plan.columns.items()}


def derive_table(
    spec: TableSpec, older: Table, newer: Table, interval_s: float
) -> tuple[TableRow, ...]:
    """Rank the rows of a table that were active in this interval.

    A key that is not in ``older`` started from zero: rows are dropped only while idle, so its whole
    total belongs to this interval.
    """
    plan = _plan(spec.columns)
    nothing, has_counters = plan.nothing, plan.has_counters
    # Not by _Values, which costs more: most rows are only ranked, never shown.
    ranks = [plan.columns[name].value for name in spec.sort_by if name in plan.columns]
    if older is newer and has_counters:
        return ()
    others = others_key(len(spec.keys))
    if others in newer:
        older = _without_dropped(older, newer, others, nothing)
    ranked: list[tuple[float, tuple[str, ...], _Values]] = []
    for key, row in newer.items():
        before = older.get(key, nothing)
        if has_counters and (row is before or row == before):
            continue
        values = _Values(plan.columns, before, row, interval_s)
        weight = sum([value(before, row, interval_s) or 0.0 for value in ranks])
        ranked.append((-weight, key, values))
    ranked.sort()  # no two have the same key
    return tuple([TableRow(key, values) for _, key, values in ranked])


def _without_dropped(
    older: Table, newer: Table, others: tuple[str, ...], nothing: Row
) -> dict[tuple[str, ...], Row]:
    """``older``, with the rows that were dropped since already merged into the others.

    So a dropped row's earlier counts do not appear as activity of the others in this interval.  A
    row that was dropped and came back starts with less than it had.
    """
    rows = dict(older)
    before = rows.get(others, nothing)
    for key, row in older.items():
        now = newer.get(key)
        if now is not row and key != others and (now is None or _has_fallen(row, now, nothing)):
            before = tuple(map(_sum, before, row))
            del rows[key]
    rows[others] = before
    return rows


def _has_fallen(row: Row, now: Row, nothing: Row) -> bool:
    """Whether a running total (initially 0) has decreased."""
    # In a recording, the layer may have had other columns.
    for a, b, zero in zip(row, now, nothing, strict=False):
        if zero == 0 and a is not None and b is not None and b < a:
            return True
    return False


def _sum(a: Value, b: Value) -> Value:
    return None if a is None or b is None else a + b


class _Column(NamedTuple):
    """Computes one column of a Snapshot's row from two raw rows, by position."""

    kind: str
    at: int
    denominator_at: int | None
    scale: float

    def value(self, before: Row, row: Row, interval_s: float) -> Value:
        """The column of one row."""
        kind, at, denominator_at, scale = self
        now = row[at]
        if kind == "gauge":
            return now
        was = before[at]
        if now is None or was is None or now < was:  # as delta(); a call would double the time
            return None
        if denominator_at is None:
            return (now - was) / interval_s * scale
        return quotient(now - was, delta(before[denominator_at], row[denominator_at]), scale)


class _Values(Mapping[str, Value]):
    """A row's columns, computed on access: most rows show few of them, or none."""

    __slots__ = ("_before", "_columns", "_interval_s", "_row")

    def __init__(
        self, columns: Mapping[str, _Column], before: Row, row: Row, interval_s: float
    ) -> None:
        self._columns, self._interval_s = columns, interval_s
        self._before, self._row = before, row

    def __getitem__(self, name: str) -> Value:
        return self._columns[name].value(self._before, self._row, self._interval_s)

    def get(self, name: str, default: Value = None) -> Value:  # type: ignore[override]
        """As in Mapping, without raising an exception for a missing key."""
        return self[name] if name in self._columns else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return repr(dict(self))


class _Plan(NamedTuple):
    """How to compute the columns of a row.

    Shape:
        ``raw``: the names in a Sample's row.  ``nothing``: the row before it appeared.
    """

    columns: Mapping[str, _Column]
    raw: tuple[str, ...]
    nothing: Row
    has_counters: bool


@by_identity
def _plan(specs: tuple[MetricSpec, ...]) -> _Plan:
    raw = {c.name: c.kind == "counter" for c in specs if c.kind != "ratio"}
    # A recording's layer can have ratios of undescribed numbers.
    for name in (each for c in specs for each in (c.numerator, c.denominator) if each):
        raw.setdefault(name, False)
    positions = {name: at for at, name in enumerate(raw)}
    columns = {
        c.derived_name: _Column(
            c.kind,
            positions[c.numerator if c.kind == "ratio" else c.name],
            positions[c.denominator] if c.denominator else None,
            c.scale,
        )
        for c in specs
    }
    nothing = tuple(0 if is_counter else None for is_counter in raw.values())
    return _Plan(columns, tuple(raw), nothing, any(raw.values()))
