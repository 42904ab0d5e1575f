"""Differences, rates and quotients of readings that can be missing: None is not 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ioh.model.sample import Value

_N = TypeVar("_N", int, float)


def delta(older: _N | None, newer: _N | None) -> _N | None:
    """Increase of one running total.

    None if a reading is missing or the total decreased (module reload, evicted map key).
    """
    if older is None or newer is None or newer < older:
        return None
    return newer - older


def rate_per_s(older: Value, newer: Value, interval_s: float) -> float | None:
    """Events per second between two readings of a running total; None if delta() is None."""
    difference = delta(older, newer)
    return None if difference is None else difference / interval_s


def scaled(value: float | None, scale: float) -> float | None:
    """``value * scale``, or None."""
    return None if value is None else value * scale


def quotient(numerator: Value, denominator: Value, scale: float = 1.0) -> float | None:
    """A quotient times ``scale``; None if either is missing or the denominator is 0."""
    if numerator is None or not denominator:
        return None
    return numerator / denominator * scale


def sum_known(values: Iterable[_N | None]) -> _N | None:
    """The sum of the values that are known; None if none is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def weighted_mean(values: Iterable[tuple[Value, Value]]) -> float | None:
    """The mean of (weight, value) pairs, known ones only; None if there is none."""
    pairs = [(weight, value) for weight, value in values if weight and value is not None]
    total = sum([weight for weight, _ in pairs])
    return sum([weight * value for weight, value in pairs]) / total if total else None
