"""Turns a stream of Samples into intervals (Snapshots)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ioh.model.derive import derive
from ioh.model.sample import Sample
from ioh.model.snapshot import Snapshot
from ioh.model.span import Downsampler, chosen_layers

ChooseLayers = Callable[[Sample], "frozenset[str] | None"]


def all_layers(sample: Sample) -> None:
    """Choose all layers, including those that come later."""
    del sample


def interval(older: Sample | None, newer: Sample) -> Snapshot | None:
    """The interval between two samples.

    None before the second sample, and if the clock went back: another machine, or another boot.
    """
    if older is None or newer.mono_ns <= older.mono_ns:
        return None
    return derive(older, newer)


def is_over(run_s: float | None, elapsed_s: float, interval_s: float) -> bool:
    """Whether a requested time is over; None for never.

    Ticks can be slightly early: allow a tenth of an interval.
    """
    return run_s is not None and elapsed_s >= run_s - interval_s / 10


class Intervals:
    """Pairs each sample with the one before it.

    ``choose`` selects the layers to show from the first sample.  Samples are joined until an
    interval is ``cycle_s`` long.
    """

    def __init__(self, choose: ChooseLayers = all_layers, cycle_s: float | None = None) -> None:
        self._choose = choose
        self._names: frozenset[str] | None = None
        self._downsampler = Downsampler(cycle_s) if cycle_s is not None else None
        self._first_ns: int | None = None
        self._newest_ns = 0
        self._older: Sample | None = None

    def take(self, sample: Sample) -> Snapshot | None:
        """The interval that ends with ``sample``, if any."""
        if self._first_ns is None:
            self._first_ns, self._names = sample.mono_ns, self._choose(sample)
        self._newest_ns = sample.mono_ns
        chosen = chosen_layers(sample, self._names)
        newer = chosen if self._downsampler is None else self._downsampler.take(chosen)
        if newer is None:
            return None
        snapshot, self._older = interval(self._older, newer), newer
        return snapshot

    def each(self, samples: Iterable[Sample]) -> Iterator[Snapshot]:
        """Every interval; the first sample is the baseline."""
        for sample in samples:
            if (snapshot := self.take(sample)) is not None:
                yield snapshot

    @property
    def newest(self) -> Sample:
        """The newest sample, with the chosen layers; LookupError if there is none."""
        if self._older is None:
            raise LookupError
        return self._older

    def has_taken(self, sample: Sample) -> bool:
        """Whether the sample last passed to take() ended an interval, or began the first."""
        return self._older is not None and self._older.mono_ns == sample.mono_ns

    @property
    def has_begun(self) -> bool:
        """Whether a sample was taken."""
        return self._first_ns is not None

    @property
    def seen_s(self) -> float:
        """Time between the first and the newest sample."""
        return 0.0 if self._first_ns is None else (self._newest_ns - self._first_ns) / 1e9
