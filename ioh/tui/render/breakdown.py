"""A breakdown (processes, files, mounts, devices …) as a table: sorted, filtered, with a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from ioh.model.metric import MetricSpec, TableSpec
from ioh.model.sample import Value
from ioh.model.snapshot import TableRow
from ioh.sinks.cells import (
    UNKNOWN,
    ZERO,
    cut_middle,
    display_width,
    format_ms,
    format_scaled,
    safe_name,
)
from ioh.sinks.tables import longest_kind, main_rate
from ioh.terminal.line import Click, Line, ScreenFrame
from ioh.tui.rows import megabytes, metric_text, metric_title
from ioh.tui.state import TableState


class Trends(NamedTuple):
    """A trend in each row, between its numbers and its names: its title, its columns, its text."""

    title: str
    width: int
    of: Callable[[tuple[str, ...]], str]


_NUMBER, _AGE = 6, 7
_AGES = ("age_us", "state_us", "transaction_us")  # from a second to days
_KEYS, _MIN_KEYS = 22, 14
_MAX_KEY_PART = 24
_FIRST_ROWS = 3
_LETTERS = {"r": "R", "w": "W"}
# Recordings of old versions have other titles for these.
_TITLES = {
    "syncs_per_s": "sync/s",
    "sync_latency_us": "sync µs",
    "faults_per_s": "fault/s",
    "fault_bytes_per_s": "faultB/s",
    "fault_latency_us": "fault µs",
    "flushes_per_s": "flush/s",
    "discards_per_s": "trim/s",
}


def chosen_rows(rows: Sequence[TableRow], table: TableState, pattern: str = "") -> list[TableRow]:
    """The rows with ``pattern`` in a name, case-insensitive, in the chosen order; unknown last."""
    wanted = pattern.casefold()
    kept = [r for r in rows if not wanted or any(wanted in part.casefold() for part in r.key)]
    if table.sort:
        known = [r for r in kept if r.values.get(table.sort) is not None]
        known.sort(key=lambda r: r.values[table.sort] or 0, reverse=not table.is_ascending)
        kept = known + [r for r in kept if r.values.get(table.sort) is None]
    elif table.is_ascending:
        kept.reverse()
    return kept


def cursor_in(keys: Sequence[tuple[str, ...]], table: TableState) -> int:
    """Where the cursor is: on its row, or at the row's last place if that is gone."""
    if table.key in keys:
        return keys.index(table.key)
    return max(0, min(table.cursor, len(keys) - 1))


