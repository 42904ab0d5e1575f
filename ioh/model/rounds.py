"""Which intervals of several hosts go together: one round has at most one of each."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from ioh.model.pairs import HostInterval

MAX_HOSTS = 8
MOST_READY = 16  # of a host, that wait for the others'
_STAYS = 0.1  # of an interval: more than the ends of a host's intervals waver


def round_edge(ends_s: Sequence[float], cycle_s: float, before_s: float) -> float:
    """When, in each cycle, one round ends and the next one begins: where fewest intervals end.

    ``ends_s`` is when an interval of each host ended, ``before_s`` the edge until now, nan at
    first, which is left only for much more room.
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
    """Take the earliest interval that is there, and of each other host the one that goes with it.

    Nothing is left out: what ended after the next edge is the next round's.  Where as many wait as
    there is room for, the times of another host are wrong: that one keeps nobody out.
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
