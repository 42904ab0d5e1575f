"""Direct reads that reach no device, and those that reach one whose I/O ends in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.snapshot_maker import disk, found, layer, op

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
