"""The fsync storm: judged by what it costs others, as measured on a virtual disk's ext4."""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.snapshot import LayerSnapshot
from tests.unit.snapshot_maker import found, layer, op, spread


def block(slow: int = 20, reader: str = "backup", **ops: Any) -> LayerSnapshot:
    """500 reads a second, so many of which wait 12 ms, among the storm's requests."""
    read = op(500, 8192, 300, latency=spread(500 - slow, 110, slow, 12_000), max_us=12_000.0)
    rows: list[Any] = [(("7", reader), {"reads_per_s": 500.0})]
    busy = {"read": read, "write": op(7000, 4096, 190), "flush": op(2500, 0, 160)}
    return layer("block", busy | ops, tables={"process": rows})


def storm(fsync_us: float = 900, rate: float = 3000, size: float = 4096) -> LayerSnapshot:
    rows: list[Any] = [(("9", "logger"), {"sync_ns_per_s": 2.7e9})]
    ops = {"fsync": op(rate, 0, fsync_us), "write": op(rate, size, 15)}
    return layer("syscall", ops, tables={"process": rows})


def test_thousands_of_fsyncs_hold_up_others_reads() -> None:
    finding = found({"syscall": storm(), "block": block()})["sync_writes"]
    assert finding.severity == "info"
    assert finding.cause == (
        "logger[9] makes 3,000 fsyncs a second: 7,000 writes and 2,500 flushes, 95 % of the disks' "
        "requests. Other programs' reads wait behind them: 1 in 100 takes more than 12.3 ms."
    )


@pytest.mark.parametrize(
    ("calls", "below"),
    [
        pytest.param(storm(), block(slow=0), id="the reads are as fast as ever"),
        pytest.param(storm(), block(reader="logger"), id="its own processes read"),
        pytest.param(storm(rate=400), block(), id="hundreds"),
        pytest.param(
            storm(), block(write=op(100, 4096, 190), flush=op(9, 0, 9)), id="few requests"
        ),
        pytest.param(storm(size=1 << 20), block(), id="a group commit"),
    ],
)
def test_what_looks_like_a_storm(calls: LayerSnapshot, below: LayerSnapshot) -> None:
    assert "sync_writes" not in found({"syscall": calls, "block": below})


def test_a_slow_fsync_is_told_as_that() -> None:
    finding = found({"syscall": storm(fsync_us=5_000), "block": block()})["sync_writes"]
    assert finding.cause.startswith("logger[9] waits 100 % of the time for")
