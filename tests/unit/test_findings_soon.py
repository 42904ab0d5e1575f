"""Write-back, and storage that gets faster, found within seconds; healthy look-alikes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ioh.model.snapshot import HostStats, LayerSnapshot, OpStats, Snapshot
from tests.unit.snapshot_maker import calls, disk, judged, layer, op, ticks

KB, MB = 1024, 1 << 20
CALLS, CALL = 3000, 4 * KB


def told(seconds: Iterable[Snapshot]) -> dict[str, int]:
    """The second in which each rule first fired."""
    first = dict[str, int]()
    for second, said in enumerate(judged(seconds), 1):
        for rule in said:
            first.setdefault(rule, second)
    return first


def second(at: int, layers: dict[str, LayerSnapshot], dirty: int = 0) -> Snapshot:
    host = HostStats(cpu_pct=20.0, cached_bytes=1 << 30, dirty_bytes=dirty, writeback_bytes=0)
    return ticks(1, layers, host=host, start=at)[0]


def written(at: int, requests: float, dirty: int, size: int = 512 * KB) -> Snapshot:
    """A second of 4 KB buffered writes, and what the disk got."""
    app = calls("write_buffered", op(CALLS, CALL, 5))
    block = layer("block", **disk("sda", write=op(requests, size, 900)))
    return second(at, {"syscall": app, "block": block}, dirty)


def write_back(every_s: int, count: int, kept: float = 0.0, size: int = 512 * KB) -> list[Snapshot]:
    """Seconds of writes, written back every ``every_s``; ``kept``: share never written back."""
    made, dirty = [], 0
    for at in range(count):
        dirty += round(CALLS * CALL * (1 - kept))
        requests = 0
        if at % every_s == every_s - 1:
            requests, dirty = dirty // size, dirty % size
        made.append(written(at, requests, dirty, size))
    return made


@pytest.mark.parametrize("every_s", [2, 5, 7, 30])
def test_write_back_is_reported_within_8_s_of_its_start(every_s: int) -> None:
    first = told(write_back(every_s, every_s + 12))
    assert every_s <= first["consolidation"] <= every_s + 8


@pytest.mark.parametrize(
    "seconds",
    [
        write_back(2, 28, kept=0.5),  # overwritten in memory before they are written back
        write_back(2, 40, size=8 * KB),  # hardly joined
        write_back(100, 40),  # not written back at all
        [written(at, 2, CALLS * CALL * at) for at in range(40)],  # a journal alone
    ],
)
def test_writes_that_are_not_joined_are_not_reported(seconds: list[Snapshot]) -> None:
    assert "consolidation" not in told(seconds)


def reads(each: Iterable[tuple[float, float]], size: int = 8 * KB) -> list[Snapshot]:
    """A second for each (latency in µs, requests in flight)."""
    made = []
    for at, (latency_us, depth) in enumerate(each):
        read = op(depth * 1e6 / latency_us, size, latency_us)
        made.append(second(at, {"block": layer("block", **disk("sda", read))}))
    return made


def falling(depth: float = 16.0) -> list[tuple[float, float]]:
    """From 50 ms to 19 ms within 20 seconds."""
    return [(50e3 * 0.95**at, depth) for at in range(20)]


# 20 ms, up to 60 within 12 s and down again within 18.
PEAK = [20e3] * 20 + [20e3 * 1.1**at for at in range(12)] + [60e3 * 0.94**at for at in range(18)]


def with_sizes(seconds: list[Snapshot]) -> list[Snapshot]:
    """The same with ever smaller reads."""
    made = []
    for at, snapshot in enumerate(seconds):
        block = snapshot.layers["block"]
        assert isinstance(block, LayerSnapshot)
        read: OpStats = block.ops["read"]
        smaller = replace(read, bytes=round((read.bytes or 0) * 0.97**at))
        layers = {"block": replace(block, ops={**block.ops, "read": smaller})}
        made.append(replace(snapshot, layers=layers))
    return made


@pytest.mark.parametrize(
    "seconds",
    [
        reads((50e3 * 0.95**at, 16 * 0.95**at) for at in range(20)),  # less load
        reads((50e3 if at < 10 else 25e3, 16) for at in range(20)),  # one jump: a rival ends
        reads((50e3 if at < 20 else 25e3, 16) for at in range(40)),
        reads((50e3 if at % 2 else 25e3, 16) for at in range(40)),  # up and down
        reads((50e3 * 0.99**at, 16) for at in range(20)),  # hardly faster
        reads((us, 16) for us in PEAK),
        reads((50e3 * 0.95**at * (1.3 if at % 3 else 0.7), 16) for at in range(20)),  # ragged
        reads((190 * 0.95**at, 0.5) for at in range(20)),  # fast from the beginning
        with_sizes(reads(falling())),
    ],
)
def test_other_changes_are_not_reported_as_faster_storage(seconds: list[Snapshot]) -> None:
    assert "tiering" not in told(seconds)
    assert told(reads(falling()))["tiering"] <= 18


@pytest.mark.parametrize(("cached", "fires"), [(0, True), (400, True), (900, False)])
def test_one_thread_of_buffered_reads_is_reported_unless_cached(cached: int, fires: bool) -> None:
    call = op(1000, 8 * KB, 990, inflight=1)
    app = calls(
        "read_buffered", call, read_calls_per_s=1000.0, read_calls_cached_per_s=float(cached)
    )
    assert ("single_stream" in told(second(at, {"syscall": app}) for at in range(15))) is fires
