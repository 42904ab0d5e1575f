"""Caches below a disk and volumes at a limit: bimodal histograms, regular or at random."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from ioh.findings.rules.cache_below import is_share_even
from ioh.model.finding import Finding
from ioh.model.hist import LATENCY_BUCKETS, SIZE_BUCKETS, SizeLatencyHist, latency_index
from ioh.model.snapshot import OpStats
from tests.support.fakes import size_index
from tests.unit.snapshot_maker import Layers, disk, found, judged, layer, op, spread

KB = 1024


def _heaps(size_kb: int, *heaps: tuple[float, int]) -> SizeLatencyHist:
    """Reads of one size: a latency (us) and a count for each heap."""
    counts = [0] * (SIZE_BUCKETS * LATENCY_BUCKETS)
    for us, count in heaps:
        counts[size_index(size_kb * KB) * LATENCY_BUCKETS + latency_index(us)] += count
    return SizeLatencyHist(tuple(counts))


def _by_chance(hist: SizeLatencyHist, random: Random) -> SizeLatencyHist:
    """As many reads, each drawn at random from these."""
    counts = [0] * len(hist.counts)
    for at in random.choices(range(len(counts)), hist.counts, k=hist.total):
        counts[at] += 1
    return SizeLatencyHist(tuple(counts))


@pytest.mark.parametrize(
    ("hist", "fires"),
    [
        (_heaps(4, (30, 300), (60, 300), (7_000, 400)), True),
        (_heaps(4, (30, 900), (7_000, 50)), False),  # a tail
        (_heaps(4, (30, 300), (100, 200), (300, 200), (900, 200)), False),  # a slope
        (_heaps(4, (30, 400), (150, 600)), False),  # twice as long: the disk's own spread
        (_heaps(4, (4_000, 600), (60_000, 400)), False),  # a queue that lets bursts through
        (_heaps(4, (30, 40), (7_000, 40)), False),  # too few
    ],
)
@pytest.mark.parametrize("name", ["block", "nfs_client"])
def test_reads_at_two_speeds_indicate_a_cache_below(
    name: str, hist: SizeLatencyHist, fires: bool
) -> None:
    random = Random(7)

    def second() -> Layers:
        read = op(1000, 4 * KB, 3_000, size_lat=_by_chance(hist, random))
        return {"block": layer("block"), name: layer(name, {"read": read})}

    finding = judged(second() for _ in range(15))[-1].get("cache_below")
    assert (finding is not None) is fires
    if finding is not None:
        assert re.match(r"(59|6\d)(\.\d)? % of the 4 KB reads take at most 64 µs,", finding.cause)
        assert ("the server's" in finding.cause) is (name == "nfs_client")


def _beside(other: SizeLatencyHist | None, write: OpStats | None) -> Iterator[dict[str, Any]]:
    """Reads at two speeds, and other I/O of the disk."""
    random = Random(7)
    for _ in range(15):
        heaps = _by_chance(_heaps(4, (30, 600), (7_000, 400)), random)
        both = heaps if other is None else heaps + other
        yield disk("sda", op(1000, 4 * KB, 3_000, size_lat=both), write)


@pytest.mark.parametrize(
    ("other", "write", "fires"),
    [
        (None, None, True),
        (_heaps(64, (900, 20)), op(20, 4 * KB, 900), True),
        (_heaps(4096, (7_000, 140)), None, False),
        (None, op(140, 512 * KB, 7_000), False),
    ],
)
def test_reads_that_may_wait_for_other_io_indicate_no_cache(
    other: SizeLatencyHist | None, write: OpStats | None, fires: bool
) -> None:
    said = judged({"block": layer("block", **given)} for given in _beside(other, write))
    assert any("cache_below" in each for each in said) is fires


@pytest.mark.parametrize(
    ("name", "rotational", "us", "sequential_pct", "fires"),
    [
        ("sda", 1, 90, 2.0, True),
        ("sda", 1, 6_000, 2.0, False),  # as expected of a rotating disk
        ("sda", 1, 90, 95.0, False),  # sequential
        ("sda", 0, 90, 2.0, False),  # an SSD
        ("vda", 1, 90, 2.0, False),
    ],
)
def test_a_rotating_disk_that_is_too_fast_has_a_cache_below(
    name: str, rotational: int | None, us: float, sequential_pct: float, fires: bool
) -> None:
    block = layer(
        "block",
        **disk(name, op(900, 4 * KB, us, queue_us=5.0), rotational=rotational),
        metrics={"sequential_pct": sequential_pct, "positioned_per_s": 900.0},
    )
    assert ("cache_below" in found({"block": block})) is fires


@pytest.mark.parametrize(
    ("on", "below", "fires"),
    [
        ("file /x on sda1", 5e6, True),
        ("file /x on sda", 390e6, False),
        ("file /x on sdab", 5e6, True),  # another disk, which did nothing
        ("file /x on sdab", 400e6, False),  # sdab is not measured, or others did more than enough
        ("file /x on tmpfs", 5e6, False),
        ("vg-lv on sda", 5e6, False),
    ],
)
def test_a_loop_device_faster_than_its_disk_has_a_cached_file(
    on: str, below: float, fires: bool
) -> None:
    fast, slow = op(6_000, 64 * KB, 50), op(below / 64 / KB, 64 * KB, 900)
    block = layer(
        "block",
        {"read": slow},
        parts={"loop0": {"read": fast}, "sda": {"read": slow}},
        tables={"device": [(("loop0", on), {"stacked": 1}), (("sda", "sda"), {"stacked": 0})]},
    )
    assert ("cache_below" in found({"block": block})) is fires


SECONDS = 30
FAST_US, SLOW_US = 200.0, 9_000.0


def reads(
    fast: int, slow: int, slow_us: float = SLOW_US, size: int = 4 * KB, at_end: int = 8
) -> OpStats:
    """A second in which ``fast`` reads took FAST_US and ``slow`` took ``slow_us``."""
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
    """The last finding of each rule."""
    found = dict[str, Finding]()
    for said in judged({"block": layer("block", **disk("vda", read))} for read in each):
        found |= said
    return found


def limited() -> Iterator[OpStats]:
    """700 reads a second, eight at a time; in each tenth of a second, all eight wait once."""
    for _ in range(SECONDS):
        yield reads(620, 80, slow_us=98_000.0)


def cached_by_chance(random: Random) -> Iterator[OpStats]:
    """Always eight reads in flight, of which a cache below answers six out of seven."""
    for _ in range(SECONDS):
        took, fast, slow = 0.0, 0, 0
        while took < 8e6:
            is_hit = random.random() < 6 / 7
            took += FAST_US if is_hit else SLOW_US
            fast, slow = fast + is_hit, slow + (not is_hit)
        yield reads(fast, slow)


def cached_at_a_pace(random: Random) -> Iterator[OpStats]:
    """1,400 reads a second, however many of them a cache below answers."""
    for _ in range(SECONDS):
        fast = sum(random.random() < 6 / 7 for _ in range(1400))
        # Of the reads that began within the time of a slow one, the slow ones are in flight.
        at_end = sum(random.random() < 1 / 7 for _ in range(round(1400 * SLOW_US / 1e6)))
        yield reads(fast, 1400 - fast, at_end=at_end)


def test_a_volume_at_its_limit_is_not_reported_as_a_cache() -> None:
    found = told(limited())
    assert "cache_below" not in found
    cause = found["device_limit"].cause
    assert cause.startswith("vda does 700 requests a second (2.87 MB/s), second after second")
    assert found["device_limit"].command == "lsblk -d -o NAME,SIZE,MODEL,SERIAL /dev/vda"


@pytest.mark.parametrize("seed", [3, 10])
@pytest.mark.parametrize("each", [cached_by_chance, cached_at_a_pace])
def test_a_cache_below_is_not_reported_as_a_limit(
    each: Callable[[Random], Iterator[OpStats]], seed: int
) -> None:
    found = told(each(Random(seed)))
    assert "cache_below" in found
    assert "device_limit" not in found


def test_a_share_is_even_if_it_varies_less_than_by_chance() -> None:
    assert is_share_even([80, 80, 88, 72, 80, 80], [700, 700, 770, 630, 700, 700], 0.3)
    assert not is_share_even([80, 95, 70, 86, 91, 74], [700] * 6, 0.3)
