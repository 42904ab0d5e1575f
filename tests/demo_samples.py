"""Samples of the demo, and what its tests look for in them."""

from __future__ import annotations

import itertools
from functools import cache

from ioh.layers import all_layers
from ioh.model.sample import LayerSample, Sample
from ioh.model.snapshot import LayerSnapshot, Snapshot
from ioh.pipeline import snapshots
from ioh.sources.demo import DemoSource
from ioh.sources.demo.story import PHASES

TICKS = 600
START_S = 1_795_270_000.0
LAYERS = list(all_layers())


def make(
    count: int, *, seed: int = 1, interval_s: float = 1.0, start_unix_s: float = START_S
) -> list[Sample]:
    with DemoSource(seed, interval_s, start_unix_s, realtime=False) as source:
        return list(itertools.islice(source, count))


@cache
def samples() -> list[Sample]:
    return make(TICKS + 1)


@cache
def intervals() -> list[Snapshot]:
    return list(snapshots(samples()))


def layer(sample: Sample, name: str) -> LayerSample:
    found = sample.layers[name]
    assert isinstance(found, LayerSample)
    return found


def shown(snapshot: Snapshot, name: str) -> LayerSnapshot:
    found = snapshot.layers[name]
    assert isinstance(found, LayerSnapshot)
    return found


def phase_intervals(name: str) -> list[Snapshot]:
    """Of one phase of the first story, without the seconds in which it comes and goes."""
    at_s = 0.0
    for phase in PHASES:
        if phase.name == name:
            return intervals()[int(at_s) + 4 : int(at_s + phase.seconds) - 1]
        at_s += phase.seconds
    raise AssertionError(name)


def mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    assert known
    return sum(known) / len(known)


def known(value: float | None) -> float:
    assert value is not None
    return value
