"""What did nothing for as long as the trends go back: it needs no room, and says so in a word."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ioh.model.sample import Unavailable
from ioh.model.snapshot import LayerSnapshot
from ioh.tui.history import is_busy
from ioh.tui.render.panels import PanelView
from ioh.tui.render.trends import TREND_INTERVALS

_IDLE = Unavailable("idle", is_idle=True)


def busy_ops(view: PanelView) -> Collection[tuple[str, str]]:
    """The (layer, op) pairs that did anything in the interval or in the trends' time before it."""
    known = [point.ops for point in view.points[-TREND_INTERVALS:] if point is not None]
    layers = (x for x in view.snapshot.layers.values() if isinstance(x, LayerSnapshot))
    now = {(x.spec.name, op) for x in layers for op, stats in x.ops.items() if is_busy(stats)}
    return now.union(*known)


def folded(view: PanelView) -> PanelView:
    """The same with its idle layers as inactive ones.

    The layer chosen and those of a finding stay, and all do where none is busy.  A layer whose
    numbers are not known is not idle.
    """
    kept = {layer for layer, _ in busy_ops(view)}
    if not kept:
        return view
    kept |= {view.state.chosen[0], *(finding.layer for finding in view.snapshot.findings)}
    layers = {
        name: _IDLE if name not in kept and _is_idle(layer) else layer
        for name, layer in view.snapshot.layers.items()
    }
    return replace(view, snapshot=replace(view.snapshot, layers=layers))


def _is_idle(layer: LayerSnapshot | Unavailable) -> bool:
    return isinstance(layer, LayerSnapshot) and any(s.count == 0 for s in layer.ops.values())
