"""Volumes held at a limit, beside caches below: two heaps of times each, by clock or by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from ioh.findings.rules.cache_below import is_share_even
from ioh.model.finding import Finding
from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist, latency_index, size_index
from ioh.model.snapshot import OpStats
from tests.unit.snapshot_maker import disk, judged, layer, op, spread

KB = 1024
SECONDS = 30
FAST_US, SLOW_US = 200.0, 9_000.0


def reads(
    fast: int, slow: int, slow_us: float = SLOW_US, size: int = 4 * KB, at_end: int = 8
) -> OpStats:
    """A second in which so many reads took FAST_US and so many slow_us."""
    count = fast + slow
    counts = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    row = size_index(size) * LATENCY_BUCKETS
    counts[row + latency_index(FAST_US)] = fast
    counts[row + latency_index(slow_us)] = slow
    return op(
        count,
        size,
        (fast * FAST_US + slow * slow_us) / count,
        latency=spread(fast, FAST_US, slow, slow_us),
        size_lat=SizeLatencyHist(tuple(counts)),
        inflight=at_end,
    )


def told(each: Iterator[OpStats]) -> dict[str, Finding]:
    """What each rule said last."""
    found = dict[str, Finding]()
    for said in judged({"block": layer("block", **disk("vda", read))} for read in each):
        found |= said
    return found


def limited() -> Iterator[OpStats]:
    """700 reads each second: eight at a time, of which all wait for each tenth of a second."""
    for _ in range(SECONDS):
        yield reads(620, 80, slow_us=98_000.0)


def cached_by_chance(random: Random) -> Iterator[OpStats]:
    """Eight reads at a time all along, six of seven of which a cache below answers."""
    for _ in range(SECONDS):
        took, fast, slow = 0.0, 0, 0
        while took < 8e6:
            is_hit = random.random() < 6 / 7
            took += FAST_US if is_hit else SLOW_US
            fast, slow = fast + is_hit, slow + (not is_hit)
        yield reads(fast, slow)


def cached_at_a_pace(random: Random) -> Iterator[OpStats]:
    """1,400 reads each second, whatever a cache below answers of them."""
    for _ in range(SECONDS):
        fast = sum(random.random() < 6 / 7 for _ in range(1400))
        # Each of those that began within the time of a slow one is still under way or not.
        at_end = sum(random.random() < 1 / 7 for _ in range(round(1400 * SLOW_US / 1e6)))
        yield reads(fast, 1400 - fast, at_end=at_end)


def test_a_volume_at_its_limit_is_told_and_no_cache() -> None:
    found = told(limited())
    assert "cache_below" not in found
    cause = found["device_limit"].cause
    assert cause.startswith("vda does 700 requests a second (2.87 MB/s), second after second")
    assert found["device_limit"].command == "lsblk -d -o NAME,SIZE,MODEL,SERIAL /dev/vda"


@pytest.mark.parametrize("seed", [3, 10])
@pytest.mark.parametrize("each", [cached_by_chance, cached_at_a_pace])
def test_a_cache_below_is_told_and_no_limit(
    each: Callable[[Random], Iterator[OpStats]], seed: int
) -> None:
    found = told(each(Random(seed)))
    assert "cache_below" in found
    assert "device_limit" not in found


def test_a_share_is_even_where_chance_would_not_have_it_so() -> None:
    assert is_share_even([80, 80, 88, 72, 80, 80], [700, 700, 770, 630, 700, 700], 0.3)
    assert not is_share_even([80, 95, 70, 86, 91, 74], [700] * 6, 0.3)
