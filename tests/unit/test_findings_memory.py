"""Memory that is too small, memory and holes mistaken for a disk, and a peer that is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioh.model.sample import Value
from ioh.model.snapshot import HostStats, LayerSnapshot
from tests.unit.snapshot_maker import calls, disk, found, judged, layer, op, ticks

MB = 1 << 20
PEER = ("10.0.0.1:40000", "10.0.0.2:3260")


def swapping(swap_in: float, swap_out: float, lost_pct: float | None) -> dict[str, str]:
    host = HostStats(cpu_pct=20.0, mem_total_bytes=16 << 30, mem_available_bytes=1 << 30)
    metrics: dict[str, Value] = {
        "swap_in_bytes_per_s": swap_in,
        "swap_out_bytes_per_s": swap_out,
        "memory_wait_us_per_s": None if lost_pct is None else lost_pct * 1e4,
    }
    below = disk("sda", op(10_000, 4096, 300))
    rows: dict[str, list[tuple[tuple[str, ...], dict[str, Value]]]] = {
        "process": [
            (("8", "cp"), {"read_bytes_per_s": 90e6, "fault_bytes_per_s": 1e6}),
            (("7", "java"), {"fault_bytes_per_s": swap_in}),
        ]
    }
    layers = {
        "block": layer("block", **below, metrics=metrics),
        "syscall": layer("syscall", tables=rows),
    }
    return {rule: f"{f.severity}: {f.cause}" for rule, f in found(layers, host=host).items()}


def test_swapping_names_the_process_and_the_time_lost() -> None:
    assert swapping(40e6, 42e6, 55.0)["swapping"] == (
        "critical: Memory is too small: 40 MB/s is swapped in and 42 MB/s is swapped out; "
        "java[7] waits for its own pages; programs wait for memory 55 % of the time."
    )
    assert swapping(40e6, 42e6, None)["swapping"].startswith("warning")


@pytest.mark.parametrize(("reached", "fires"), [(50, True), (1900, False)])
def test_writes_that_hardly_reach_the_disks_go_to_memory(reached: int, fires: bool) -> None:
    row: dict[str, Value] = {"write_bytes_per_s": 2000.0 * MB}
    app = calls("write_buffered", op(2000, MB, 400), {"process": [(("7", "dd"), row)]})
    below = layer("block", **disk("sda", None, op(reached, MB, 900)))
    assert ("caching" in found({"syscall": app, "block": below})) is fires


@pytest.mark.parametrize(
    ("reads", "fires"),
    [
        pytest.param(0.0, False, id="whole pages, fsyncs, and somebody else reads"),
        pytest.param(40.0, False, id="metadata"),
        pytest.param(None, False, id="recorded before these reads were counted"),
        pytest.param(200.0, True, id="a page at each end"),
    ],
)
def test_only_reads_that_writes_wait_for_are_read_before_write(
    reads: float | None, fires: bool
) -> None:
    """100 writes and fsyncs a second that submit 400 requests, beside 200 reads of the disk."""
    ops = {"write_buffered": op(100, 4096, 90), "fsync": op(100, 0, 900)}
    made = {"write_calls_per_s": 200.0, "write_lower_ops_per_s": 400.0, "write_reads_per_s": reads}
    below = layer("block", **disk("sda", op(200, 4096, 90), op(400, 4096, 90)))
    said = found({"syscall": layer("syscall", ops, metrics=made), "block": below})
    assert ("read_before_write" in said) is fires
    if fires:
        assert "each needs 2 disk reads first" in said["read_before_write"].cause


def wire(new: int, again: int) -> LayerSnapshot:
    """A second of one connection with ``new`` bytes sent and ``again`` segments retransmitted."""
    row: dict[str, Value] = {
        "out_bytes_per_s": float(new),
        "retrans_segs_per_s": float(again),
        "retrans_bytes_per_s": 1448.0 * again,
        "unacked": 10,
    }
    return layer("tcp", tables={"connection": [(PEER, row)]})


def seconds(sent: list[tuple[int, int]]) -> list[bool]:
    """For each second: whether the peer is reported as gone."""
    return ["tcp_no_answer" in said for said in judged({"tcp": wire(*each)} for each in sent)]


def test_a_peer_that_is_gone_is_reported_within_three_seconds() -> None:
    """It stays reported for as long as it is gone.

    Timeouts come after 0.2, 0.6, 1.4, 3, 6.2 and 12.6 s of silence, which began in the 5th second.
    """
    silence = [(900, 1), (0, 2), (0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0), (0, 0), (0, 0)]
    said = seconds([(5000, 0)] * 4 + silence)
    assert not any(said[:5])
    assert all(said[6:])
    assert not any(seconds([(5000, 0), (0, 1)] * 5))  # data is still sent


Rows = dict[str, list[tuple[tuple[str, ...], dict[str, Value]]]]


@pytest.mark.parametrize(("on_loop", "fires"), [(0, True), (290, False)])
def test_reads_that_a_loop_device_answers_are_not_holes(on_loop: int, fires: bool) -> None:
    """Worker threads of io_uring submit them, so few are attributed to the calls."""
    read = op(300, MB, 20e3)
    app = calls("read_direct", read, read_calls_per_s=300.0, read_lower_bytes_per_s=50.0 * MB)
    below = layer("block", **disk("loop1", op(on_loop, MB, 18e3), stacked=1))
    few = op(5, MB, 600)
    below = replace(below, ops={**below.ops, "read": few})  # all disks, without stacked ones
    assert ("holes" in found({"syscall": app, "block": below})) is fires


@pytest.mark.parametrize(
    ("memory", "holes", "subject", "words"),
    [
        (299, 0, "memory", "not do direct I/O for this file (btrfs: compressed files, and small"),
        (0, 299, "direct", "holes, or blocks that were allocated but never written."),
        (0, 0, "direct", "never written, or were in memory (some files are read through it)."),
        (3, 0, "direct", "never written, or were in memory (some files are read through it)."),
    ],
)
def test_direct_reads_of_no_device_are_of_memory_or_of_holes(
    memory: int, holes: int, subject: str, words: str
) -> None:
    """Their probe knows which, but not of those that a worker does."""
    app = calls(
        "read_direct", op(300, MB, 2e3),
        {"mount": [(("/srv", "btrfs"), {"read_bytes_per_s": 3e8, "read_waited_bytes_per_s": 3e8})]},
        read_calls_per_s=300.0, read_direct_from_memory_bytes_per_s=memory * MB,
        read_direct_hole_bytes_per_s=holes * MB,
    )  # fmt: skip
    [said] = found({"syscall": app, "block": layer("block")}).values()
    assert (said.rule, said.subject) == ("holes", subject)
    assert said.cause.endswith(words) or words in said.cause
    assert said.confidence == ("medium" if memory + holes < 100 else "high")


def test_direct_reads_that_reach_the_device_are_neither() -> None:
    app = calls(
        "read_direct", op(300, MB, 2e3), read_calls_per_s=300.0,
        read_lower_bytes_per_s=290.0 * MB, read_direct_from_memory_bytes_per_s=9.0 * MB,
    )  # fmt: skip
    below = layer("block", **disk("sda", op(290, MB, 2e3)))
    assert "holes" not in found({"syscall": app, "block": below})


def _said(looked: int, holes: int, grows: int) -> set[str]:
    """Rules that fire at 300 MB/s of buffered reads, none of it fetched, while the cache grows."""
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
        (200, 0, 300, "caching"),  # shared memory is page cache, too; filters hide who writes
        (200, 190, 0, "holes"),
        (0, 0, 300, "caching"),  # the files were not checked for holes
    ],
)
def test_holes_or_the_page_cache_are_named(looked: int, holes: int, grows: int, said: str) -> None:
    assert _said(looked, holes, grows) == {said}
