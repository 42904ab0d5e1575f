"""The story that repeats: what a database server on NFS asks for, moment by moment."""

from __future__ import annotations

from typing import NamedTuple


class Load(NamedTuple):
    """What is asked for at one moment.

    Shape:
        ``readers`` and ``scanners`` are programs that always have one read under way (8 KB at
        random, 1 MB in a row); how many reads a second that makes follows from the latency.

    Units:
        ``hits_per_s`` reads of 8 KB that the client's cache mostly has; ``dirty_bytes_per_s``
        buffered writes; ``syncs_per_s`` log writes with O_DSYNC; ``wire_us`` the network's
        round trip; ``loss_ratio`` the share of segments that it drops.
    """

    readers: float
    scanners: float
    hits_per_s: float
    dirty_bytes_per_s: float
    syncs_per_s: float
    wire_us: float
    loss_ratio: float


class Phase(NamedTuple):
    """One part of the story."""

    name: str
    seconds: float
    load: Load


PHASES = (
    Phase("random reads", 50, Load(8.0, 0.0, 200, 2e6, 150, 60, 0.0)),
    Phase("scans", 50, Load(0.0, 3.0, 30, 1e6, 60, 60, 0.0)),
    Phase("writes", 50, Load(2.0, 0.0, 200, 160e6, 600, 70, 0.0)),
    Phase("network trouble", 40, Load(8.0, 0.0, 200, 4e6, 120, 900, 0.015)),
    Phase("cached reads", 30, Load(0.5, 0.0, 60_000, 1e6, 40, 60, 0.0)),
    Phase("quiet", 20, Load(0.02, 0.0, 20, 0.2e6, 5, 60, 0.0)),
)
STORY_S = sum(phase.seconds for phase in PHASES)
_RAMP_S = 3.0  # from one phase into the next


def load_at(story_s: float) -> Load:
    """What is asked for ``story_s`` seconds after the story began; it repeats each STORY_S."""
    at_s = story_s % STORY_S
    before = PHASES[-1].load
    for phase in PHASES:
        if at_s < phase.seconds:
            share = min(1.0, at_s / _RAMP_S)
            pairs = zip(before, phase.load, strict=True)
            return Load(*(old + (new - old) * share for old, new in pairs))
        at_s -= phase.seconds
        before = phase.load
    return before
