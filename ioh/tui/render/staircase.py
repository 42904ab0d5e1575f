"""The path as a staircase: a group for each kind of call, in it a bar for each step.

A bar begins where the one above it ends, on a scale from the begin of the mean call to its end.
Beside it are the numbers of the layer that has the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from ioh.model.file_systems import SERVED_ELSEWHERE
from ioh.model.hist import LATENCY_BUCKETS
from ioh.model.io_path import IN_OTHERS, KINDS, META, ONE_STEP, IoPath, Segment
from ioh.model.path_calls import WAITED_OPS
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot
from ioh.sinks.cells import display_width, format_duration, format_ms, format_scaled, format_share
from ioh.sinks.metrics import path_notes
from ioh.sinks.rows import all_op, beside_text, direction, is_flow, main_stats
from ioh.sinks.waits import waiting_text
from ioh.terminal.line import Line, ScreenFrame, Span, frame_of
from ioh.tui.history import Measure, series
from ioh.tui.render.box_ops import is_losing
from ioh.tui.render.fan_out import becomes
from ioh.tui.render.findings import reasons
from ioh.tui.render.histogram import Axis, axis_for, histogram_of, shaded
from ioh.tui.render.op_columns import Column, cells, fitting, titles, width_of, with_errors
from ioh.tui.render.trends import STYLES, TREND_STYLES, render_braille
from ioh.tui.render.zoom import LayersView, busy_ops, op_style
from ioh.tui.rows import LayerRow, flow_facts, layer_number, megabytes

_LETTERS = {"read": "R", "write": "W", "sync": "", META: "", **dict.fromkeys(ONE_STEP, "")}
NO_BYTES = {"sync", META}  # kinds of calls that move none
_CALLS = {"read": "read", "write": "write", "sync": "fsync", META: META, **ONE_STEP}
_SYNCS = ("fsync", "commit", "flush")
# Of reads that the page cache did not have, and of synchronous writes.
_KINDS = {"missed": "buffered", "sync": "O_SYNC"}
# The layer of each step, and of each layer the step with its numbers.
_LAYERS = {
    "syscall": "syscall",
    "page_fault": "syscall",
    "cpu_wait": "syscall",
    **dict.fromkeys(SERVED_ELSEWHERE, "syscall"),
    "nfs_queue": "nfs_client",
    "network": "tcp",
    "network_server": "tcp",
    "nfs_server": "nfs_server",
    "block_queue": "block",
    "disk_network": "block",
    "device": "block",
}
_NUMBERED = {"syscall", "nfs_queue", "network", "network_server", "nfs_server", "device"}
SHORT = {
    "waiting for a CPU": "cpu wait",
    "network + nfs server": "net+server",
    "network to disk": "net to disk",
}
_LABEL = 16  # columns of a step's number and name
_MEAN, _SHARE = 8, 6
_MIN_BAR = 10
_ROOMY = 96  # columns of a heading with all of its numbers
COLUMNS = (
    Column("MB/s", 5, lambda s: megabytes(s.bytes_per_s), rank=1),
    Column("ops/s", 5, lambda s: format_scaled(s.ops_per_s), rank=3),
    Column("p99 ms", 6, lambda s: format_ms(s.p99_us), rank=2),
)


def groups_of(view: LayersView, paths: Mapping[str, IoPath]) -> list[str]:
    """The groups to show: those with a path, and those of measured calls that pause."""
    recent = {op for name, op in busy_ops(view) if name == "syscall"}
    has_calls = "syscall" in view.snapshot.measured
    return [name for name in KINDS if name in paths or (has_calls and _CALLS[name] in recent)]


class Step(NamedTuple):
    """A step of a path, and whose numbers it has.

    Shape:
        ``key`` is the (layer, op) that it belongs to, the layer "" if it is not measured here;
        ``begin`` and ``end`` are shares of the mean call, 0 to 1.
    """

    segment: Segment
    key: tuple[str, str]
    begin: float
    end: float


def steps_of(snapshot: Snapshot, path: IoPath) -> list[Step]:
    """A path's steps, from top to bottom."""
    steps, end = list[Step](), 0.0
    for segment in path.segments:
        layer = snapshot.layer(_LAYERS[segment.name])
        key = ("", "") if layer is None else (layer.spec.name, _op_of(layer, path.direction))
        begin, end = end, end + (segment.us or 0.0) / path.mean_us
        steps.append(Step(segment, key, begin, end))
    return steps


