"""How evenly something comes, interval by interval, beside what chance makes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median


def strays(values: Sequence[float]) -> float:
    """How far two thirds of them stay from their median, as a share of it; 0 to infinity.

    A third may lie anywhere: what the end of one interval cuts off comes with the next.
    """
    middle = median(values) if values else 0.0
    if not middle:
        return math.inf
    off = sorted(abs(value - middle) for value in values)
    return off[math.ceil(2 / 3 * len(off)) - 1] / middle


def is_share_even(some: Sequence[int], every: Sequence[int], limit: float) -> bool:
    """Whether each interval has the same share of some operations, more so than chance allows.

    Args:
        some: How many of a kind there were in each interval.
        every: How many in all.
        limit: In standard deviations of a share by chance; two thirds lie within 1, and here most
            of the intervals must lie within this.
    """
    share = sum(some) / max(1, sum(every))
    spreads = [count * share * (1 - share) for count in every]
    if not all(spreads):
        return False
    parts = zip(some, every, spreads, strict=True)
    off = sorted(abs(part - count * share) / math.sqrt(spread) for part, count, spread in parts)
    return off[len(off) // 2] <= limit
