"""The first screen: where the time goes, a panel for each layer, what became of each call."""

from __future__ import annotations

from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.cells import display_width, safe_name
from ioh.tui.render.fan_out import fan_out
from ioh.tui.render.idle import busy_ops, folded
from ioh.tui.render.layer_lines import render_layer_lines
from ioh.tui.render.line import Hit, Line, ScreenFrame, clipped
from ioh.tui.render.panel import boxed
from ioh.tui.render.panels import PanelView, breakdown
from ioh.tui.render.waterfall import render_waterfall
from ioh.tui.rows import layer_rows

_MIN_WIDTH = 76  # of a panel
_WIDE = 100  # from which even a low one says more than lines do
_MIN_HEIGHT, _MIN_NARROW = 5, 12  # of a panel, its borders included
_MIN_BREAKDOWN = 5
_INACTIVE = 11  # columns of that word
_MIN_WATERFALL = 12  # lines from which the bars are shown


def render_overview(view: PanelView, width: int, height: int) -> ScreenFrame:
    """All of it, exactly ``height`` lines: panels where there is room, else lines."""
    frame = ScreenFrame()
    bars = render_waterfall(view.snapshot, {op for _, op in busy_ops(view)}, width, view.glyphs)
    view = folded(view)
    shown = [x for x in view.snapshot.layers.values() if isinstance(x, LayerSnapshot)]
    inactive = _inactive(view, width)
    needed = len(inactive) + (_MIN_HEIGHT if width >= _WIDE else _MIN_NARROW) * len(shown)
    has_panels = bool(shown) and width >= _MIN_WIDTH and height - len(bars) + 1 >= needed
    if not has_panels:
        rows = sum(1 for row in layer_rows(view.snapshot) if row.op)
        needed = len(inactive) + 1 + rows + _MIN_BREAKDOWN
    if height < _MIN_WATERFALL:
        bars = []
    elif height - len(bars) < needed:  # reads and writes say most
        bars = bars[:-1]
    for bar in bars:
        frame.add(bar)
    room = height - len(bars)
    if has_panels:
        frame.below(_panels(view, shown, width, room - len(inactive)))
        for line in inactive:
            frame.add(line)
    else:
        frame.below(_lines(view, inactive, width, room))
    return clipped(frame, height)


def _inactive(view: PanelView, width: int) -> list[Line]:
    """One line for all layers that are not shown, with the reasons where there is room."""
    missing: dict[str, list[str]] = {}
    for name, layer in view.snapshot.layers.items():
        if isinstance(layer, Unavailable):
            spec = view.snapshot.specs.get(name)
            reason = safe_name(layer.reason)
            missing.setdefault(reason, []).append(safe_name(spec.title if spec else name))
    if not missing:
        return []
    told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in missing.items())
    if display_width(told) > width - _INACTIVE:
        told = ", ".join(name for names in missing.values() for name in names)
    return [Line().left(" inactive", _INACTIVE, "dim").add(told, "dim").fitted(width)]


def _panels(view: PanelView, shown: list[LayerSnapshot], width: int, room: int) -> ScreenFrame:
    """As high as each other; the uppermost have what is left over."""
    frame = ScreenFrame()
    each, left = divmod(room, len(shown))
    for at, layer in enumerate(shown):
        high = each + (at < left)
        name = layer.spec.name
        below = shown[at + 1] if at + 1 < len(shown) else None
        piece = boxed(view, layer, below, width, high)
        row = _row_of(view, name)
        if row is not None:
            argument = f"{name}/{row[1]}"
            piece.hits += [Hit(y, 0, width, "choose", argument) for y in range(high)]
        frame.below(piece)
    return frame


def _row_of(view: PanelView, layer: str) -> tuple[str, str] | None:
    """What a click into a layer's panel chooses."""
    if view.state.chosen[0] == layer:
        return view.state.chosen
    return next((row.key for row in layer_rows(view.snapshot) if row.layer == layer), None)


def _lines(view: PanelView, inactive: list[Line], width: int, room: int) -> ScreenFrame:
    """Lines, then as there is room: the chosen layer's breakdown, findings, what calls became."""
    rows = [row for row in layer_rows(view.snapshot) if row.op]
    head, *pieces = render_layer_lines(view, rows, width)
    keys = [row.key for row in rows]
    at = keys.index(view.state.chosen) if view.state.chosen in keys else 0
    fixed = 1 + len(inactive)
    first = max(0, min(at - (room - fixed) // 2, len(pieces) - (room - fixed)))
    last = first + max(1, room - fixed)
    notes = {}
    spare = room - fixed - len(pieces) - _MIN_BREAKDOWN
    there = [x for x in view.snapshot.layers.values() if isinstance(x, LayerSnapshot)]
    pairs = list(zip(there, [*there[1:], None], strict=False))
    found = {finding.layer for finding in view.snapshot.findings}
    for layer, below in sorted(pairs, key=lambda pair: pair[0].spec.name not in found):
        spans = fan_out(view.snapshot, layer, below, width - 3)
        if spans and spare > 0:
            spare -= 1
            notes[layer.spec.name] = spans
    frame = head
    for number, piece in enumerate(pieces[first:last], first):
        frame.below(piece)
        name = rows[number].layer
        is_last = number + 1 == len(rows) or rows[number + 1].layer != name
        if is_last and name in notes:
            line = Line("   ")
            for text, style in notes[name]:
                line.add(text, style)
            hits = [(0, width, "findings", "")] if name in found else []
            frame.add(line.fitted(width), *hits)
    for line in inactive:
        frame.add(line)
    rest = room - len(frame.lines)
    if rest >= 3:
        frame.below(breakdown(view, width, rest))
    return frame
