"""A breakdown (processes, files, mounts, devices …) as a table to sort, filter and walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ioh.model.metric import MetricSpec, TableSpec
from ioh.model.sample import Value
from ioh.model.snapshot import TableRow
from ioh.sinks.cells import (
    cut_middle,
    display_width,
    format_scaled,
    format_short,
    format_unit,
    is_known,
    safe_name,
)
from ioh.tui.render.glyphs import Glyphs
from ioh.tui.render.line import Line, ScreenFrame

_NUMBER = 6
_KEYS, _MIN_KEYS = 22, 14
_MAX_KEY_PART = 24
_LETTERS = {"r": "R", "w": "W"}


@dataclass(frozen=True, slots=True)
class TopView:
    """How a breakdown is to be shown.

    Shape:
        ``sort`` is the derived name of a column, or "" for the table's own order;
        ``is_ascending`` turns it round; ``pattern`` keeps rows whose names hold it, whatever the
        case; ``cursor`` is the row that keys act upon, ``None`` without focus; ``offset`` the
        first row shown.
    """

    glyphs: Glyphs
    sort: str = ""
    is_ascending: bool = False
    pattern: str = ""
    cursor: int | None = None
    offset: int = 0


def chosen_rows(rows: Sequence[TableRow], view: TopView) -> list[TableRow]:
    """The rows that the filter leaves, in the order asked for; unknown values last."""
    wanted = view.pattern.casefold()
    kept = [r for r in rows if not wanted or any(wanted in part.casefold() for part in r.key)]
    if view.sort:
        known = [r for r in kept if r.values.get(view.sort) is not None]
        known.sort(key=lambda r: r.values[view.sort] or 0, reverse=not view.is_ascending)
        kept = known + [r for r in kept if r.values.get(view.sort) is None]
    elif view.is_ascending:
        kept.reverse()
    return kept


def shown_columns(spec: TableSpec, width: int) -> list[MetricSpec]:
    """The numbers that fit: what ranks the table first, then the others as the table has them."""
    titled = [column for column in spec.columns if column.title]
    ranked = [column for column in titled if column.derived_name in spec.sort_by]
    ordered = ranked + [column for column in titled if column not in ranked]
    ends = list(accumulate(_width(column) + 1 for column in ordered))
    fitting = [sum(end <= width - keys for end in ends) for keys in (width // 3, _KEYS, _MIN_KEYS)]
    # One of two directions would hide who does the other.
    return ordered[: max(1, min(fitting[:2]), min(2, fitting[2]))]


def _width(column: MetricSpec) -> int:
    """Columns of a number, and of its heading, which is never cut."""
    return max(_NUMBER, display_width(column_title(column)))


def column_title(spec: MetricSpec) -> str:
    """A heading; a time carries its unit in each cell."""
    if spec.derived_name.endswith("_bytes_per_s"):
        before, _, after = spec.title.partition("B/s")
        return f"{_LETTERS.get(before, before.strip())} MB/s{after}".strip()
    plain = spec.title.removesuffix("µs").rstrip()
    return f"{plain} time" if len(plain) < 2 else plain


def cell_text(spec: MetricSpec, value: Value) -> str:
    """One number, of three digits."""
    name = spec.derived_name
    if name.endswith("_bytes_per_s"):
        return format_short(value / 1e6 if value and is_known(value) else value)
    if not name.endswith(("_us", "_pct", "_bytes")):
        return format_scaled(value)
    return format_unit(spec.derived_name, spec.title.removesuffix("µs"), value)


def key_text(row: TableRow, width: int) -> str:
    """A row's names in one column: ``4121 fio``; a long path loses its middle."""
    *first, last = dict.fromkeys(row.key)  # a disk is on itself
    head = "".join(safe_name(part, _MAX_KEY_PART) + " " for part in first)
    return head + cut_middle(safe_name(last), max(4, width - display_width(head)))


def render_top(
    spec: TableSpec, rows: Sequence[TableRow], view: TopView, width: int, height: int
) -> ScreenFrame:
    """A heading and as many rows as fit; a click on a heading sorts, on a row chooses it."""
    columns = shown_columns(spec, width)
    keys_width = max(4, width - sum(_width(column) + 1 for column in columns) - 1)
    frame = ScreenFrame()
    head, hits = _heading(spec, columns, view, keys_width)
    frame.add(head, *hits)
    shown = chosen_rows(rows, view)
    if not shown:
        text = "nothing in this interval"
        if rows:
            text = f'no rows match "{safe_name(view.pattern)}"'
        frame.add(Line(" " + text, "dim" if view.cursor is None else "sel"))
        return frame
    for at, row in enumerate(shown[view.offset : view.offset + height - 1], view.offset):
        is_cursor = at == view.cursor
        line = Line()
        for column in columns:
            text = cell_text(column, row.values.get(column.derived_name))
            line.right(text, _width(column), "dim" if text in {".", "-"} else "").add(" ")
        line.left(key_text(row, keys_width), keys_width, "name")
        line = line.fitted(width)
        frame.add(line.styled("sel") if is_cursor else line, (0, width, "row", at))
    return frame


def _heading(
    spec: TableSpec, columns: Sequence[MetricSpec], view: TopView, keys_width: int
) -> tuple[Line, list[tuple[int, int, str, str | int | float]]]:
    line = Line()
    hits: list[tuple[int, int, str, str | int | float]] = []
    for column in columns:
        name = column.derived_name
        is_sort = name == view.sort
        mark = (view.glyphs.up if view.is_ascending else view.glyphs.down) if is_sort else ""
        hits.append((line.width, line.width + _width(column), "sort", name))
        style = "strong" if is_sort else "head"
        # The mark stands between the columns: a heading may need all of its own.
        line.right(column_title(column), _width(column), style).add(
            mark or " ", style if mark else ""
        )
    return line.left(" ".join(spec.keys), keys_width, "head"), hits
