"""Two intervals in one table; each cell shows then, now and the change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ioh.model.player import TimelineEvent
from ioh.model.rates import scaled
from ioh.model.snapshot import OpStats, Snapshot
from ioh.sinks.cells import UNKNOWN, ZERO, clock, cut_to, display_width, format_fixed, safe_name
from ioh.sinks.rows import op_rows
from ioh.tui.render.line import Line, ScreenFrame
from ioh.tui.render.text_screens import Page, chosen_in
from ioh.tui.state import ViewState

# Title, field of OpStats, scale, decimals, and whether more of it is worse.
_COLUMNS = (
    ("MB/s", "bytes_per_s", 1e-6, 3, False),
    ("ops/s", "ops_per_s", 1.0, 1, False),
    ("avg ms", "latency_us", 1e-3, 3, True),
    ("p99 ms", "p99_us", 1e-3, 3, True),
    ("queue ms", "queue_us", 1e-3, 3, True),
)
_MIN_LABEL, _NUMBER, _CHANGE = 14, 6, 6
_CELL = 2 * (_NUMBER + 1) + _CHANGE
_MAX_MARKS = 100
_NOTABLE_PCT = 20.0  # a change that is coloured


@dataclass(frozen=True, slots=True)
class Compared:
    """The interval to compare with.

    Shape:
        ``text`` is its mark's, "" if it has none; ``marks`` to choose from, newest first.
    """

    snapshot: Snapshot
    text: str = ""
    marks: Sequence[TimelineEvent] = ()


def render_compare(
    state: ViewState, compared: Compared, now: Snapshot, width: int, *, utc: bool
) -> Page:
    """The table, then the marks to compare with; the rightmost columns are left out first."""
    then = compared.snapshot
    line = Line(" Compared: ", "head").add(clock(then.time_unix_s, utc=utc), "strong")
    if compared.text:
        line.add(f" {cut_to(safe_name(compared.text), max(8, width // 4))}", "mark")
    line.add(" with ").add(clock(now.time_unix_s, utc=utc), "strong")
    columns = _COLUMNS[: max(1, (width - _MIN_LABEL - 2) // _CELL)]
    pairs = list(_pairs(then, now))
    longest = max((display_width(label) for label, _, _ in pairs), default=0)
    label_width = max(_MIN_LABEL, min(longest, width - 2 - len(columns) * _CELL))
    head = Line(" ").left("", label_width)
    for title, *_ in columns:
        head.right(title, _CELL, "head")
    frame = ScreenFrame([line.add(". Each cell: then, now, change", "dim"), head])
    for label, before, after in pairs:
        line = Line(" ").left(label, label_width)
        for column in columns:
            _add_cell(line, before, after, column)
        frame.add(line)
    page = Page(frame)
    _add_marks(page, state, compared.marks, width, utc=utc)
    return page


def _add_marks(
    page: Page, state: ViewState, marks: Sequence[TimelineEvent], width: int, *, utc: bool
) -> None:
    """Add a line for each mark, below the table."""
    if not marks:
        return
    shown = marks[:_MAX_MARKS]
    keys = [f"{mark.time_unix_s}" for mark in shown]
    head = Line(" Marks", "head").add(": Enter compares with the selected one", "dim")
    if len(marks) > _MAX_MARKS:
        head.add(f"; {len(marks) - _MAX_MARKS} older ones not listed", "dim")
    page.frame.lines += [Line(), head]
    chosen = chosen_in(keys, state)
    for at, (key, mark) in enumerate(zip(keys, shown, strict=True)):
        line = Line("  ").add(clock(mark.time_unix_s, utc=utc), "strong").add("  ")
        line = line.add(safe_name(mark.text), "mark").fitted(width)
        line = line.styled("sel") if at == chosen else line
        page.add(line, width, key, "compare_with", mark.time_unix_s)


def _pairs(then: Snapshot, now: Snapshot) -> Iterator[tuple[str, OpStats, OpStats]]:
    for name in dict.fromkeys([*then.layers, *now.layers]):
        found: dict[str, list[OpStats]] = {}
        for at, snapshot in enumerate((then, now)):
            layer = snapshot.layer(name)
            for row in op_rows(layer.spec, layer.ops, safe_name(layer.spec.title)) if layer else ():
                pair = found.setdefault(f"{row.direction or ' '} {row.label}", [OpStats()] * 2)
                pair[at] = row.stats
        for label, (before, after) in found.items():
            if before.count or after.count or before.bytes or after.bytes:
                yield label, before, after


def _add_cell(
    line: Line, before: OpStats, after: OpStats, column: tuple[str, str, float, int, bool]
) -> None:
    _, field, scale, decimals, is_worse = column
    then, now = (scaled(getattr(stats, field), scale) for stats in (before, after))
    for value in (then, now):
        text = format_fixed(value, _NUMBER, decimals)
        line.cell(text, _NUMBER, "dim" if text in {ZERO, UNKNOWN} else "")
    if then is None or now is None or not then:
        line.right("", _CHANGE)
        return
    change_pct = 100 * (now - then) / then
    text = f"{change_pct:+.0f}%" if abs(change_pct) < 1000 else f"x{min(now / then, 9999):.0f}"
    style = "dim"
    if abs(change_pct) >= _NOTABLE_PCT:
        style = "warn" if (change_pct > 0) == is_worse else "good"
    line.right(text, _CHANGE, style)
