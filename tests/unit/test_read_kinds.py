"""Kinds of buffered reads: their sum, what is in flight, and the bytes that came from memory."""

from __future__ import annotations

from dataclasses import replace
from mmap import PAGESIZE

import pytest

from ioh.bench.watch import layers_of
from ioh.layers.syscall import SPEC, _CachedBytes
from ioh.model.derive import derive
from ioh.model.hist import LatencyHist, SizeLatencyHist
from ioh.model.sample import LayerSample, OpTotals, Sample
from ioh.model.snapshot import LayerSnapshot
from ioh.sinks.rows import op_rows
from tests.support import fakes


def totals(count: int) -> OpTotals:
    return OpTotals(
        count, 10 * count, 0, 100 * count, inflight=None,
        latency=LatencyHist(), size_lat=SizeLatencyHist(),
    )  # fmt: skip


def sample(tick: int, cached: int, missed: int, direct: int, inflight: int) -> Sample:
    ops = {"read_cached": totals(cached), "read_missed": totals(missed)}
    ops["read_direct"] = replace(totals(direct), inflight=2)
    ops["read_buffered"] = OpTotals(inflight=inflight)
    empty = replace(fakes.sample(tick, {}), specs={"syscall": SPEC})
    return replace(empty, layers={"syscall": LayerSample("bpf", ops)})


def test_both_kinds_are_parts_of_their_sum_which_alone_knows_what_is_in_flight() -> None:
    snapshot = derive(sample(0, 5, 1, 7, 0), sample(1, 25, 4, 17, 3))
    layer = snapshot.layers["syscall"]
    assert isinstance(layer, LayerSnapshot)
    found = {name: (stats.count, stats.inflight) for name, stats in layer.ops.items()}
    assert found == {
        "read_cached": (20, None),
        "read_missed": (3, None),
        "read_direct": (10, 2),
        "read_buffered": (23, 3),
        "read_waited": (13, 2),  # those known to wait
        "read": (33, 5),
    }
    rows = [row.op for row in op_rows(SPEC, layer.ops, "app")]
    assert "read_buffered" not in rows
    listed = [each.op for each in layers_of(snapshot, 1.0)]
    assert listed == ["read_cached", "read_missed", "read_direct", "read"]


@pytest.mark.parametrize(
    ("readings", "cached"),
    [
        # pages read and fetched in each reading
        ([(100, 0), (50, 0)], 150),
        ([(100, 100), (50, 60)], 0),  # the whole, and some ahead
        ([(40, 128), (40, 0), (40, 0)], 0),  # read-ahead that is used later
        ([(0, 4096), *[(0, 0)] * 14, (100, 0)], 100),  # unused: it hides no later hits
        ([(0, 3), *[(0, 0)] * 2, (100, 0)], 100),  # nor does a part of a page
        ([(100, 0), (0, 100)], 100),  # what was from memory stays so
    ],
)
def test_bytes_that_were_not_fetched_came_from_memory(
    readings: list[tuple[int, int]], cached: int
) -> None:
    names = ("packed", "unpacked", "direct_hole")
    sums = {f"read_{name}_bytes_total": 0 for name in (*names, "followed", "lower")}
    counter = _CachedBytes()
    for read, fetched in readings:
        sums["read_followed_bytes_total"] += read * PAGESIZE
        sums["read_lower_bytes_total"] += fetched * PAGESIZE
        total = counter.total(sums)
    assert total == cached * PAGESIZE


def test_unpacked_bytes_were_fetched_and_holes_are_not_memory() -> None:
    sums = {
        "read_followed_bytes_total": 1000,
        "read_lower_bytes_total": 100,
        "read_packed_bytes_total": 100,
        "read_unpacked_bytes_total": 600,
        "read_direct_hole_bytes_total": 300,
    }
    assert _CachedBytes().total(sums) == 100
