"""The time since a mark beside as long before it: means, how much intervals differ, and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ioh.model.player import Mean, TimelineEvent
from ioh.model.rates import scaled
from ioh.model.sample import Value
from ioh.model.snapshot import OpStats
from ioh.sinks.cells import (
    UNKNOWN,
    ZERO,
    clock,
    cut_to,
    format_ms,
    format_short,
    safe_name,
)
from ioh.sinks.rows import op_rows
from ioh.tui.drill_down import narrowed
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.text_screens import Page, chosen_in
from ioh.tui.state import Narrow, ViewState


@dataclass(frozen=True, slots=True)
class _Column:
    """``is_worse``: whether more of it is worse."""

    title: str
    field: str  # of OpStats
    text: Callable[[Value], str]
    is_worse: bool = False


def _megabytes(value: Value) -> str:
    return format_short(scaled(value, 1e-6))


_COLUMNS = (
    _Column("MB/s", "bytes_per_s", _megabytes),
    _Column("ops/s", "ops_per_s", format_short),
    _Column("mean ms", "latency_us", format_ms, is_worse=True),
    _Column("p99 ms", "p99_us", format_ms, is_worse=True),
    _Column("queue ms", "queue_us", format_ms, is_worse=True),
)
_MIN_LABEL, _MAX_LABEL = 14, 24
_BEFORE, _SINCE, _CHANGE = 7, 7, 6
_CELL = _BEFORE + _SINCE + _CHANGE
_MAX_MARKS = 100
_NOTABLE_PCT = 20.0  # a change that is coloured, if it is also larger than the spreads


@dataclass(frozen=True, slots=True)
class Compared:
    """What to compare.

    Shape:
        ``mark`` and all ``marks``, newest first; ``means`` of the ``count`` intervals since the
        mark and of as many before it, None of each if there are none, None while they are read.
    """

    mark: TimelineEvent
    marks: Sequence[TimelineEvent]
    means: tuple[Mean | None, Mean | None] | None
    count: int


@dataclass(frozen=True, slots=True)
class _Pair:
    """An op before and since the mark, with the spread of each by field of OpStats."""

    layer: str
    label: str
    stats: Sequence[OpStats]
    spread: Sequence[Mapping[str, float]]


def render_compare(state: ViewState, compared: Compared, width: int, *, utc: bool) -> Page:
    """The table, then the marks to choose from; the rightmost columns are left out first."""
    page = Page(ScreenFrame(list(_heading(compared, width, utc=utc))))
    if compared.means is not None and compared.means[0] is not None:
        since, before = compared.means
        page.frame.lines += [Line(), *_table([before, since], state.narrow, width)]
    _add_marks(page, state, compared.marks, width, utc=utc)
    return page


def _heading(compared: Compared, width: int, *, utc: bool) -> Iterator[Line]:
    """What is compared: from when to when, and what is missing of it."""
    mark, means, count = compared.mark, compared.means, compared.count
    line = Line(" Since ", "head").add(clock(mark.time_unix_s, utc=utc), "strong")
    line.add(f" {cut_to(safe_name(mark.text), max(8, width // 4))}", "mark")
    since, before = means or (None, None)
    if since is None:
        text = "the intervals are lost" if means else f"reading {2 * count} intervals"
        yield line.add(": no interval to show yet" if count < 1 else f": {text}", "dim")
        return
    until = clock(since.snapshot.time_unix_s, utc=utc)
    yield line.add(" to ").add(until, "strong").add(f": {_length(since)}")
    line = Line(" Before it", "head")
    if before is None:
        line.add(": nothing was measured", "warn")
    else:
        is_short = before.count < since.count
        line.add(f": {_length(before)}{', no more is kept' * is_short}", "warn" * is_short)
    yield line.add("   ± standard deviation", "dim")
    for what, mean in (("since", since), ("before", before)):
        for remark in mean.remarks if mean is not None else ():
            yield Line(f" {what}: {safe_name(remark, 200)}", "warn")


def _length(mean: Mean) -> str:
    plural = "s" * (mean.count > 1)
    return f"mean of {mean.count} interval{plural}, {mean.snapshot.interval_s:.0f} s"


def _table(means: Sequence[Mean | None], narrow: Narrow | None, width: int) -> Iterator[Line]:
    columns = _COLUMNS[: max(1, (width - _MIN_LABEL - 1) // _CELL)]
    label_width = max(_MIN_LABEL, min(_MAX_LABEL, width - 1 - len(columns) * _CELL))
    titles, sides = Line().to(label_width + 1), Line().to(label_width + 1)
    for column in columns:
        titles.right(column.title, _BEFORE + _SINCE, "head").to(titles.width + _CHANGE)
        sides.right("before", _BEFORE, "dim").right("since", _SINCE, "dim").right("", _CHANGE)
    yield from (titles, sides)
    title = ""
    for pair in _pairs(means, narrow):
        if pair.layer != title:
            title = pair.layer
            yield Line(" ").add(title, "title")
        line, below = Line(" ").left(pair.label, label_width), Line().to(label_width + 1)
        for column in columns:
            _add_cell(line, pair, column)
            for each, room in zip(pair.spread, (_BEFORE, _SINCE), strict=True):
                deviation = each.get(column.field)
                below.right(f"±{column.text(deviation)}" if deviation else "", room, "dim")
            below.right("", _CHANGE)
        yield line
        if any(pair.spread):
            yield below


def _pairs(means: Sequence[Mean | None], narrow: Narrow | None) -> Iterator[_Pair]:
    """The ops with operations on either side; those of a single row have no spread."""
    shown = [
        mean and (narrowed(mean.snapshot, narrow) if narrow else mean.snapshot) for mean in means
    ]
    sides = [snapshot.measured if snapshot else {} for snapshot in shown]
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        layers = [side.get(name) for side in sides]
        labels = {
            row.op: f"{row.direction or ' '}{row.label}"
            for layer in layers
            for row in (op_rows(layer.spec, layer.ops, "") if layer else ())
        }
        title = next(safe_name(layer.spec.title) for layer in layers if layer)
        for op, label in labels.items():
            stats = [layer.ops.get(op, OpStats()) if layer else OpStats() for layer in layers]
            spread = [
                {} if narrow or not mean else mean.spread.get((name, op), {}) for mean in means
            ]
            if any(each.count or each.bytes for each in stats):
                yield _Pair(title, label, stats, spread)


def _add_cell(line: Line, pair: _Pair, column: _Column) -> None:
    then, now = (getattr(stats, column.field) for stats in pair.stats)
    for value, room in ((then, _BEFORE), (now, _SINCE)):
        text = column.text(value)
        line.right(text, room, "dim" if text in {ZERO, UNKNOWN} else "")
    if then is None or now is None or not then:
        line.right("", _CHANGE)
        return
    change_pct = 100 * (now - then) / then
    text = f"{change_pct:+.0f}%" if now < 2 * then else f"x{min(now / then, 9999):.3g}"
    text = ZERO if abs(change_pct) < 0.5 else text
    spread = sum(each.get(column.field, 0.0) for each in pair.spread)
    style = "dim"
    if abs(change_pct) >= _NOTABLE_PCT and abs(now - then) > spread:
        style = "warn" if (now > then) == column.is_worse else "good"
    line.right(text, _CHANGE, style)


def _add_marks(
    page: Page, state: ViewState, marks: Sequence[TimelineEvent], width: int, *, utc: bool
) -> None:
    """Add a line for each mark, below the table."""
    kept = marks[:_MAX_MARKS]
    keys = [f"{mark.time_unix_s}" for mark in kept]
    head = Line(" Marks", "head").add(": Enter compares the time since the selected one", "dim")
    if len(marks) > _MAX_MARKS:
        head.add(f"; {len(marks) - _MAX_MARKS} older ones not listed", "dim")
    page.frame.lines += [Line(), head]
    chosen = chosen_in(keys, state)
    for at, (key, mark) in enumerate(zip(keys, kept, strict=True)):
        line = Line("  ").add(clock(mark.time_unix_s, utc=utc), "strong").add("  ")
        line = line.add(safe_name(mark.text), "mark").fitted(width)
        line = line.styled("sel") if at == chosen else line
        page.add(line, width, key, "compare", mark.time_unix_s)
