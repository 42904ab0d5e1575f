"""Joins several Samples into one longer interval; carries along what is not a total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ioh.model.calls import CallSpan
from ioh.model.sample import LayerSample, OpTotals, Sample

_Slowest = tuple[int, int | None]


class Carried:
    """What the last of several samples lacks: each op's slowest operation, and sampled calls."""

    def __init__(self) -> None:
        self._slowest: dict[tuple[str, str, str], _Slowest] = {}
        self._calls: dict[str, CallSpan] = {}

    def take(self, sample: Sample) -> None:
        """Note those of the interval that ends with ``sample``."""
        for name, layer in sample.layers.items():
            if not isinstance(layer, LayerSample):
                continue
            if layer.calls:
                self._calls.setdefault(name, CallSpan()).add(layer.calls)
            for part, ops in (("", layer.ops), *layer.parts.items()):
                for op, totals in ops.items():
                    slowest = self._slowest.get((name, part, op))
                    if totals.max_ns is not None and (
                        slowest is None or totals.max_ns > slowest[0]
                    ):
                        self._slowest[name, part, op] = totals.max_ns, totals.max_bytes

    def onto(self, sample: Sample) -> Sample:
        """``sample`` with those of the whole span, for derive()."""
        layers = dict(sample.layers)
        for name, layer in sample.layers.items():
            if isinstance(layer, LayerSample):
                parts = {p: self._ops(name, p, ops) for p, ops in layer.parts.items()}
                layers[name] = replace(
                    layer,
                    ops=self._ops(name, "", layer.ops),
                    parts=parts,
                    calls=self._calls[name].calls if name in self._calls else (),
                )
        return replace(sample, layers=layers)

    def _ops(self, layer: str, part: str, ops: Mapping[str, OpTotals]) -> dict[str, OpTotals]:
        slowest_ops = dict(ops)
        for name, op in ops.items():
            if (slowest := self._slowest.get((layer, part, name))) is not None:
                slowest_ops[name] = replace(op, max_ns=slowest[0], max_bytes=slowest[1])
        return slowest_ops


def chosen_layers(sample: Sample, names: frozenset[str] | None) -> Sample:
    """``sample`` with only these layers; None: all."""
    if names is None:
        return sample
    layers = {name: layer for name, layer in sample.layers.items() if name in names}
    return replace(sample, layers=layers, specs={name: sample.specs[name] for name in layers})


class Downsampler:
    """Joins intervals until each is at least ``cycle_s`` long; passes longer ones through.

    Allows a tenth of a tick less: ticks can be early.
    """

    def __init__(self, cycle_s: float) -> None:
        self._cycle_ns = int(cycle_s * 1e9)
        self._tick_ns = 0
        self._last_ns: int | None = None
        self._carried = Carried()

    def take(self, sample: Sample) -> Sample | None:
        """The sample to show now; None if it is joined to a later one."""
        tick_ns, self._tick_ns = sample.mono_ns - self._tick_ns, sample.mono_ns
        if self._last_ns is None or sample.mono_ns <= self._last_ns:
            self._last_ns = sample.mono_ns
            return sample
        self._carried.take(sample)
        if sample.mono_ns - self._last_ns < self._cycle_ns - tick_ns // 10:
            return None
        carried, self._carried, self._last_ns = self._carried, Carried(), sample.mono_ns
        return carried.onto(sample)
