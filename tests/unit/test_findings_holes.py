"""Direct reads that reach no device, and those that reach one whose I/O ends in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.sample import Value
from ioh.model.snapshot import HostStats
from tests.unit.snapshot_maker import calls, disk, found, judged, layer, op, ticks

MB = 1 << 20
Rows = dict[str, list[tuple[tuple[str, ...], dict[str, Value]]]]


@pytest.mark.parametrize(("on_loop", "fires"), [(0, True), (290, False)])
def test_what_a_loop_device_answers_from_memory_has_reached_a_device(
    on_loop: int, fires: bool
) -> None:
    """Worker threads of io_uring submit it, so little of it is charged to the calls."""
    read = op(300, MB, 20e3)
    app = calls("read_direct", read, read_calls_per_s=300.0, read_lower_bytes_per_s=50.0 * MB)
    below = layer("block", **disk("loop1", op(on_loop, MB, 18e3), stacked=1))
    few = op(5, MB, 600)
    below = replace(below, ops={**below.ops, "read": few})  # all disks, without those on others
    assert ("holes" in found({"syscall": app, "block": below})) is fires


def _said(looked: int, holes: int, grows: int) -> set[str]:
    """Rules that speak of 300 buffered MB/s, none of which is fetched, while the cache grows."""
    metrics: dict[str, Value] = {
        "read_calls_per_s": 300.0,
        "read_calls_cached_per_s": 300.0,
        "read_looked_bytes_per_s": looked * MB,
        "read_hole_bytes_per_s": holes * MB,
    }
    read = op(300, MB, 200)
    files: Rows = {"file": [(("/srv/it's",), {"read_bytes_per_s": 3e8})]}
    layers = {"syscall": calls("read_buffered", read, files, **metrics), "block": layer("block")}
    hosts = [HostStats(cpu_pct=20.0, cached_bytes=at * grows * MB) for at in range(15)]
    said = judged(ticks(1, layers, host=host, start=at)[0] for at, host in enumerate(hosts))
    if "holes" in said[-1]:
        assert said[-1]["holes"].command.endswith("filefrag '/srv/it'\"'\"'s'")
    return set().union(*said)


@pytest.mark.parametrize(
    ("looked", "holes", "grows", "said"),
    [
        (200, 0, 300, "caching"),  # shared memory counts as page cache, filters hide who writes
        (200, 190, 0, "holes"),
        (0, 0, 300, "caching"),  # nobody looked at these files
    ],
)
def test_holes_or_the_page_cache_are_named(looked: int, holes: int, grows: int, said: str) -> None:
    assert _said(looked, holes, grows) == {said}
