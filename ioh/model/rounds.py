"""Matches the intervals of several hosts: a round has at most one of each host."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from ioh.model.pairs import HostInterval

MAX_HOSTS = 8
MOST_READY = 16  # waiting intervals per host
_STAYS = 0.1  # share of an interval: more than the jitter of a host's intervals


def round_edge(ends_s: Sequence[float], cycle_s: float, before_s: float) -> float:
    """When, in each cycle, one round ends and the next begins: in the largest gap between ends.

    ``ends_s``: when an interval of each host ended.  ``before_s``: the current edge, nan at first;
    it changes only for a much larger gap.
    """
    phases = sorted(each % cycle_s for each in ends_s)
    followers = [*phases[1:], phases[0] + cycle_s]

    def room_s(gap: tuple[float, float]) -> float:
        long_s = gap[1] - gap[0]
        return long_s + cycle_s * _STAYS * ((before_s - gap[0]) % cycle_s < long_s)

    begin_s, end_s = max(zip(phases, followers, strict=True), key=room_s)
    return (begin_s + end_s) / 2 % cycle_s


def take_round(
    ready: Mapping[str, deque[HostInterval]], cycle_s: float, edge_s: float
) -> list[HostInterval]:
    """Take the earliest waiting interval, and the matching one of each other host.

    No interval is dropped: those that ended after the next edge belong to the next round.  If
    MOST_READY intervals of a host wait, another host's times are wrong: do not wait for it.
    """
    numbers = {
        name: math.floor((each[0].snapshot.time_unix_s - edge_s) / cycle_s)
        for name, each in ready.items()
        if each
    }
    first = min(numbers.values(), default=0)
    return [
        each.popleft()
        for name, each in ready.items()
        if len(each) >= MOST_READY or numbers.get(name) == first
    ]
