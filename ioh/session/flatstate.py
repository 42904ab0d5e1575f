"""The numbers and histograms of all layers, end to end, while they are being read back."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ioh.model.sample import Value
from ioh.session.cells import (
    Numbers,
    apply_cells,
    apply_values,
    by_place,
    starts_of,
    unpack_cells,
)
from ioh.session.folding import Folding, Layout, Usual, note_usual
from ioh.session.layerstate import HOST_NUMBERS, LayerState
from ioh.session.records import Changes, RecordError


class FlatState:
    """What a record's changes are applied to; the layers get it back when somebody looks.

    On the way to a sample that is asked for lie up to a hundred others, so that whatever is only
    needed to build one is left for give_back().

    Args:
        layers: They lend their histograms, and get their numbers by give_back().
        with_parts: False leaves histograms of single devices and mounts as they are.
        host: Numbers of the host; all zero where not given.
    """

    def __init__(
        self, layers: Sequence[LayerState], *, with_parts: bool, host: Sequence[Value] = ()
    ) -> None:
        self._layers = list(layers)
        self._values: list[Value] = [*(host or (0,) * HOST_NUMBERS)]
        self._begins: list[int] = []  # of each layer's numbers
        self._hists: list[list[int]] = []
        self._hist_begins: list[int] = []
        unwanted: list[int] = []
        for layer in layers:
            self._begins.append(len(self._values))
            self._hist_begins.append(len(self._hists))
            self._values += layer.values
            if not with_parts:
                at = len(self._hists)
                unwanted += range(at + layer.own_hists, at + len(layer.hists))
            self._hists += layer.hists
        self._starts = starts_of(self._hists)
        self._unwanted = frozenset(unwanted)
        self._usual: Usual = {}
        self._changed: set[int] = set()
        self._changed_hists: set[int] = set()

    @property
    def host(self) -> list[Value]:
        """The host's numbers."""
        return self._values[:HOST_NUMBERS]

    def layout(self) -> Layout:
        """What lies where."""
        sizes = [len(layer.values) for layer in self._layers]
        return Layout([layer.shape for layer in self._layers], sizes, HOST_NUMBERS)

    def apply(self, changes: Changes, folding: Folding) -> None:
        """Take over a record's changes.

        Raises:
            RecordError: They do not fit; nothing here is of use then.
        """
        numbers = Numbers(
            self._values,
            by_place(changes.gaps, changes.incs),
            by_place(changes.set_gaps, changes.sets),
        )
        cells = unpack_cells(changes.cells, changes.more_cells, self._starts)
        if changes.is_folded:
            folding.unfold(numbers, cells, self._hists, self._usual)
        apply_values(self._values, numbers)
        apply_cells(self._hists, cells, self._unwanted)
        note_usual(self._usual, cells, self._hists)
        for at, value in numbers.sets.items():
            if not isinstance(value, int):
                self._check(at, value)
        self._changed.update(numbers.incs, numbers.sets)
        self._changed_hists.update(cells)

    def _check(self, at: int, value: float | None) -> None:
        if at >= HOST_NUMBERS:
            layer = bisect_right(self._begins, at) - 1
            # The last of those that begin here: others of the same place have no numbers.
            self._layers[layer].check(at - self._begins[layer], value)
        elif value is not None and not math.isfinite(value):
            msg = "a host's number that is none"
            raise RecordError(msg)

    def give_back(self) -> None:
        """Let the layers have their numbers, and know which ones changed."""
        changed, hists = sorted(self._changed), sorted(self._changed_hists)
        for layer, at, hist_at in zip(self._layers, self._begins, self._hist_begins, strict=True):
            end, hist_end = at + len(layer.values), hist_at + len(layer.hists)
            mine = changed[bisect_left(changed, at) : bisect_left(changed, end)]
            mine_hists = hists[bisect_left(hists, hist_at) : bisect_left(hists, hist_end)]
            if mine:
                layer.values = self._values[at:end]
            layer.touch([place - at for place in mine], [place - hist_at for place in mine_hists])
        self._changed.clear()
        self._changed_hists.clear()
