"""The first screen: where the time goes, and a box or lines for each layer."""

from __future__ import annotations

from ioh.model.metric import LayerSpec
from ioh.model.sample import SOON, Unavailable
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.sinks.cells import display_width, safe_name
from ioh.sinks.rows import is_flow
from ioh.tui.render.box import TABLE_FROM, Box, border_of, content_of
from ioh.tui.render.box_db import DB, PG
from ioh.tui.render.box_ops import FLOW, OPS
from ioh.tui.render.fan_out import fan_out
from ioh.tui.render.findings import reasons
from ioh.tui.render.layer_lines import render_layer_lines
from ioh.tui.render.line import Click, Hit, Line, ScreenFrame, Span, clipped, frame_of
from ioh.tui.render.waterfall import render_waterfall
from ioh.tui.render.who import breakdown, breakdown_name
from ioh.tui.render.zoom import LayersView, busy_ops, folded
from ioh.tui.rows import layer_rows

_OWN_PANELS = {"db": DB, "pg": PG}
_SIDES = 4  # columns of a box's sides, each with a space

_MIN_WIDTH = 76  # of a box
_WIDE = 100  # from this width even a low box shows more than lines
_MIN_HEIGHT, _MIN_NARROW = 5, 12  # of a box with its borders, if wide and if not
_MIN_BREAKDOWN = 5
_INACTIVE = 11  # columns of the word
_MIN_WATERFALL = 12  # lines needed for the bars


def render_overview(view: LayersView, width: int, height: int) -> ScreenFrame:
    """Exactly ``height`` lines: boxes if they fit, else lines."""
    starting = _starting(view.snapshot)
    bars = []
    if "syscall" not in starting:  # without the calls, the device has all of the time
        bars = render_waterfall(view.snapshot, {op for _, op in busy_ops(view)}, width)
    view = folded(view)
    shown = list(view.snapshot.measured.values())
    inactive = _inactive(view, width)
    needed = len(inactive) + (_MIN_HEIGHT if width >= _WIDE else _MIN_NARROW) * len(shown)
    has_boxes = bool(shown) and width >= _MIN_WIDTH and height - len(bars) + 1 >= needed
    if not has_boxes:
        rows = sum(1 for row in layer_rows(view.snapshot) if row.op)
        needed = len(inactive) + 1 + rows + _MIN_BREAKDOWN
    if height < _MIN_WATERFALL:
        bars = []
    elif height - len(bars) < needed:  # reads and writes matter most
        bars = bars[:-1]
    frame, room = ScreenFrame(bars), height - len(bars)
    if has_boxes:
        frame.below(_boxes(view, shown, width, room - len(inactive)))
        frame.lines += inactive
    else:
        frame.below(_lines(view, inactive, width, room))
    return clipped(frame, height)


def _inactive(view: LayersView, width: int) -> list[Line]:
    """One line for all layers that are not shown, with the reasons if they fit."""
    snapshot, line = view.snapshot, Line()
    starting = _starting(snapshot)
    if starting:
        line.left(" starting", _INACTIVE, "accent")
        titles = (safe_name(snapshot.title(name)) for name in starting)
        line.add(", ".join(titles), "accent")
    missing: dict[str, list[str]] = {}
    for name, layer in snapshot.layers.items():
        if isinstance(layer, Unavailable) and name not in starting:
            title = safe_name(snapshot.title(name))
            missing.setdefault(safe_name(layer.reason), []).append(title)
    if missing:
        text = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in missing.items())
        if display_width(text) > width - line.width - _INACTIVE:
            text = ", ".join(name for names in missing.values() for name in names)
        line.left(" inactive", _INACTIVE, "dim").add(text, "dim")
    return [line.fitted(width)] if line.width else []


def _starting(snapshot: Snapshot) -> list[str]:
    """Names of the layers that will have numbers soon: their probes are being compiled."""
    layers = snapshot.layers.items()
    return [name for name, x in layers if isinstance(x, Unavailable) and x.hint == SOON]


