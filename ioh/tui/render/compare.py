"""The time since a mark beside as long before it: means, how much intervals differ, and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ioh.model.player import Mean, Means, TimelineEvent
from ioh.model.rates import scaled
from ioh.model.snapshot import OpStats
from ioh.sinks.cells import UNKNOWN, ZERO, clock, cut_to, format_scaled, safe_name
from ioh.sinks.rows import op_rows
from ioh.terminal.line import Line, ScreenFrame
from ioh.tui.drill_down import narrowed
from ioh.tui.render.text_screens import Page, chosen_in
from ioh.tui.state import Narrow, ViewState

# Title, field of OpStats, scale, and whether more of it is worse; None: neither.
_Column = tuple[str, str, float, bool | None]
_COLUMNS: Sequence[_Column] = (
    ("MB/s", "bytes_per_s", 1e-6, False),
    ("ops/s", "ops_per_s", 1.0, None),
    ("mean ms", "latency_us", 1e-3, True),
    ("p99 ms", "p99_us", 1e-3, True),
    ("queue ms", "queue_us", 1e-3, True),
)
_LABEL, _NUMBER, _CHANGE = 20, 7, 6  # columns
_CELL = 2 * _NUMBER + _CHANGE
_MAX_MARKS = 100
_NOTABLE = 0.2  # a change that is coloured, if it is also larger than the spreads
_COUNTS_FROM = 0.01  # share of the longest time of an op; the changes of less are not coloured


@dataclass(frozen=True, slots=True)
class Compared:
    """What to compare.

    Shape:
        ``mark`` and all ``marks``, newest first; ``means`` of the ``count`` intervals since the
        mark and of as many before it, None of each if there are none, None while they are read.
    """

    mark: TimelineEvent
    marks: Sequence[TimelineEvent]
    means: Means | None
    count: int


def render_compare(state: ViewState, compared: Compared, width: int, *, utc: bool) -> Page:
    """The table, then the marks to choose from; the rightmost columns are left out first."""
    page = Page(ScreenFrame(list(_heading(compared, width, utc=utc))))
    if compared.means is not None and compared.means[0] is not None:
        page.frame.lines += [*_table(compared.means[::-1], state.narrow, width)]
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
    is_short = before is not None and before.count < since.count
    text = "nothing was measured" if before is None else _length(before)
    line = Line(" Before it", "head").add(f": {text}", "" if before and not is_short else "warn")
    line.add(", no more is kept" * is_short, "warn").add("   ± standard deviation", "dim")
    yield line
    for what, mean in (("since", since), ("before", before)):
        for remark in mean.remarks if mean is not None else ():
            yield Line(f" {what}: {safe_name(remark, 200)}", "warn")


def _length(mean: Mean) -> str:
    plural = "s" * (mean.count > 1)
    return f"mean of {mean.count} interval{plural}, {mean.snapshot.interval_s:.0f} s"


def _table(means: Sequence[Mean | None], narrow: Narrow | None, width: int) -> Iterator[Line]:
    """Columns that are left out, then each layer's ops with operations on either side.

    Those of a single row have no spread.
    """
    columns = _COLUMNS[: max(1, (width - _LABEL) // _CELL)]
    titles, sides = Line().to(_LABEL), Line().to(_LABEL)
    cut = ", ".join(title for title, *_ in _COLUMNS[len(columns) :])
    yield Line(f" {cut}: from {_LABEL + _CELL * len(_COLUMNS)} columns" if cut else "", "dim")
    for title, *_ in columns:
        titles.right(title, 2 * _NUMBER, "head").to(titles.width + _CHANGE)
        sides.right("before", _NUMBER, "dim").right("since", _NUMBER, "dim").right("", _CHANGE)
    yield from (titles, sides)
    seen = [
        mean and (narrowed(mean.snapshot, narrow) if narrow else mean.snapshot) for mean in means
    ]
    ops = [layer.ops.values() for each in seen if each for layer in each.measured.values()]
    least_us = _COUNTS_FROM * max(map(_us_per_s, chain.from_iterable(ops)), default=0.0)
    for name in dict.fromkeys(name for each in seen if each for name in each.measured):
        layers = [each.layer(name) if each else None for each in seen]
        rows = [row for x in layers if x for row in op_rows(x.spec, x.ops, "")]
        title = next(safe_name(x.spec.title) for x in layers if x)
        for op, label in {row.op: f"{row.direction or ' '}{row.label}" for row in rows}.items():
            stats = [x.ops.get(op, OpStats()) if x else OpStats() for x in layers]
            spread = [
                mean.spread.get((name, op), {}) if mean and not narrow else {} for mean in means
            ]
            if any(each.count or each.bytes for each in stats):
                yield from [Line(" ").add(title, "title")] * bool(title)
                line = Line(" ").left(label, _LABEL - 1)
                counts = max(map(_us_per_s, stats)) >= least_us or not any(
                    x.latency_us for x in stats
                )
                yield from _row(line, stats, spread, columns, counts=counts)
                title = ""


def _row(
    line: Line,
    stats: Sequence[OpStats],
    spread: Sequence[Mapping[str, float]],
    columns: Sequence[_Column],
    *,
    counts: bool,
) -> Iterator[Line]:
    """An op's numbers before and since and each change; if it ``counts``, coloured, with spread.

    More operations per second are neither better nor worse: large ones may have been split.
    """
    below = Line().to(line.width)
    for _, number, scale, is_worse in columns:
        then, now = (scaled(getattr(each, number), scale) for each in stats)
        ranges = [scaled(each.get(number), scale) or 0.0 for each in spread]
        for value, deviation in zip((then, now), ranges, strict=True):
            text = format_scaled(value)
            line.right(text, _NUMBER, "dim" if text in {ZERO, UNKNOWN} else "")
            known = deviation and text != UNKNOWN
            below.right(f"±{format_scaled(deviation)}" if known else "", _NUMBER, "dim")
        style = "dim"
        least = max(_NOTABLE * (then or 0.0), sum(ranges))
        is_judged = counts and is_worse is not None
        if is_judged and then and now is not None and abs(now - then) > least:
            style = "warn" if (now > then) == is_worse else "good"
        line.right(_change(then, now), _CHANGE, style)
        below.right("", _CHANGE)
    yield line
    if counts and any(spread):
        yield below


def _us_per_s(stats: OpStats) -> float:
    """The time of all operations; 0 if it is not known."""
    return (stats.ops_per_s or 0.0) * (stats.latency_us or 0.0)


def _change(then: float | None, now: float | None) -> str:
    """``+12%``, ``-97%``, ``x2.28``, ``.`` for none; "" if not known."""
    if not then or now is None:
        return ""
    ratio = now / then
    if ratio >= 2:
        return f"x{format_scaled(ratio)}" if ratio < 1000 else ">x999"
    if 0 < ratio < 0.01:
        return "<-99%"
    return ZERO if abs(ratio - 1) < 0.005 else f"{100 * (ratio - 1):+.0f}%"


def _add_marks(
    page: Page, state: ViewState, marks: Sequence[TimelineEvent], width: int, *, utc: bool
) -> None:
    """Add a line for each mark, below the table."""
    keys = [f"{mark.time_unix_s}" for mark in marks[:_MAX_MARKS]]
    head = Line(" Marks", "head").add(": Enter compares the time since the selected one", "dim")
    if len(marks) > _MAX_MARKS:
        head.add(f"; {len(marks) - _MAX_MARKS} older ones not listed", "dim")
    page.frame.lines += [Line(), head]
    chosen = chosen_in(keys, state)
    for at, (key, mark) in enumerate(zip(keys, marks, strict=False)):
        line = Line("  ").add(clock(mark.time_unix_s, utc=utc), "strong").add("  ")
        line = line.add(safe_name(mark.text), "mark").fitted(width)
        line = line.styled("sel") if at == chosen else line
        page.add(line, width, key, "compare", mark.time_unix_s)