def op_of(snapshot: Snapshot, path: IoPath) -> tuple[str, str]:
    """The (layer, op) that counts a path's calls; all of them if none waited."""
    layer = snapshot.measured[path.top]
    op = _op_of(layer, path.direction)
    return path.top, op if layer.ops.get(op, OpStats()).count else all_op(op)


def _op_of(layer: LayerSnapshot, way: str) -> str:
    """The op of a layer that stands for one of KINDS; "" if it has none."""
    if way in ONE_STEP:
        return ONE_STEP[way] if ONE_STEP[way] in layer.ops else ""
    if way == "sync":
        return next((op for op in _SYNCS if op in layer.ops), "")
    if way == META and META in layer.ops:
        return META
    letter = "R" if way == META else _LETTERS[way]  # below, directories are read
    main = (op for op, _ in main_stats(layer.spec, layer.ops))
    return next((op for op in main if direction(op) == letter), "")


class _Columns(NamedTuple):
    """The columns of a width: terminal columns of label and bar, numbers, and the histogram."""

    label: int
    bar: int
    numbers: Sequence[Column]
    axis: Axis | None


def columns_for(width: int, shown: Iterable[OpStats] = ()) -> _Columns:
    """The columns that fit; the bar gets what the others leave."""
    label = min(_LABEL, width)
    room = max(0, width - label - _MEAN - _SHARE)
    numbers = fitting(with_errors(COLUMNS, shown), room - _MIN_BAR)
    room -= width_of(numbers)
    most = min(room * 6 // 11, LATENCY_BUCKETS * 2)
    axis = axis_for(most) if most >= _MIN_BAR else None
    return _Columns(label, room - (axis.width + 2 if axis else 0), numbers, axis)


def over_text(interval_s: float) -> str:
    """The time that the numbers of an interval are of, as a finding says it: ``over 1 s``."""
    return f"over {f'{interval_s:.1f}'.removesuffix('.0')} s"


def heading_line(columns: _Columns, width: int, interval_s: float) -> Line:
    """What the columns of all groups are, and of which time."""
    line = Line(" ").add(over_text(interval_s), "dim").fitted(columns.label)
    if columns.bar >= _MIN_BAR:
        line.left("0%", columns.bar - 4, "head").add("100%", "head")
    line.right("ms/call", _MEAN, "head").right("share", _SHARE, "head")
    titles(columns.numbers, line)
    if columns.axis:
        line.add(columns.axis.heading(2), "head")
    return line.fitted(width)


def render_group(  # noqa: PLR0913, PLR0917 (one argument per thing that differs)
    view: LayersView,
    name: str,
    path: IoPath,
    columns: _Columns,
    width: int,
    share_pct: float | None = None,
) -> ScreenFrame:
    """One of KINDS: its mean call in the heading, then its steps; a click zooms in.

    ``share_pct``: its time, of that of all kinds; None for the only one.
    """
    frame = ScreenFrame([_group_heading(view, name, path, width, share_pct)])
    for step in steps_of(view.snapshot, path):
        line = _step_line(view, path, step, columns).fitted(width)
        hits = [(0, width, "zoom", "/".join(step.key))] if step.key[0] else []
        frame.add(line, *hits)
    return frame


def idle_groups(names: Sequence[str], width: int) -> ScreenFrame:
    """The kinds that pause, in one line: ``── SYNC none  COPY none ──``."""
    line = Line("── ", "rule")
    for at, name in enumerate(names):
        line.add("  " * bool(at)).add(name.upper(), STYLES[_LETTERS[name]] or "strong")
        line.add(" none", "dim")
    return ScreenFrame([_ruled(line, "", width)] if names else [])


def folded_group(
    view: LayersView, name: str, path: IoPath, width: int, share_pct: float | None = None
) -> ScreenFrame:
    """A group in one line, with its longest step; a click zooms into that one's layer."""
    line = _group_heading(view, name, path, width, share_pct, is_folded=True)
    slowest = max(steps_of(view.snapshot, path), key=lambda step: step.end - step.begin)
    hits = [(0, width, "zoom", "/".join(slowest.key))] if slowest.key[0] else []
    return frame_of(line, *hits)


def _group_heading(  # noqa: PLR0913 (one argument per thing that differs)
    view: LayersView,
    name: str,
    path: IoPath,
    width: int,
    share_pct: float | None,
    *,
    is_folded: bool = False,
) -> Line:
    """``── READ 4.10 ms × 150/s = 0.615 at a time, 91% of I/O time  mostly 1M direct ──``."""
    style = STYLES[_LETTERS[name]] or "strong"
    if is_folded and view.state.chosen in {x.key for x in steps_of(view.snapshot, path)}:
        style = op_style(view, view.state.chosen)
    line = Line("── ", "rule").add(name.upper(), style)
    line.add(f" {format_duration(path.mean_us)}", "strong").add(
        f" × {format_scaled(path.ops_per_s)}/s"
    )
    # In progress on average: comparable between groups.
    if width >= _ROOMY:
        line.add(f" = {format_scaled(path.ops_per_s * path.mean_us / 1e6)} at a time")
    if share_pct is not None:
        line.add(f", {format_share(share_pct)} of I/O time")
    slowest = path.slowest
    title = SHORT.get(slowest.title, slowest.title)
    has_steps = is_folded and path.direction not in ONE_STEP
    longest = [(f"◂ {title} {path.share_pct(slowest) or 0:.0f}%", "")] * has_steps
    size, *facts = _facts(view.snapshot, path) or [("", "")]
    # The size is a fact, and of a step without a known time its row says so.
    shown = (note for note in path_notes(path) if not note.startswith("mostly "))
    notes = [note for note in shown if not note.endswith(IN_OTHERS)]
    notes = _with_cache(view.snapshot, path, notes)
    # The most important first; those that do not fit are left out.
    left, right = [*longest, size], list[str]()
    room = width - line.width - sum(display_width(text) + 2 for text, _ in left) - 4
    shortest = notes[0].partition(",")[0].partition(":")[0] if notes else ""
    least, more = display_width(shortest) + 2, room + display_width(size[0]) + 2
    # What came from cache matters more than a size, and half a size is none (3: the end).
    if is_folded and (room < -3 or (notes and room < least <= more)):
        left, room = longest, more
    for text, style, is_note in [
        *((note, "", True) for note in notes[:1]),
        *((text, style, False) for text, style in facts),
        *((note, "", True) for note in notes[1:]),
    ]:
        forms = (text, text.partition(",")[0], text.partition(":")[0]) if is_note else (text,)
        short = next((form for form in forms if display_width(form) + 2 <= room), "")
        if short and is_note:
            right.append(short)
        elif short:
            left.append((text, style))
        room -= display_width(short) + 2 if short else 0
    for text, style in filter(itemgetter(0), left):
        line.add("  ").add(text, style)
    return _ruled(line, "  ".join(right), width)


def _with_cache(snapshot: Snapshot, path: IoPath, notes: list[str]) -> list[str]:
    """Notes with the share of the bytes read that came from memory, if it is known, first."""
    layer = snapshot.layer(path.top)
    share_pct = layer.metrics.get("cached_pct") if layer and path.direction == "read" else None
    if share_pct is None:
        return notes
    share = "nothing from cache" if share_pct == 0 else f"{format_share(share_pct)} from cache"
    if path.cached is None:
        return [share, *notes]
    # Calls that did not wait, and none of their bytes from memory: read-ahead had just read them.
    word = " of " if share_pct else " read ahead, "
    return [f"{share}, {notes[0].removeprefix('+ ').replace(' cached, ', word)}", *notes[1:]]


def _ruled(line: Line, note: str, width: int) -> Line:
    end = f" {note} " if note else ""
    line.add(" ").add("─" * (width - line.width - display_width(end) - 2 * bool(end)), "rule")
    return line.add(end, "dim").add("──" * bool(end), "rule").fitted(width)


def _facts(snapshot: Snapshot, path: IoPath) -> list[Span]:
    """The commonest size and kind of the calls, what each becomes below, and their throughput."""
    layer = snapshot.layer(path.top)
    if layer is None or path.direction in {"sync", META}:
        return []
    op = _op_of(layer, path.direction)
    kinds = [each for each in WAITED_OPS.get(path.direction, ()) if each in layer.ops]
    kind = max(kinds, key=lambda each: layer.ops[each].bytes or 0, default="")
    word = kind.rpartition("_")[2] if kind and layer.ops[kind].bytes else ""
    size = format_scaled(path.size_bytes, 1024) if path.size_bytes else ""
    what = f"{size} {_KINDS.get(word, word)}".strip()
    facts = [(f"mostly {what}" if size else what, "")]
    for text, style in becomes(snapshot, layer, op):
        whole, _, pieces = text.strip().partition(" → ")
        calls = whole.removesuffix(f" of {size}")  # the size is in the heading
        is_one = calls != whole and calls.startswith("1 ")
        facts.append((f"→ {pieces}" if is_one else f"{calls} → {pieces}", style))
    if rate := _stats_of(layer, op).bytes_per_s:
        facts.append((f"{megabytes(rate)} MB/s", ""))
    return facts


def _stats_of(layer: LayerSnapshot, op: str) -> OpStats:
    """An op's numbers; of all calls if none waited."""
    stats = layer.ops.get(op, OpStats())
    return stats if stats.count or all_op(op) == op else layer.ops.get(all_op(op), stats)


def _step_line(view: LayersView, path: IoPath, step: Step, columns: _Columns) -> Line:
    segment, (name, op) = step.segment, step.key
    layer = view.snapshot.layer(name) if name else None
    line = _label(view, path.direction, step, columns.label)
    if columns.bar >= _MIN_BAR:
        line.add_all(_bar(view, path, step, columns.bar))
    line.right(format_ms(segment.us), _MEAN, "strong")
    line.right(format_share(path.share_pct(segment)), _SHARE)
    # Of metadata, other numbers than these calls' would only mislead.
    is_others = path.direction == META and (op != META or (step.key[0] == path.top and path.cached))
    if layer is None or not op or segment.name not in _NUMBERED or is_others:
        return line
    if is_flow(layer.spec):
        return _add_flow(line, layer, op, columns)
    return _add_numbers(line, layer, op, columns)


def _label(view: LayersView, way: str, step: Step, width: int) -> Line:
    """`` 3 network``: the layer's key, red or amber beside it if a finding is about it."""
    name, line, title = step.key[0], Line(), step.segment.title
    marks = reasons(view.snapshot.findings, name, way)[:1] if name else []
    for text, style in marks if step.segment.name in _NUMBERED else ():
        line.add(text[1], style)
    line.to(1).add(str(layer_number(view.snapshot, name)) if name else " ", "key").add(" ")
    title = title if display_width(title) < width - 3 else SHORT.get(title, title)
    is_chosen = step.segment.name in _NUMBERED and step.key == view.state.chosen
    line.left(
        title,
        min(width - 4, display_width(title)),
        op_style(view, step.key) if is_chosen else "title",
    )
    return line.to(width)


def _bar(view: LayersView, path: IoPath, step: Step, width: int) -> Iterator[tuple[str, str]]:
    """The step's place in the mean call, to half a column; in words if it is not known."""
    if not step.segment.us:
        yield f"{IN_OTHERS if step.segment.us is None else '':{width}}"[:width], "dim"
        return
    begin = min(round(2 * width * step.begin), 2 * width - 1)
    end = max(begin + 1, min(2 * width, round(2 * width * step.end)))
    text = "▐" if begin % 2 else ""
    text += "█" * ((end - begin - len(text)) // 2)
    text += "▌" if end % 2 else ""
    yield " " * (begin // 2), ""
    yield text, _bar_style(view, path, step)
    yield " " * (width - begin // 2 - len(text)), ""


def _bar_style(view: LayersView, path: IoPath, step: Step) -> str:
    """The finding's colour on the longest step if one is about its layer, else the direction's."""
    letter = _LETTERS[path.direction]
    if step.segment is not path.slowest:
        return TREND_STYLES[letter]
    name, findings = step.key[0], view.snapshot.findings
    marks = reasons(findings, name, path.direction) if name else []
    return next(
        (style for _, style in marks if style in {"warn", "crit"}), STYLES[letter] or "strong"
    )


def _add_numbers(line: Line, layer: LayerSnapshot, op: str, columns: _Columns) -> Line:
    """The layer's own numbers and latencies."""
    stats = _stats_of(layer, op)
    cells(columns.numbers, stats, line)
    hist = histogram_of(layer, stats)
    if columns.axis and hist:
        counts = hist.by_latency()
        style = STYLES[direction(op)]
        shaded(line.add("  "), counts, columns.axis, style, largest=max(counts))
    return line


def _add_flow(line: Line, layer: LayerSnapshot, op: str, columns: _Columns) -> Line:
    """Throughput, then round trip and retransmits in the place of latencies."""
    cells(columns.numbers[:1], layer.ops.get(op, OpStats()), line)
    room = width_of(columns.numbers[1:]) + (columns.axis.width if columns.axis else 0)
    style = "crit" if is_losing(layer) else "dim"
    facts = [(text, style) for text in flow_facts(layer, "W")]
    facts = [*facts[:1], *((text, "dim") for text in flow_facts(layer, "R")), *facts[1:]]
    for text, kind in facts:
        if (room := room - display_width(text) - 2) < -1:
            break
        line.add(" " if text is facts[0][0] else "  ").add(text, kind)
    return line


def render_rows(
    view: LayersView, rows: Sequence[LayerRow], columns: _Columns, width: int, *, has_title: bool
) -> ScreenFrame:
    """Lines for layers without a step: databases, servers of others, what waits or fails."""
    frame, before = ScreenFrame(), ""
    if has_title and rows and len({row.layer for row in rows}) < len(view.snapshot.measured):
        frame.add(_ruled(Line("── ", "rule").add("OTHER LAYERS", "dim"), "", width))
    for row in rows:
        layer = view.snapshot.layer(row.layer)
        line = _row_label(view, row, columns.label, is_first=row.layer != before)
        if layer is not None:
            _add_row(view, line, layer, row, columns)
        frame.add(line.fitted(width), (0, width, "zoom", f"{row.layer}/{row.op}"))
        before = row.layer
    return frame


def _add_row(
    view: LayersView, line: Line, layer: LayerSnapshot, row: LayerRow, columns: _Columns
) -> None:
    stats, is_idle = row.stats, row.stats.count == 0 and not row.stats.errors_per_s
    beside = beside_text(layer.spec, layer.ops, row.op)
    if waiting := waiting_text(layer, row.op):
        line.add(waiting, "warn")
        if not stats.errors_per_s:
            return
    elif is_idle and beside:
        line.add(beside, "dim")
        return
    if columns.bar >= _MIN_BAR:
        measure: Measure = "bytes_per_s" if layer.spec.has_bytes else "ops_per_s"
        values = series(view.points, row.key, measure)
        bars = render_braille(values, min(30, columns.bar - 1), view.tick)
        line.left(
            bars, max(0, columns.label + columns.bar - line.width), TREND_STYLES[row.direction]
        )
    if is_flow(layer.spec):
        _add_flow(line.right("", _MEAN + _SHARE), layer, row.op, columns)
        return
    is_dim = "dim" if is_idle else "strong"
    line.right("." if is_idle else format_ms(stats.latency_us), _MEAN, is_dim)
    _add_numbers(line.right("", _SHARE), layer, row.op, columns)


def _row_label(view: LayersView, row: LayerRow, width: int, *, is_first: bool) -> Line:
    """`` 2 nfs client  R``: the layer's name on its first line, the op's letter on each."""
    spec, line = view.snapshot.specs[row.layer], Line()
    letter = row.op if is_flow(spec) else (row.direction or row.op)
    if is_first:
        for text, kind in reasons(view.snapshot.findings, row.layer)[:1]:
            line.add(text[1], kind)
        line.to(1).add(f"{layer_number(view.snapshot, row.layer)} ", "key")
        line.left(spec.title, max(0, width - 5 - len(letter)), "title")
    return line.to(width - 1 - len(letter)).add(letter, op_style(view, row.key)).add(" ")
