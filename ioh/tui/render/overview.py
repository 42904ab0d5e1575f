"""The first screen: the path, a box for each busy layer, and who does it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ioh.model.call_means import name_of
from ioh.model.finding import Failed
from ioh.model.io_path import ONE_STEP, IoPath
from ioh.model.metric import LayerSpec
from ioh.model.path import paths_and_failures
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.sinks.cells import format_ms
from ioh.sinks.metrics import render_failure
from ioh.sinks.rows import direction, is_flow, is_of_all
from ioh.sinks.waits import waiting_text
from ioh.terminal.line import GAP, Hit, Line, ScreenFrame, beside, clipped
from ioh.tui.history import call_series
from ioh.tui.render.box import Box, Trend, boxed, render_trend_lines, trend_of, trends_of
from ioh.tui.render.box_db import DB, PG
from ioh.tui.render.box_ops import FLOW, OPS
from ioh.tui.render.staircase import (
    NO_BYTES,
    columns_for,
    folded_group,
    groups_of,
    heading_line,
    idle_groups,
    op_of,
    render_group,
    render_rows,
    steps_of,
)
from ioh.tui.render.status import render_status, starting_layers
from ioh.tui.render.trends import TREND_STYLES
from ioh.tui.render.who import breakdown
from ioh.tui.render.zoom import LayersView, folded, panel, shown_layer
from ioh.tui.rows import LayerRow, first_op, layer_rows

_OWN_BOXES = {"db": DB, "pg": PG}
_MIN_BOX = 38  # columns
_MIN_BOX_LINES, _MIN_WHO = 7, 6
_MIN_HEAT, _MOST_HEAT = 7, 16  # lines of the latencies over time
_MIN_BOXES = 116  # columns of the screen
_TWO_GROUPS = 160  # columns for groups side by side
_TRENDS = 4
_NOTABLE_PCT = 1.0  # of the time of all kinds: with less, no bar is worth a look
_PER_STATUS = 9  # lines of the screen for one of the status
_ROOMY = 20  # lines of a box
_CHOSEN = {"sel", "sel2"}  # styles


def render_overview(view: LayersView, width: int, height: int) -> ScreenFrame:
    """Exactly ``height`` lines: the path, then boxes or trends, then a breakdown."""
    (every, failures), whole = _paths(view.snapshot), view
    view = folded(view)
    status = render_status(whole, view, every, width, height // _PER_STATUS)
    room = height - len(status)
    boxes = _box_rows(view, width)
    with_boxes = room - _MIN_WHO - _MIN_BOX_LINES * len(boxes)
    # What is in no group has a box, and a line only if it waits or fails.
    rest, spare = _rest(view, every, in_boxes=bool(boxes)), 0 if boxes else _TRENDS
    frame = _path(view, every, rest, width, with_boxes, spare=spare)
    if boxes and len(frame.lines) > with_boxes:
        most = room - _MIN_WHO
        boxes, frame = [], _path(view, every, _rest(view, every), width, most, spare=_TRENDS)
    frame.lines += [Line(render_failure(each), "warn").fitted(width) for each in failures]
    left = room - len(frame.lines) - _MIN_WHO
    if boxes:
        frame.below(_grid(view, boxes, width, left))
    elif every:
        frame.below(_trends(view, every, width, left + 1))
    frame.below(_who(view, width, room - len(frame.lines)))
    frame = clipped(frame, room)
    frame.lines += status
    return clipped(frame, height)


def choices(view: LayersView) -> list[tuple[str, str]]:
    """The (layer, op) of all lines that can be chosen, from top to bottom."""
    every, _ = _paths(view.snapshot)
    view = folded(view)
    steps = [step.key for path in every.values() for step in steps_of(view.snapshot, path)]
    keys = [*(key for key in steps if all(key)), *(row.key for row in _rest(view, every))]
    return list(dict.fromkeys(keys))


def _paths(snapshot: Snapshot) -> tuple[dict[str, IoPath], tuple[Failed, ...]]:
    """The paths, once the calls are measured: without them, the device has all of the time."""
    return ({}, ()) if "syscall" in starting_layers(snapshot) else paths_and_failures(snapshot)


def _path(  # noqa: PLR0913 (one argument per thing that differs)
    view: LayersView,
    every: dict[str, IoPath],
    rest: Sequence[LayerRow],
    width: int,
    height: int,
    *,
    spare: int = 0,
) -> ScreenFrame:
    """All groups, and ``rest``; those with least time fold if not all lines fit.

    All but the one with most also fold to spare some lines for trends, and those with next to none.
    """
    is_wide = width >= _TWO_GROUPS and len(every) > 1
    wide = (width - GAP) // 2 if is_wide else width
    layers = view.snapshot.measured.values()
    columns = columns_for(wide, (stats for layer in layers for stats in layer.ops.values()))
    names = groups_of(view, every)
    rows = render_rows(view, rest, columns, wide, has_title=not spare)
    high = {name: 1 + (name not in ONE_STEP) * len(path.segments) for name, path in every.items()}
    by_time, shares = _by_time(every), _shares(every)
    pausing = [name for name in names if name not in every and (not spare or name not in ONE_STEP)]
    idle = idle_groups(pausing, wide)

    def is_over(most: int) -> bool:
        return _height([*high.values(), len(idle.lines), len(rows.lines)], is_wide=is_wide) >= most

    while by_time and (
        shares.get(by_time[0], 100) < _NOTABLE_PCT
        or is_over(height if len(by_time) == 1 else height - spare)
    ):
        high[by_time.pop(0)] = 1
    groups = [
        folded_group(view, name, every[name], wide, shares.get(name))
        if high[name] == 1
        else render_group(view, name, every[name], columns, wide, shares.get(name))
        for name in names
        if name in every
    ]
    frame = _arranged([*groups, idle, rows], wide, is_wide=is_wide)
    if not frame.lines:
        return frame
    frame = _around_choice(frame, max(1, height - 1))
    head = heading_line(columns, wide, view.snapshot.interval_s)
    with_head = ScreenFrame([Line().extend(head).to(wide + GAP).extend(head) if is_wide else head])
    with_head.below(frame)
    return with_head


def _shares(every: dict[str, IoPath]) -> dict[str, float]:
    """Each group's share of the time of all of them, in percent; {} if there is only one."""
    times = {name: _us_per_s(path) for name, path in every.items()}
    total = sum(times.values())
    return {name: 100 * us / total for name, us in times.items() if total and len(times) > 1}


