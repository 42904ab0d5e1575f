"""Histograms: buckets contain their values, sums and differences, accuracy of percentiles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioh.bpf.compiler import probes_dir
from ioh.model.hist import (
    FINE_BUCKETS,
    FINE_EDGES_US,
    LATENCY_BUCKETS,
    LATENCY_EDGES_US,
    SIZE_BUCKETS,
    SIZE_EDGES_BYTES,
    LatencyHist,
    SizeLatencyHist,
    fine_index,
    latency_index,
)
from tests.support.fakes import size_index

LATENCIES_NS = st.integers(1, 1 << 37)
# Around each power of two: random numbers would rarely hit an off-by-one error there.
EDGY_NS = st.builds(
    lambda log2, off: max(1, (1 << log2) + off), st.integers(0, 37), st.integers(-2, 2)
)
SPARSE = st.dictionaries(
    st.integers(0, SIZE_BUCKETS * LATENCY_BUCKETS - 1), st.integers(1, 1 << 40), max_size=30
)
SIZE_LAT = SPARSE.map(
    lambda cells: SizeLatencyHist(
        tuple(cells.get(i, 0) for i in range(SIZE_BUCKETS * LATENCY_BUCKETS))
    )
)


def hist_of(latencies_ns: list[int]) -> LatencyHist:
    counts = [0] * FINE_BUCKETS
    for latency in latencies_ns:
        counts[fine_index(latency)] += 1
    return LatencyHist(tuple(counts))


def test_the_probes_division_by_multiplication_is_exact() -> None:
    """ioh.h: 32-bit x / 125 as x * m >> s is exact if m * 125 is only slightly above 2**s."""
    found = re.search(r"\* (0x[0-9a-f]+)ULL >> (\d+);", (probes_dir() / "ioh.h").read_text())
    assert found
    factor, shift = int(found[1], 16), int(found[2])
    assert 0 <= factor * 125 - (1 << shift) <= 1 << (shift - 32)
    assert factor << 32 < 1 << 64


@given(LATENCIES_NS | EDGY_NS)
def test_a_fine_bucket_holds_its_value_and_is_a_16th_or_one_unit_wide(
    latency_ns: int,
) -> None:
    bucket, us = fine_index(latency_ns), latency_ns / 1e3
    assert (FINE_EDGES_US[bucket - 1] if bucket else 0.0) < us
    if bucket < len(FINE_EDGES_US):
        assert us <= FINE_EDGES_US[bucket] <= us + max(us * 0.0625, 1 / 128)


def test_fine_edges_ascend_and_cover_the_axis() -> None:
    assert len(FINE_EDGES_US) == FINE_BUCKETS - 1
    assert all(a < b for a, b in pairwise(FINE_EDGES_US))
    assert FINE_EDGES_US[-1] == 1 << 27
    assert fine_index(0) == fine_index(-5) == fine_index(1) == 0


def assert_inside(value: float, bucket: int, edges: Sequence[float]) -> None:
    assert bucket <= len(edges)
    assert bucket == len(edges) or value <= edges[bucket]
    assert bucket == 0 or value > edges[bucket - 1]


@given(st.integers(0, 1 << 37) | st.sampled_from(SIZE_EDGES_BYTES), st.floats(0, 1e9))
def test_the_tables_buckets_contain_their_values(size_bytes: int, latency_us: float) -> None:
    assert_inside(size_bytes, size_index(size_bytes), SIZE_EDGES_BYTES)
    assert_inside(latency_us, latency_index(latency_us), LATENCY_EDGES_US)


@given(SIZE_LAT, SIZE_LAT)
def test_size_lat_adds_and_subtracts(a: SizeLatencyHist, b: SizeLatencyHist) -> None:
    assert a + b == b + a
    assert (a + b).total == a.total + b.total
    rows = [a.row(s) for s in range(SIZE_BUCKETS)]
    assert [((a + b) - b).row(s) for s in range(SIZE_BUCKETS)] == rows
    assert ((a + b) - b).by_latency() == a.by_latency()
    assert a.by_latency() == tuple(sum(column) for column in zip(*rows, strict=True))
    assert sum(a.by_latency()) == a.total
    empty = SizeLatencyHist()
    assert a + empty == empty + a == a - empty == a
    assert (a - a).total == sum(empty.by_latency()) == 0


@given(st.lists(LATENCIES_NS, max_size=40), st.lists(LATENCIES_NS, max_size=40))
def test_latency_adds_and_subtracts(first: list[int], second: list[int]) -> None:
    a, b = hist_of(first), hist_of(second)
    assert a + b == b + a == hist_of(first + second)
    assert ((a + b) - b).total == a.total
    if first:
        assert (a + b) - b == a


QUANTILES = (0.5, 0.95, 0.99, 0.999)


@given(st.lists(LATENCIES_NS.filter(lambda ns: ns < 1 << 36), min_size=1, max_size=3000))
def test_percentiles_are_monotone_and_within_a_sixteenth(latencies_ns: list[int]) -> None:
    found = hist_of(latencies_ns).percentiles_us(QUANTILES)
    known = [p for p in found if p is not None]
    assert known == sorted(known)
    ordered = sorted(latencies_ns)
    for q, at_most_us in zip(QUANTILES, found, strict=True):
        enough = len(ordered) * round(1 - q, 6) >= 1 - 1e-9
        assert (at_most_us is not None) == enough
        if at_most_us is not None:
            # The rank as integers, since 0.999 has no exact binary form.
            rank = -(-len(ordered) * round(q * 1000) // 1000)
            exact_us = ordered[max(1, rank) - 1] / 1e3
            assert exact_us <= at_most_us <= max(exact_us * 1.0625, exact_us + 1 / 128)


@pytest.mark.parametrize(("quantile", "enough"), [(0.5, 2), (0.95, 20), (0.99, 100), (0.999, 1000)])
def test_a_percentile_needs_enough_operations(quantile: float, enough: int) -> None:
    assert hist_of([5_000] * enough).percentiles_us((quantile,)) != (None,)
    assert hist_of([5_000] * (enough - 1)).percentiles_us((quantile,)) == (None,)


def test_no_operation_and_one_longer_than_the_axis_have_no_percentile() -> None:
    assert LatencyHist().percentiles_us(QUANTILES) == (None,) * 4
    longest_ns = int((FINE_EDGES_US[-1] + 1) * 1e3)
    assert fine_index(longest_ns) == FINE_BUCKETS - 1
    assert hist_of([longest_ns] * 10).percentiles_us((0.5,)) == (None,)
