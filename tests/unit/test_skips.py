"""Events that no copy of their program has seen, told apart from those that one of them has."""

from __future__ import annotations

import struct

import pytest

from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.totals import skipped_events
from tests.unit.fake_kernel import CPUS, install

TURNS = MapSpec("turns", 6, 4, 16, 2)
COPIES = 3


def turns(monkeypatch: pytest.MonkeyPatch, *counts: tuple[int, int]) -> Map:
    maps, held, _ = install(monkeypatch, [TURNS])
    for event, (runs, taken) in enumerate(counts):
        rest = struct.pack("=QQ", 0, 0) * (CPUS - 2)
        both = struct.pack("=QQQQ", runs - runs // 2, taken, runs // 2, 0)
        held["turns"].entries[struct.pack("=I", event)] = both + rest
    return maps["turns"]


def test_without_copies_each_skipped_run_is_an_event() -> None:
    assert skipped_events([1, 0, 4], None, 1) == 5


@pytest.mark.parametrize(
    ("misses", "counts", "lost"),
    [
        # Ten events, all taken: by the second copy those that the first one missed.
        ([2, 0, 0, 0, 0, 0], [(28, 10), (30, 10)], 0),
        # Each copy was busy at another event.
        ([1, 1, 1, 0, 0, 0], [(27, 10), (30, 10)], 0),
        # All of them were busy at the same one.
        ([1, 1, 1, 0, 0, 0], [(27, 9), (30, 10)], 1),
        ([2, 2, 2, 1, 1, 1], [(24, 8), (27, 9)], 3),
        # An event that two copies have not come to yet.
        ([0, 0, 0, 0, 0, 0], [(28, 10), (30, 10)], 0),
        # A program that takes no turns.
        ([5, 1, 2, 0, 0, 0], [(0, 0), (30, 10)], 0),
        # Programs before the events' own are steps, which are never skipped.
        ([0, 0, 1, 1, 1, 0, 0, 0], [(27, 9), (30, 10)], 1),
    ],
)
def test_an_event_is_lost_when_every_copy_was_busy(
    monkeypatch: pytest.MonkeyPatch, misses: list[int], counts: list[tuple[int, int]], lost: int
) -> None:
    assert skipped_events(misses, turns(monkeypatch, *counts), COPIES) == lost
