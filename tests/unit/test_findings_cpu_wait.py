"""Calls that wait for a CPU more than for the storage are named, and only those."""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.finding import Finding
from ioh.model.snapshot import HostStats
from tests.unit.snapshot_maker import Layers, disk, found, judged, layer, op

READS = 100


def reads(cpu_us: float | None, device_us: float = 300, call_us: float = 10_000) -> Layers:
    """100 direct reads a second, whose threads wait so long for a CPU."""
    read = op(READS, 8192, call_us)
    metrics: Any = {
        "read_lower_ops_per_s": float(READS), "read_lower_bytes_per_s": READS * 8192.0,
        "read_waited_cpu_wait_ns_per_s": None if cpu_us is None else READS * cpu_us * 1e3,
    }  # fmt: skip
    app = layer("syscall", {"read": read, "read_direct": read}, metrics=metrics)
    return {"syscall": app, "block": layer("block", **disk("sda", read=op(READS, 8192, device_us)))}


def said(layers: Layers, cpu: float | None = 100.0) -> Finding | None:
    return found(layers, host=HostStats(cpu_pct=cpu)).get("cpu_wait")


def test_reads_that_wait_for_a_cpu_are_not_the_disks() -> None:
    finding = said(reads(8000))
    assert finding is not None
    assert finding.cause == (
        "A read waits 8.00 ms of its 10.0 ms (80 %) for a CPU; the storage takes 300 µs."
    )
    assert [item.text for item in finding.evidence] == [
        "0.8 threads wait for a CPU on average",
        "CPUs 100 % busy",
    ]
    assert (finding.severity, finding.command) == (
        "info", "ps -eo pcpu,pid,comm --sort=-pcpu | head"
    )  # fmt: skip


def test_longer_than_a_scheduling_delay_is_a_warning() -> None:
    finding = said(reads(25_000, call_us=30_000))
    assert finding is not None
    assert finding.severity == "warning"


@pytest.mark.parametrize(("cpu", "is_limited"), [(40.0, True), (95.0, False), (None, False)])
def test_with_idle_cpus_a_limit_is_looked_for(cpu: float | None, *, is_limited: bool) -> None:
    finding = said(reads(8000), cpu)
    assert finding is not None
    assert ("cpu.max" in finding.advice) == is_limited
    assert ("nr_throttled" in finding.command) == is_limited


def test_syncs_and_writes_are_judged_alone() -> None:
    sync, write = op(READS, 0, 10_000), op(READS, 8192, 200)
    ops = {"fsync": sync, "write": write, "write_sync": write}
    metrics: Any = {"sync_cpu_wait_ns_per_s": 0.7e9, "write_lower_bytes_per_s": READS * 8192.0}
    finding = said({"syscall": layer("syscall", ops, metrics=metrics)})
    assert finding is not None
    assert finding.subject == "sync"


@pytest.mark.parametrize(
    "layers",
    [
        reads(0),  # the CPU was idle
        reads(None),  # a kernel without run_delay, or an old recording
        reads(3000, 6500),  # the disk takes longer
        reads(900, 50, 1000),  # most of the call, but hardly any time
    ],
)
def test_others_are_not(layers: Layers) -> None:
    assert said(layers) is None


def test_a_short_burst_is_not() -> None:
    seconds = [reads(0)] * 8 + [reads(9000)] * 3 + [reads(0)] * 8
    assert not any("cpu_wait" in each for each in judged(seconds))
