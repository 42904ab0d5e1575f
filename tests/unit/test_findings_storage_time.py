"""No rule advises a device if most of the time is above it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioh.model.finding import Finding
from ioh.model.snapshot import TableRow
from tests.unit.snapshot_maker import disk, found, layer, op, spread

CALLS = 100


def app(fsync_us: float = 8000, for_cpu_us: float = 0, **more: Any) -> Any:
    """100 fsyncs a second, each after a write of 8 KB."""
    write = op(CALLS, 8192, 20)
    ops = {"write": write, "write_buffered": write, "fsync": op(CALLS, 0, fsync_us, **more)}
    metrics = {"sync_cpu_wait_ns_per_s": CALLS * for_cpu_us * 1e3}
    rows: Any = {"process": [(("7", "postgres"), {"sync_ns_per_s": CALLS * fsync_us * 1e3})]}
    return layer("syscall", ops, metrics=metrics, tables=rows)


def block(write_us: float, flush_us: float, **more: Any) -> Any:
    made = disk("sda", write=op(2 * CALLS, 8192, write_us, **more))
    made["ops"]["flush"] = op(CALLS, 0, flush_us, **more)
    return layer("block", **made)


def advised(layers: Any, rule: str = "sync_writes") -> Finding:
    return found(layers)[rule]


def test_slow_syncs_on_a_fast_disk_are_not_the_disks() -> None:
    finding = advised({"syscall": app(for_cpu_us=5500), "block": block(400, 300)})
    assert finding.cause.endswith("durable; the storage takes only 1.10 ms of it.")
    assert "A faster device would not help." in finding.advice
    assert [item.text for item in finding.evidence][2:] == [
        "each waits 5.50 ms for a CPU",
        "CPUs 20 % busy",
    ]


@pytest.mark.parametrize(("limit", "is_named"), [(210.0, True), (1000.0, False), (None, False)])
def test_a_limit_that_is_reached_is_named_instead_of_the_cpus(
    limit: float | None, *, is_named: bool
) -> None:
    slow = block(400, 300)
    rows = [(("/pg.slice", "sda"), {"write_limit_ops_per_s": limit, "cgroup_version": 2})]
    tables = {"device": slow.tables["device"], "limit": tuple(TableRow(*row) for row in rows)}
    layers = {"syscall": app(), "block": replace(slow, tables=tables)}
    finding = advised(layers)
    assert ("control group /pg.slice limits the writes of sda" in finding.advice) == is_named
    assert finding.command.startswith("cat /sys/fs/cgroup/pg.slice/io.max") == is_named


@pytest.mark.parametrize(
    ("layers", "is_device"),
    [
        ({"block": block(1500, 2500)}, True),  # 5.5 of 8 ms
        ({"block": block(400, 3900)}, True),
        ({"nfs_client": layer("nfs_client", {"write": op(CALLS, 8192, 6000)})}, True),
        ({}, False),  # on a file system that is not followed: unknown
    ],
)
def test_slow_syncs_on_a_slow_disk_are(layers: Any, *, is_device: bool) -> None:
    finding = advised({"syscall": app(for_cpu_us=5500), **layers})
    assert finding.cause.endswith("durable.")
    assert ("protected write cache" in finding.advice) == is_device
    assert finding.advice.startswith("Write more data per fsync")


@pytest.mark.parametrize(("flush_us", "is_device"), [(900, False), (90_000, True)])
def test_a_tail_of_syncs_is_the_disks_only_if_it_has_one(
    flush_us: float, *, is_device: bool
) -> None:
    tail: Any = {"latency": spread(980, 500, 20, 100_000), "max_us": 100_000.0, "count": 1000}
    quick: Any = {"latency": spread(980, 300, 20, flush_us), "max_us": flush_us}
    layers = {"syscall": app(2500, **tail), "block": block(300, 300, **quick)}
    finding = advised(layers, "tail_latency")
    assert ("slow disk of several" in finding.advice) == is_device
    assert ("the storage takes only" in finding.cause) != is_device


@pytest.mark.parametrize(("for_cpu_us", "fires"), [(0, True), (6000, False), (60_000, True)])
def test_time_above_a_disk_that_is_waiting_for_a_cpu_is_called_so(
    for_cpu_us: float, *, fires: bool
) -> None:
    """Short delays by the scheduler are no finding, long ones are the CPU's."""
    read = op(CALLS, 4096, max(9000.0, for_cpu_us * 1.1))
    metrics = {
        "read_lower_ops_per_s": float(CALLS), "read_lower_bytes_per_s": CALLS * 4096.0,
        "read_waited_cpu_wait_ns_per_s": CALLS * for_cpu_us * 1e3,
    }  # fmt: skip
    calls = layer("syscall", {"read": read, "read_direct": read}, metrics=metrics)
    below = layer("block", **disk("sda", read=op(CALLS, 4096, 500)))
    rules = found({"syscall": calls, "block": below})
    assert ("time_above_disk" in rules) == fires
    if fires:
        assert ("wait longer for a CPU" in rules["time_above_disk"].advice) == bool(for_cpu_us)
