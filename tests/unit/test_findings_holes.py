"""Direct reads that reach no device, and those that reach one whose I/O ends in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.findings.engine import Engine
from ioh.model.snapshot import HostStats
from tests.unit.snapshot_maker import disk, found, layer, op, ticks

MB = 1 << 20


@pytest.mark.parametrize(("on_loop", "fires"), [(0, True), (290, False)])
def test_what_a_loop_device_answers_from_memory_has_reached_a_device(
    on_loop: int, fires: bool
) -> None:
    """Worker threads of io_uring submit it, so little of it is charged to the calls."""
    read = op(300, MB, 20e3)
    metrics = {"read_calls_per_s": 300.0, "read_lower_bytes_per_s": 50.0 * MB}
    app = layer("syscall", {"read": read, "read_direct": read}, metrics=metrics)
    below = layer("block", **disk("loop1", op(on_loop, MB, 18e3), stacked=1))
    few = op(5, MB, 600)
    below = replace(below, ops={**below.ops, "read": few})  # all disks, without those on others
    assert ("holes" in found({"syscall": app, "block": below})) is fires


def _caching(grows: int, below: dict[str, Any], written: float = 0.0) -> set[str]:
    """Rules that speak of 30 buffered MB/s, of which no call fetches any, while the cache grows."""
    engine, said = Engine(), set[str]()
    app = layer(
        "syscall",
        {
            "read": op(30, MB, 200),
            "read_buffered": op(30, MB, 200),
            "write": op(written, MB, 300),
            "write_buffered": op(written, MB, 300),
        },
        metrics={"read_calls_per_s": 30.0, "read_calls_cached_per_s": 30.0},
    )
    layers = {"syscall": app, "block": layer("block", **below)}
    for at in range(15):
        host = HostStats(cpu_pct=20.0, cached_bytes=at * grows * MB, dirty_bytes=0)
        said |= {f.rule for f in engine.judge(ticks(1, layers, host=host, start=at)[0]).findings}
    return said


@pytest.mark.parametrize(
    ("grows", "below", "written", "fires"),
    [
        (30, {}, 0.0, True),
        (330, disk("loop1", write=op(300, MB, 900), stacked=1), 0.0, False),  # its file's pages
        (330, disk("loop1", op(300, MB, 900), stacked=1), 0.0, False),
        (200, disk("sda", op(200, MB, 900)), 0.0, False),  # page faults of a mapping
        (300, {}, 300.0, False),
    ],
)
def test_what_fills_the_cache_from_elsewhere_is_no_hole(
    grows: int, below: dict[str, Any], written: float, fires: bool
) -> None:
    assert ("holes" in _caching(grows, below, written)) is fires
