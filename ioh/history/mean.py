"""Joins intervals of a recording into one, with the spread of each number over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import sqrt

from ioh.model.errors import IohError
from ioh.model.intervals import interval
from ioh.model.player import IsWanted, Mean
from ioh.model.snapshot import Snapshot
from ioh.playback.aggregate_interval import aggregate
from ioh.session.reader import Recording
from ioh.session.stream import Tick

_RATES = ("bytes_per_s", "ops_per_s")
_NUMBERS = (*_RATES, "latency_us", "p99_us", "queue_us")


def mean_of(recording: Recording, first: int, last: int, is_wanted: IsWanted) -> Mean | None:
    """The intervals that end with the samples ``first`` to ``last`` as one.

    None if fewer than two of their samples can be read, or it is no longer wanted.
    """
    spread = _Spread()
    is_complete = True

    def samples() -> Iterator[Tick]:
        nonlocal is_complete
        older: Tick | None = None
        for item in recording.items(first - 1, with_tables=False):
            if not isinstance(item, Tick):
                continue
            is_complete = item.tick > last or is_wanted(last - item.tick)
            if item.tick > last or not is_complete:
                return
            if older is not None and item.tick == older.tick + 1:
                spread.take(interval(older.sample, item.sample))
            older = item
            yield item

    whole = None
    with contextlib.suppress(IohError):  # dropped from memory while it was read
        whole = aggregate(recording, samples())
    if whole is None or not is_complete:
        return None
    return Mean(whole.snapshot, whole.ticks, spread.deviations(), whole.remarks)


class _Spread:
    """Collects the numbers of each op, interval by interval.

    Each counts as in the mean: a rate by the length of its interval, a time by its operations.  The
    first interval of a layer can be very short.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}

    def take(self, snapshot: Snapshot | None) -> None:
        for name, layer in snapshot.measured.items() if snapshot is not None else ():
            for op, stats in layer.ops.items():
                values = self._values.setdefault((name, op), {number: [] for number in _NUMBERS})
                for number, by_number in values.items():
                    if (value := getattr(stats, number)) is not None:
                        weight = layer.interval_s if number in _RATES else stats.count or 0
                        by_number.append((value, weight))

    def deviations(self) -> dict[tuple[str, str], dict[str, float]]:
        """The standard deviation of each number that at least two intervals have."""
        return {
            op: {number: deviation(each) for number, each in values.items() if len(each) > 1}
            for op, values in self._values.items()
        }


def deviation(values: list[tuple[float, float]]) -> float:
    """The standard deviation of values with weights, of which there are two at least."""
    whole = sum(weight for _, weight in values)
    if not whole:
        return 0.0
    mean = sum(value * weight for value, weight in values) / whole
    variance = sum((value - mean) ** 2 * weight for value, weight in values) / whole
    return sqrt(variance * len(values) / (len(values) - 1))
