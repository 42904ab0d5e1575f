"""Operations of one layer as the path adds them up: rate, throughput and time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from ioh.model.snapshot import LayerSnapshot

Steps = Mapping[str, float | None]
_LEFT_MIN = 1e-6  # share of the whole; less is a rounding error


@dataclass(frozen=True, slots=True)
class Flow:
    """Operations of one layer: rate, throughput and time.

    Units:
        ``us``: µs per second, summed over the operations.
    """

    ops: float = 0.0
    size: float = 0.0
    us: float = 0.0
    queue_us: float | None = None

    @classmethod
    def of(cls, layer: LayerSnapshot | None, *names: str) -> Flow:
        """A layer's counts of these operations; zero if their time is unknown."""
        total = cls()
        for stats in (layer.ops.get(name) for name in names) if layer is not None else ():
            if stats is not None and stats.ops_per_s and stats.latency_us is not None:
                rate, queue = stats.ops_per_s, stats.queue_us
                queue_us = None if queue is None else rate * min(queue, stats.latency_us)
                one = cls(rate, stats.bytes_per_s or 0.0, rate * stats.latency_us, queue_us)
                total = total.and_(one) if total.ops else one
        return total

    def and_(self, other: Flow) -> Flow:
        """Add both; the queue time is known if either knows it."""
        queues = [flow.queue_us for flow in (self, other) if flow.queue_us is not None]
        return Flow(
            self.ops + other.ops,
            self.size + other.size,
            self.us + other.us,
            sum(queues) if queues else None,
        )

    def without(self, other: Flow) -> Flow:
        """The rest, without queue time; nothing if only rounding errors remain."""
        ops, us = self.ops - other.ops, self.us - other.us
        if ops <= _LEFT_MIN * self.ops or us <= _LEFT_MIN * self.us:
            return Flow()
        return Flow(ops, max(0.0, self.size - other.size), us)

    def part(self, share: float) -> Flow:
        """A share of it, 0 to 1."""
        share = min(1.0, max(0.0, share))
        queue = None if self.queue_us is None else self.queue_us * share
        return Flow(self.ops * share, self.size * share, self.us * share, queue)

    def carrying(self, size: float) -> Flow:
        """The share of it that moved ``size`` bytes."""
        return self.part(size / self.size) if self.size else Flow()

    def within(self, most_us: float) -> Flow:
        """Limit its time to that of the waiting calls: requests overlap.

        What others left of that time can be below 0 by a rounding error: then it is nothing.
        """
        most_us = max(0.0, most_us)
        return self.part(most_us / self.us) if self.us > most_us else self


def sum_flows(flows: Iterable[Flow]) -> Flow:
    """Add all of them."""
    return reduce(Flow.and_, flows, Flow())


def left_of(whole: float, below: float) -> float | None:
    """The rest of a step; None if the steps below fill it: then its part is unknown."""
    rest = whole - below
    return rest if rest > _LEFT_MIN * whole else None


def known_us(steps: Steps) -> float:
    """The sum of the steps whose time is known."""
    return sum(us or 0.0 for us in steps.values())


def scaled_steps(steps: Steps, share: float) -> dict[str, float | None]:
    """The same share of each step."""
    return {name: None if us is None else us * share for name, us in steps.items()}


def sum_steps(*several: Steps) -> dict[str, float | None]:
    """Add step by step; unknown if unknown in one."""
    sums: dict[str, float | None] = {}
    for name, us in (item for each in several for item in each.items()):
        before = sums.get(name, 0.0)
        sums[name] = None if us is None or before is None else before + us
    return sums
