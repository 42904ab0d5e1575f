"""Two intervals side by side, op by op, with the changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ioh.model.rates import scaled
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow
from ioh.sinks.cells import format_fixed, pad_left, pad_right, safe_name
from ioh.sinks.histogram import HistRow, HistStyle, render_columns
from ioh.sinks.rows import op_rows

# Title, field, scale, decimals.
_NUMBERS = (
    ("MB/s", "bytes_per_s", 1e-6, 3),
    ("count/s", "ops_per_s", 1.0, 1),
    ("avg_sz_kb", "avg_bytes", 1 / 1024, 3),
    ("avg_ms", "latency_us", 1e-3, 4),
    ("p50_ms", "p50_us", 1e-3, 4),
    ("p95_ms", "p95_us", 1e-3, 4),
    ("p99_ms", "p99_us", 1e-3, 4),
    ("p99.9_ms", "p999_us", 1e-3, 4),
    ("max_ms", "max_us", 1e-3, 4),
    ("in-fl avg", "avg_inflight", 1.0, 2),
    ("err/s", "errors_per_s", 1.0, 1),
)
_ERRORS = "errors_per_s"  # most ops have none: no line then
_WIDTH = 10
_NOTE = 200  # columns of a layer's note, or of a name
_TIME, _MOST_ROWS = "avg_inflight", 10


def render_comparison(a: Snapshot, b: Snapshot, style: HistStyle, *, every_op: bool) -> str:
    """Numbers and latency histogram of each op that was active in either interval.

    Also the rows with most time in them of each table that is ranked by it: statements and waits.
    ``every_op``: also members of groups, such as direct and buffered reads.
    """
    lines: list[str] = []
    for name in dict.fromkeys([*a.layers, *b.layers]):
        lines += _layer(a.layers.get(name), b.layers.get(name), style, every_op=every_op)
        lines += _tables(a.layers.get(name), b.layers.get(name))
    return "\n".join(lines) + "\n"


def differences(a: Snapshot, b: Snapshot) -> Iterator[str]:
    """Why the numbers of a layer are not comparable: another source, or notes of one side only."""
    for name, older in a.layers.items():
        newer = b.layers.get(name)
        if not isinstance(older, LayerSnapshot) or not isinstance(newer, LayerSnapshot):
            continue
        title = safe_name(older.spec.title)
        if older.source != newer.source:
            sources = safe_name(older.source), safe_name(newer.source)
            yield f"{title}: A is measured by {sources[0]}, B by {sources[1]}"
        for label, one, other in (("A", older, newer), ("B", newer, older)):
            for note in one.notes:
                if note not in other.notes:
                    yield f"{title}: {label}: {safe_name(note, _NOTE)}"


def _stats(layer: object, *, every_op: bool) -> dict[str, tuple[str, OpStats]]:
    if not isinstance(layer, LayerSnapshot):
        return {}
    rows = op_rows(layer.spec, layer.ops, safe_name(layer.spec.title), every_op=every_op)
    return {row.op: (f"{row.direction or ' '} {row.label}", row.stats) for row in rows}


def _layer(older: object, newer: object, style: HistStyle, *, every_op: bool) -> Iterator[str]:
    first, second = _stats(older, every_op=every_op), _stats(newer, every_op=every_op)
    for op in dict.fromkeys([*first, *second]):
        label, _ = first.get(op) or second[op]
        a = first[op][1] if op in first else OpStats()
        b = second[op][1] if op in second else OpStats()
        if not any(x.count or x.bytes or x.errors_per_s for x in (a, b)):
            continue
        yield f"{pad_right(label, 16)}{'A':>{_WIDTH}}{'B':>{_WIDTH}}{'B - A':>{_WIDTH}}{'%':>9}"
        for title, field, scale, decimals in _NUMBERS:
            old, new = getattr(a, field), getattr(b, field)
            if (old is None and new is None) or (field == _ERRORS and not (old or new)):
                continue
            yield _number(title, scaled(old, scale), scaled(new, scale), decimals)
        yield from _histogram(a, b, style)
        yield ""


_Rows = Mapping[tuple[str, ...], TableRow]


def _tables(older: object, newer: object) -> Iterator[str]:
    """The rows with most time in them; rows of a layer that is not measured are unknown, not 0."""
    sides = [layer for layer in (older, newer) if isinstance(layer, LayerSnapshot)]
    specs = {spec.name: spec for layer in sides for spec in layer.spec.tables}
    for spec in specs.values():
        if spec.sort_by != (_TIME,):
            continue
        title = safe_name(f"{sides[0].spec.title} {spec.title}")
        a, b = _rows(older, spec.name), _rows(newer, spec.name)
        rank = {key: _value(a, key, _TIME) or 0.0 for key in a or ()}
        for key in b or ():
            rank[key] = rank.get(key, 0.0) + (_value(b, key, _TIME) or 0.0)
        for key in sorted(rank, key=lambda key: (-rank[key], key))[:_MOST_ROWS]:
            yield f"  {title}: {'  '.join(safe_name(part, _NOTE) for part in key if part)}"
            for column in spec.columns:
                name, is_time = column.derived_name, column.derived_name.endswith("_us")
                old, new = _value(a, key, name), _value(b, key, name)
                if column.title and not (old is None and new is None):
                    heading = safe_name(column.title.replace("µs", "ms"))
                    scale = 1e-3 if is_time else 1.0
                    yield _number(heading, scaled(old, scale), scaled(new, scale), 3)
            yield ""


def _rows(layer: object, table: str) -> _Rows | None:
    if not isinstance(layer, LayerSnapshot):
        return None
    return {row.key: row for row in layer.tables.get(table, ())}


def _value(rows: _Rows | None, key: tuple[str, ...], name: str) -> float | None:
    if rows is None:
        return None
    if key not in rows:
        return None if name.endswith("_us") else 0.0
    return rows[key].values.get(name)


def _number(title: str, a: float | None, b: float | None, decimals: int) -> str:
    difference = None if a is None or b is None else b - a
    share = format_change(a, b)
    cells = [format_fixed(value, _WIDTH - 1, decimals) for value in (a, b)]
    change = format_fixed(difference, _WIDTH - 2, decimals)
    if difference is not None and difference > 0:
        change = "+" + change
    padded = "".join(pad_left(cell, _WIDTH) for cell in (*cells, change))
    return f"  {pad_right(title, 14)}{padded}{share:>9}"


def format_change(a: float | None, b: float | None) -> str:
    """``+12.5%``; ``-`` if not known, ``new`` from zero, ``.`` for no change."""
    if a is None or b is None:
        return "-"
    if a == b:
        return "."
    if not a:
        return "new"
    share = (b - a) / abs(a) * 100
    return f"{share:+.1f}%" if abs(share) < 1000 else f"{share:+.0f}%"


def _histogram(a: OpStats, b: OpStats, style: HistStyle) -> Iterator[str]:
    """Histograms per 10,000 operations, because the spans may differ in length."""
    rows = []
    for label, stats in (("A", a), ("B", b)):
        counts = None if stats.size_lat is None else stats.size_lat.by_latency()
        total = sum(counts or ()) or 10_000
        shares = None if counts is None else [round(n * 10_000 / total) for n in counts]
        rows.append(HistRow(f"  {label}  ", shares))
    if any(any(row.counts or ()) for row in rows):
        yield "  per 10,000 operations: how many took at most this time, and more than half of it"
        yield from render_columns(" " * 5, rows, style)