def shown_columns(spec: TableSpec, width: int, rows: Sequence[TableRow] = ()) -> list[MetricSpec]:
    """The columns that fit: first two that rank the table, then the others in table order.

    Also first is what else ranks one of the first ``rows``, such as copies, and the kind of call
    that has most of their time: else the row at the top would have nothing to show.
    """
    titled = [column for column in spec.columns if column.title]
    first = {*spec.sort_by[:2], *(main_rate(spec, row) for row in rows[:_FIRST_ROWS])}
    kind = longest_kind(spec, rows[:_FIRST_ROWS])
    first |= {f"{kind}s_per_s", f"{kind}_latency_us"} if kind else set()
    ranked = [column for column in titled if column.derived_name in first]
    ordered = ranked + [column for column in titled if column not in ranked]
    ends = list(accumulate(_width(column) + 1 for column in ordered))
    fitting = [sum(end <= width - keys for end in ends) for keys in (width // 3, _KEYS, _MIN_KEYS)]
    # At least two, if possible: reads alone would hide who writes.
    return ordered[: max(1, min(fitting[:2]), min(2, fitting[2]))]


def _width(column: MetricSpec) -> int:
    """Columns of a number; its heading is never cut."""
    least = _AGE if column.derived_name in _AGES else _NUMBER
    return max(least, display_width(column_title(column)))


def column_title(spec: MetricSpec) -> str:
    """A heading; an age has its unit in each cell, other times are in ms."""
    spec = replace(spec, title=_TITLES.get(spec.derived_name, spec.title)) if spec.title else spec
    if spec.derived_name.endswith("_bytes_per_s"):
        before, _, after = spec.title.partition("B/s")
        return f"{_LETTERS.get(before, before.strip())} MB/s{after}".strip()
    is_ms = spec.derived_name.endswith("_us") and spec.derived_name not in _AGES
    return metric_title(spec) + " ms" * is_ms


def cell_text(spec: MetricSpec, value: Value) -> str:
    """One number with three digits."""
    name = spec.derived_name
    if name.endswith("_bytes_per_s"):
        return megabytes(value)
    if name.endswith("_us") and name not in _AGES:
        return format_ms(value)
    if not name.endswith(("_us", "_pct", "_bytes")):
        return format_scaled(value)
    return metric_text(spec, value)


def key_text(row: TableRow, width: int) -> str:
    """A row's names in one column: ``4121 fio``; a long path loses its middle."""
    *first, last = dict.fromkeys(row.key)  # a disk is on itself
    head = "".join(safe_name(part, _MAX_KEY_PART) + " " for part in first)
    return head + cut_middle(safe_name(last), max(4, width - display_width(head)))


def render_top(  # noqa: PLR0913
    spec: TableSpec,
    rows: Sequence[TableRow],
    table: TableState,
    width: int,
    height: int,
    *,
    nothing: str = "nothing in this interval",
    has_focus: bool = False,
    trends: Trends | None = None,
) -> ScreenFrame:
    """A heading and the rows that fit, ``nothing`` if there are none.

    A click on a heading sorts, one on a row chooses it.  With the focus, the cursor is shown and
    rows scroll with it.
    """
    left = width - (trends.width + 1 if trends else 0)
    columns = [(column, _width(column)) for column in shown_columns(spec, left, rows)]
    keys_width = max(4, left - sum(each + 1 for _, each in columns) - 1)
    frame = ScreenFrame()
    head, hits = _heading(columns, table)
    if trends:
        head.left(trends.title, trends.width + 1, "head")
    frame.add(head.left(" ".join(spec.keys), keys_width, "head"), *hits)
    if not rows:
        frame.add(Line(f" {nothing}", "sel" if has_focus else "dim").fitted(width))
        return frame
    while len(rows) > 1 and not has_focus and _is_blank(rows[-1], columns):
        rows = rows[:-1]  # what it does is in a column that does not fit
    cursor = cursor_in([row.key for row in rows], table) if has_focus else -1
    room = max(1, height - 1)
    first = max(cursor - room + 1, min(table.offset, cursor, len(rows) - room), 0)
    for at, row in enumerate(rows[first : first + height - 1], first):
        line = Line()
        for column, each in columns:
            text = cell_text(column, row.values.get(column.derived_name))
            line.right(text, each, "dim" if text in {ZERO, UNKNOWN} else "").add(" ")
        if trends:
            line.left(trends.of(row.key), trends.width + 1, "trend_o")
        line.left(key_text(row, keys_width), keys_width, "name")
        line = line.fitted(width)
        frame.add(line.styled("sel") if at == cursor else line, (0, width, "row", at))
    return frame


def _is_blank(row: TableRow, columns: Sequence[tuple[MetricSpec, int]]) -> bool:
    """Whether all numbers shown are none, and not just unknown."""
    shown = [row.values.get(column.derived_name) for column, _ in columns]
    return not any(shown) and 0 in shown


def _heading(
    columns: Sequence[tuple[MetricSpec, int]], table: TableState
) -> tuple[Line, list[Click]]:
    """The headings of the numbers, and the clicks that sort."""
    line = Line()
    hits: list[Click] = []
    for column, width in columns:
        name = column.derived_name
        hits.append((line.width, line.width + width, "sort", name))
        if name == table.sort:
            # The mark is between the columns: a heading may fill its own.
            mark = "↑" if table.is_ascending else "↓"
            line.right(column_title(column), width, "strong").add(mark, "strong")
        else:
            line.right(column_title(column), width, "head").add(" ")
    return line, hits