def _by_time(every: dict[str, IoPath]) -> list[str]:
    """The groups by the time that all of their calls take, the longest last."""
    return sorted(every, key=lambda name: _us_per_s(every[name]))


def _us_per_s(path: IoPath) -> float:
    """The time of all calls of a kind, also of those beside the path: it may be most of it."""
    cached = path.cached.ops_per_s * path.cached.mean_us if path.cached else 0.0
    return path.ops_per_s * path.mean_us + cached


def _around_choice(frame: ScreenFrame, height: int) -> ScreenFrame:
    """The lines around the chosen one, if not all fit."""
    lines = frame.lines
    chosen = (y for y, x in enumerate(lines) if any(kind in _CHOSEN for _, kind in x.spans))
    first = max(0, min(next(chosen, 0) - height // 2, len(lines) - height))
    hits = [hit.moved(0, -first) for hit in frame.hits if hit.y >= first]
    return ScreenFrame(lines[first:], hits)


def _height(pieces: Sequence[int], *, is_wide: bool) -> int:
    """The lines that pieces of these heights take."""
    left = right = 0
    for piece in pieces:
        if is_wide and left > right:
            right += piece
        else:
            left += piece
    return max(left, right)


def _arranged(pieces: Sequence[ScreenFrame], columns: int, *, is_wide: bool) -> ScreenFrame:
    """One below the other, or in two columns of about the same height."""
    left, right = ScreenFrame(), ScreenFrame()
    for piece in pieces:
        is_left = not is_wide or len(left.lines) <= len(right.lines)
        (left if is_left else right).below(piece)
    return beside(left, columns, right) if right.lines else left


def _rest(view: LayersView, every: dict[str, IoPath], *, in_boxes: bool = False) -> list[LayerRow]:
    """The rows of what is in no group, and of what waits or fails without a path."""
    snapshot, write = view.snapshot, every.get("write")
    has_writes = write is not None and write.is_written_back
    keys = {step.key for path in every.values() for step in steps_of(snapshot, path)}
    layers = {layer for layer, _ in keys}
    rows, every_row = list[LayerRow](), layer_rows(snapshot)
    busy = {row.layer for row in every_row if row.stats.count}
    for row in every_row:
        layer = snapshot.layer(row.layer)
        if layer is None or row.key in keys:
            continue
        is_told = waiting_text(layer, row.op) or row.stats.errors_per_s
        # Of an idle layer one row; of others those with operations.
        is_first = row.layer not in {*layers, *busy, *(each.layer for each in rows)}
        is_busy = row.stats.count != 0
        if row.layer in layers:  # its other direction has a step: of this one nothing else tells
            is_busy = bool(row.stats.count) and not is_flow(layer.spec)
            is_busy &= row.direction != "W" or not has_writes
        if is_told or (not in_boxes and (is_first or is_busy)):
            rows.append(row)
    return rows


def _who(view: LayersView, width: int, room: int) -> ScreenFrame:
    """The breakdown; above it, latencies over time if there are many lines to fill."""
    frame, layer, high = ScreenFrame(), shown_layer(view), min(room // 2, _MOST_HEAT)
    if high >= _MIN_HEAT and layer is not None:
        kind = "graph" if is_flow(layer.spec) else "heat"
        frame = clipped(panel(view, width, high, kind), high)
    if room - len(frame.lines) >= _MIN_WHO - 3:
        frame.below(breakdown(view, width, room - len(frame.lines)))
    return frame


def _box_rows(view: LayersView, width: int) -> list[list[LayerSnapshot]]:
    """The busy layers in rows of about the same length; none on a narrow screen."""
    busy = list(view.snapshot.measured.values()) if width >= _MIN_BOXES else []
    if not busy:
        return []
    count = -(-len(busy) // (width // _MIN_BOX))
    across = -(-len(busy) // count)
    return [busy[at : at + across] for at in range(0, len(busy), across)]


def _grid(
    view: LayersView, rows: Sequence[Sequence[LayerSnapshot]], width: int, room: int
) -> ScreenFrame:
    """A box for each layer; each row of them as high as it needs, if there is room."""
    frame, middle = ScreenFrame(), 5 if room < _ROOMY * len(rows) else 8
    for at, row in enumerate(rows):
        ends = [width * (place + 1) // len(row) for place in range(len(row))]
        trends = [trends_of(box_of(layer.spec), view, layer) for layer in row]
        # Not more lines at times, not fewer: boxes do not move as sizes come and go.
        high = min(
            3 + middle + max(map(len, trends)), (room - len(frame.lines)) // (len(rows) - at)
        )
        made, begin = ScreenFrame(), 0
        for layer, own, end in zip(row, trends, ends, strict=True):
            piece = boxed(box_of(layer.spec), view, layer, own, end - begin, high)
            clicked = "/".join(first_op(view.snapshot, layer.spec.name))
            piece.hits = [Hit(y, 0, end - begin, "choose", clicked) for y in range(high)]
            made = beside(made, begin, piece, gap=0)
            begin = end
        frame.below(made)
    return frame


def box_of(spec: LayerSpec) -> Box:
    """A layer's own box, or the box of its kind."""
    return _OWN_BOXES.get(spec.name) or (FLOW if is_flow(spec) else OPS)


def _trends(view: LayersView, every: dict[str, IoPath], width: int, room: int) -> ScreenFrame:
    """The last minute of each group's mean and throughput, first of the one with most time."""
    trends = []
    for rank, name in enumerate(reversed(_by_time(every))):
        layer, op = key = op_of(view.snapshot, every[name])
        word = "all " * is_of_all(view.snapshot.measured[layer], op) + name.upper()
        style, values = TREND_STYLES[direction(op)], call_series(view.points, name_of(every[name]))
        trends.append(Trend(f"{name.upper()} ms", style, values, format_ms, 2 * rank))
        if name not in NO_BYTES:
            trends.append(trend_of(view, key, "bytes_per_s", f"{word} MB/s", 2 * rank + 1))
    count = min(len(trends), room - 1, _TRENDS)
    if count < 1:
        return ScreenFrame()
    head, *lines = render_trend_lines(trends, view, width - 2, count + 1, has_head=True)
    line = Line("── ", "rule").add("TREND ", "title")
    for found in re.finditer(r"\S+( \S+)*", head.text):
        line.add("─" * (found.start() - line.width), "rule").add(f" {found[0]} ", "head")
    line.add("─" * (width - line.width), "rule")
    return ScreenFrame([line.fitted(width), *(Line(" ").extend(each) for each in lines)])
