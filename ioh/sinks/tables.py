"""Breakdowns (processes, files, devices …) as text: the busiest readers, then writers."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.model.metric import MetricSpec, TableSpec
from ioh.model.snapshot import TableRow
from ioh.sinks.cells import (
    display_width,
    format_unit,
    pad_left,
    pad_right,
    safe_name,
)
from ioh.sinks.metrics import mega
from ioh.sinks.rows import Direction, direction

_KEY_ROOM = 24  # columns kept free for names before another number is added
_KEY_PART_MAX = 40


def render_table(
    spec: TableSpec, rows: Sequence[TableRow], *, top: int | None, width: int
) -> list[str]:
    """The lines of the ``top`` rows by bytes read, then of those by bytes written.

    Then of those that have most of what else ranks the table, such as copies or metadata calls;
    then of those that moved nothing, but have something in flight.
    A table that is not ranked by a read and a write column is printed once, as ranked.
    """
    by_name = {column.derived_name: column for column in spec.columns}
    ranks = {direction(n): by_name[n] for n in spec.sort_by if direction(n) and n in by_name}
    if len(ranks) < 2:
        return _render(spec, rows[:top], [c for c in spec.columns if c.title], "", width)
    lines: list[str] = []
    for where in ("R", "W"):
        rank = ranks[where]
        active = [row for row in rows if (row.values.get(rank.derived_name) or 0) > 0]
        active.sort(key=lambda row: -(row.values[rank.derived_name] or 0))
        if active:
            lines += _render(spec, active[:top], _directed(spec, rank, where), where, width)
    rates = [rank.derived_name for rank in ranks.values()]
    for rank in (by_name[n] for n in spec.sort_by if n in by_name and not direction(n)):
        rate = rank.derived_name
        most = [row for row in rows if row.values.get(rate) and _ranks(spec, row, rate)]
        most.sort(key=lambda row: -(row.values[rate] or 0))
        lines += _render(spec, most[:top], _of_kind(spec, rank), "", width)
    waiting = [x for x in rows if x.values.get("inflight") and not any(map(x.values.get, rates))]
    if waiting:
        columns = [column for column in spec.columns if column.title]
        columns.sort(key=lambda column: column.name != "inflight")
        lines += _render(spec, waiting[:top], columns, "", width)
    return lines


def main_rate(spec: TableSpec, row: TableRow) -> str:
    """Of the rates whose sum ranks a row, the name of the largest; "" if nothing ranks it."""
    return max(spec.sort_by, key=lambda name: row.values.get(name) or 0.0, default="")


def longest_kind(spec: TableSpec, rows: Sequence[TableRow]) -> str:
    """The kind of operation with most time, such as ``sync``; "" if these are reads or writes."""
    kinds = {
        name.removesuffix("_ns_per_s"): sum(row.values.get(name) or 0.0 for row in rows)
        for each in spec.columns
        if (name := each.derived_name).endswith("_ns_per_s") and "_waited_" not in name
    }
    kind = max(kinds, key=kinds.__getitem__, default="")
    return "" if kind in {"", "read", "write"} or not kinds[kind] else kind


def _ranks(spec: TableSpec, row: TableRow, rate: str) -> bool:
    """Whether a row belongs to the list by this rate: if in bytes, only where it is the largest."""
    return not rate.endswith("_bytes_per_s") or main_rate(spec, row) == rate


def _of_kind(spec: TableSpec, rank: MetricSpec) -> list[MetricSpec]:
    """The ranking column, then others of its kind: ``copyB/s``, ``copy/s``, ``copy µs``."""
    kind = rank.title.removesuffix("/s").removesuffix("B")
    others = (column for column in spec.columns if column.title and column != rank)
    return [rank, *(column for column in others if column.title.startswith(kind))]


def _directed(spec: TableSpec, rank: MetricSpec, where: Direction) -> list[MetricSpec]:
    """The ranking column, then others of this direction, then those without one."""
    titled = [column for column in spec.columns if column.title and column != rank]
    same = [column for column in titled if direction(column.name) == where]
    neither = [column for column in titled if not direction(column.name)]
    return [rank, *same, *neither]


def _render(
    spec: TableSpec,
    rows: Sequence[TableRow],
    columns: Sequence[MetricSpec],
    mark: Direction,
    width: int,
) -> list[str]:
    if not rows:
        return []
    begin: str = mark or " "
    lines = [" ", *([begin] * len(rows))]
    room = width - len(begin)
    for number, metric in enumerate(columns):
        texts = _column(metric, rows)
        column_width = max(map(display_width, texts))
        room -= column_width + 1
        # Always keep the first column: the rows are ranked by it.
        if number and room < _KEY_ROOM:
            break
        padded = (pad_left(text, column_width) for text in texts)
        lines = [f"{line} {text}" for line, text in zip(lines, padded, strict=True)]
    keys = _key_lines(spec, rows)
    return [f"{line} {key}".rstrip() for line, key in zip(lines, keys, strict=True)]


def _column(metric: MetricSpec, rows: Sequence[TableRow]) -> list[str]:
    """Title and cells of a column."""
    name = metric.derived_name
    values = [row.values.get(name) for row in rows]
    if name.endswith("_bytes_per_s"):
        kind = "" if direction(name) else safe_name(metric.title.removesuffix("B/s").strip())
        return [f"{kind} MB/s".strip(), *(mega(value, 9) for value in values)]
    title = safe_name(metric.title)
    return [title, *(format_unit(name, title, value) for value in values)]


def _key_lines(spec: TableSpec, rows: Sequence[TableRow]) -> list[str]:
    """Names side by side; all except the last are cut, so that a long name shifts no column."""
    last = len(spec.keys) - 1
    lines = [""] * (len(rows) + 1)
    for part, key in enumerate(spec.keys):
        names = [safe_name(row.key[part], 0 if part == last else _KEY_PART_MAX) for row in rows]
        texts = [key, *names]
        widest = 0 if part == last else max(map(display_width, texts)) + 1
        lines = [line + pad_right(text, widest) for line, text in zip(lines, texts, strict=True)]
    return lines
