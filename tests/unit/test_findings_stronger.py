"""The stronger of two causes is reported; a storm of fsyncs is judged by its cost to others."""

from __future__ import annotations

from typing import Any

import pytest

from ioh.model.finding import Finding
from ioh.model.sample import Value
from ioh.model.snapshot import HostStats, LayerSnapshot, Snapshot
from tests.unit.snapshot_maker import calls, disk, found, judged, layer, op, spread, ticks

KB, MB = 1024, 1 << 20
Row = tuple[tuple[str, ...], dict[str, Value]]


def one_at_a_time(
    rate: float, call_us: float, disk_us: float, cpu_pct: float
) -> dict[str, Finding]:
    """One thread's direct reads of 4 KB."""
    call = op(rate, 4 * KB, call_us, inflight=1)
    app = calls("read_direct", call, read_calls_per_s=rate, read_lower_ops_per_s=rate)
    device = disk("sda", op(rate, 4 * KB, disk_us))
    host = HostStats(cpu_pct=cpu_pct, cached_bytes=1 << 30, dirty_bytes=0, writeback_bytes=0)
    return found({"syscall": app, "block": layer("block", **device)}, host=host)


def test_waiting_for_a_busy_cpu_is_named_as_a_cause() -> None:
    cause = one_at_a_time(300, 3.3e3, 200, 99.0)["single_stream"].cause
    assert "The storage takes only 200 µs of that: the CPUs are 99 % busy" in cause
    assert "CPU" not in one_at_a_time(300, 3.3e3, 200, 50.0)["single_stream"].cause
    assert "CPU" not in one_at_a_time(300, 3.3e3, 3e3, 99.0)["single_stream"].cause


@pytest.mark.parametrize(("call_us", "is_found"), [(9e3, True), (4.6e3, False)])
def test_two_large_requests_count_only_if_one_waits_for_the_other(
    call_us: float, is_found: bool
) -> None:
    app = calls(
        "read_direct", op(100, MB, call_us), read_calls_per_s=100.0,
        read_lower_ops_per_s=199.4,  # a second has only the first request of its last read
        read_lower_bytes_per_s=100.0 * MB,
    )  # fmt: skip
    device = disk("sda", op(200, 512 * KB, 4.4e3), max_segments=128, max_request_bytes=1280 * KB)
    said = found({"syscall": app, "block": layer("block", **device)})
    assert ("fragmentation" in said) is is_found
    if is_found:
        assert "max_segments x 4 KB of sda is 512 KB" in said["fragmentation"].cause


def shared(victim: float, rival: float, victim_us: float, mean_us: float) -> LayerSnapshot:
    total = op(victim + rival, 4 * KB, mean_us)
    device = disk("sda", total, reads_per_s=victim + rival, read_await_us=mean_us,
                  read_bytes_per_s=(victim + rival) * 4 * KB)  # fmt: skip
    rows: list[Row] = [(("7", "db"), {"reads_per_s": victim})]
    if rival:
        rows.append((("9", "backup"), {"reads_per_s": rival}))
    return layer("block", **{**device, "tables": {**device["tables"], "process": rows}})


def seconds(count: int, start: int, victim: float, rival: float, *us: float) -> list[Snapshot]:
    rows = [(("7", "db"), {"reads_per_s": victim, "read_latency_us": us[0]})]
    app = calls("read_direct", op(victim, 4 * KB, us[0]), {"process": rows})
    block = shared(victim, rival, us[0], us[1])
    return ticks(count, {"syscall": app, "block": block}, start=start)


def test_a_rival_is_named_while_it_runs_with_the_victims_numbers() -> None:
    given = [*seconds(30, 0, 300, 0, 97.0, 90.0), *seconds(60, 30, 4, 2000, 280e3, 25e3)]
    said = [each.get("shared_drive") for each in judged(given)]
    assert not any(said[:30])
    assert all(said[38:90])
    cause = "db[7] makes 4 calls a second (280 ms each) instead of 300 (97 µs each), because "
    assert said[89] is not None
    assert said[89].cause == cause + "backup[9] (99.8 %) now uses sda too."


def block(slow: int = 20, reader: str = "backup", **ops: Any) -> LayerSnapshot:
    """500 reads a second, of which ``slow`` wait 12 ms, among the storm's requests."""
    read = op(500, 8192, 300, latency=spread(500 - slow, 110, slow, 12_000), max_us=12_000.0)
    rows: list[Any] = [(("7", reader), {"reads_per_s": 500.0})]
    busy = {"read": read, "write": op(7000, 4096, 190), "flush": op(2500, 0, 160)}
    return layer("block", busy | ops, tables={"process": rows})


def storm(fsync_us: float = 900, rate: float = 3000, size: float = 4096) -> LayerSnapshot:
    rows: list[Any] = [(("9", "logger"), {"sync_ns_per_s": 2.7e9})]
    ops = {"fsync": op(rate, 0, fsync_us), "write": op(rate, size, 15)}
    return layer("syscall", ops, tables={"process": rows})


def test_thousands_of_fsyncs_delay_reads_of_others() -> None:
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
def test_what_only_looks_like_a_storm_is_not_reported(
    calls: LayerSnapshot, below: LayerSnapshot
) -> None:
    assert "sync_writes" not in found({"syscall": calls, "block": below})


def test_a_slow_fsync_is_reported_by_its_own_time() -> None:
    finding = found({"syscall": storm(fsync_us=5_000), "block": block()})["sync_writes"]
    assert finding.cause.startswith("logger[9] waits 100 % of the time for")