def _boxes(view: LayersView, shown: list[LayerSnapshot], width: int, room: int) -> ScreenFrame:
    """Boxes of equal height; the first ones get the spare lines.  A click chooses the layer."""
    frame = ScreenFrame()
    each, left = divmod(room, len(shown))
    ops = {row.layer: row.op for row in reversed(layer_rows(view.snapshot))}
    ops[view.state.chosen[0]] = view.state.chosen[1]
    for at, (layer, below) in enumerate(zip(shown, [*shown[1:], None], strict=True)):
        high, name = each + (at < left), layer.spec.name
        piece = boxed(view, layer, below, width, high)
        if name in ops:
            argument = f"{name}/{ops[name]}"
            piece.hits += [Hit(y, 0, width, "choose", argument) for y in range(high)]
        frame.below(piece)
    return frame


def box_of(spec: LayerSpec) -> Box:
    """A layer's own box, or the box of its kind."""
    return _OWN_PANELS.get(spec.name) or (FLOW if is_flow(spec) else OPS)


def boxed(
    view: LayersView, layer: LayerSnapshot, below: LayerSnapshot | None, width: int, height: int
) -> ScreenFrame:
    """A layer's box; ``below`` is the next layer."""
    style, box = border_of(view, layer.spec.name), box_of(layer.spec)
    title = Line("╭─", style).extend(box.title(view, layer, width))
    title = title if title.width < width else title.fitted(width - 1)
    title.add("─" * (width - 1 - title.width), style).add("╮", style)
    frame = ScreenFrame([title])
    content = content_of(box, view, layer, width - _SIDES, height - 2)
    content = clipped(content, height - 2)
    for inside in content.lines:
        line = Line("│", style).add(" ").extend(inside.fitted(width - _SIDES))
        frame.add(line.add(" ").add("│", style))
    frame.hits += [hit.moved(_SIDES // 2, 1) for hit in content.hits]
    frame.below(_last(view, layer, below, width))
    return frame


def _last(
    view: LayersView, layer: LayerSnapshot, below: LayerSnapshot | None, width: int
) -> ScreenFrame:
    """The lower border: operations in the next layer, and the breakdown's name."""
    name = layer.spec.name
    style, named = border_of(view, name), Line()
    if width >= TABLE_FROM:
        named.add_all(breakdown_name(view, layer))
    line = Line("╰─", style)
    line.add_all(fan_out(view.snapshot, layer, below, width - named.width - 6))
    hits: list[Click] = []
    if reasons(view.snapshot.findings, name):
        hits.append((2, line.width, "findings", ""))
    line.add("─" * (width - 2 - line.width - named.width), style)
    start = line.width
    line.extend(named).add("─" * (width - 1 - start - named.width), style)
    if view.state.chosen[0] == name and named.width:
        hits.append((start, start + named.width, "table", ""))
    return frame_of(line.add("╯", style).fitted(width), *hits)


def _lines(view: LayersView, inactive: list[Line], width: int, room: int) -> ScreenFrame:
    """Lines; if there is room: findings, operations in the next layer, the chosen breakdown."""
    rows = [row for row in layer_rows(view.snapshot) if row.op]
    head, *lines = render_layer_lines(view, rows, width)
    keys = [row.key for row in rows]
    at = keys.index(view.state.chosen) if view.state.chosen in keys else 0
    fixed = 1 + len(inactive)
    first = max(0, min(at - (room - fixed) // 2, len(lines) - (room - fixed)))
    last = first + max(1, room - fixed)
    spare = room - fixed - len(lines) - _MIN_BREAKDOWN
    notes: dict[str, list[Span]] = {}
    active = list(view.snapshot.measured.values())
    found = {finding.layer for finding in view.snapshot.findings}
    pairs = zip(active, [*active[1:], None], strict=False)
    for layer, below in sorted(pairs, key=lambda pair: pair[0].spec.name not in found):
        spans = fan_out(view.snapshot, layer, below, width - 3)
        if spans and spare > len(notes):
            notes[layer.spec.name] = spans
    frame = frame_of(head)
    for number, line in enumerate(lines[first:last], first):
        layer_name, op = rows[number].key
        frame.add(line.fitted(width), (0, width, "choose", f"{layer_name}/{op}"))
        is_last = number + 1 == len(rows) or rows[number + 1].layer != layer_name
        if is_last and layer_name in notes:
            hits = [(0, width, "findings", "")] if layer_name in found else []
            frame.add(Line("   ").add_all(notes[layer_name]).fitted(width), *hits)
    frame.lines += inactive
    rest = room - len(frame.lines)
    if rest >= 3:
        frame.below(breakdown(view, width, rest))
    return frame
