"""What each call became below: served from cache or not, and into how many requests."""

from __future__ import annotations

import os

import pytest

from tests.kernel.rig import MIB, Ioh, Volume, about, aligned, opened, recording

CHUNK = 8192
CALLS = 8 * MIB // CHUNK


def read_through(volume: Volume, name: str, flags: int, size: int) -> Ioh:
    """Read a file once from begin to end, and record it."""
    with (
        recording("--device", volume.device, "--layers", "syscall,block") as ioh,
        opened(volume.mount / name, os.O_RDONLY | flags) as fd,
        aligned(size) as buffer,
    ):
        at = 0
        while got := os.preadv(fd, [buffer], at):
            at += got
    return ioh


def read_metrics(ioh: Ioh) -> dict[str, int]:
    names = ("read_calls", "read_calls_cached", "read_lower_ops", "read_lower_bytes")
    return {name: ioh.metric("syscall", name) for name in (*names, "lower_splits")}


def test_the_second_pass_is_served_from_cache(volume: Volume) -> None:
    volume.file("data", 8 * MIB)
    volume.drop_caches()
    first = read_metrics(read_through(volume, "data", 0, CHUNK))
    again = read_through(volume, "data", 0, CHUNK)
    assert first["read_calls"] == CALLS + 1  # the last one finds the end
    # Read-ahead fetches up to 32 chunks at a time for the call that runs into its edge.
    assert 1 <= CALLS - first["read_calls_cached"] + 1 < CALLS / 4
    assert first["read_lower_bytes"] == pytest.approx(8 * MIB, abs=CHUNK)  # and the file's map
    second = read_metrics(again)
    assert second["read_calls"] == second["read_calls_cached"] == CALLS + 1
    assert second["read_lower_ops"] == second["read_lower_bytes"] == 0
    shares = [i["layers"]["syscall"]["metrics"]["cached_pct"] for i in again.intervals]
    assert {share for share in shares if share is not None} == {100.0}


def test_direct_reads_are_never_served_from_cache(volume: Volume) -> None:
    volume.file("data", 8 * MIB)
    read_through(volume, "data", 0, CHUNK)
    direct = read_metrics(read_through(volume, "data", os.O_DIRECT, CHUNK))
    assert direct["read_calls"] - direct["read_calls_cached"] == CALLS
    assert direct["read_lower_ops"] == CALLS
    assert direct["read_lower_bytes"] == about(8 * MIB)


@pytest.mark.parametrize(("size", "parts"), [(MIB, 16), (192 << 10, 3), (64 << 10, 1)])
def test_large_reads_are_cut_to_the_devices_limit(volume: Volume, size: int, parts: int) -> None:
    """The limit of 64 KiB is the queue's own, as in a device's max_sectors_kb."""
    calls = 23
    path = volume.file("data", calls * size)
    volume.loop.set_queue("max_sectors_kb", "64")
    with (
        recording("--device", volume.device, "--layers", "syscall,block") as ioh,
        opened(path, os.O_RDONLY | os.O_DIRECT) as fd,
        aligned(size) as buffer,
    ):
        for i in range(calls):
            assert os.preadv(fd, [buffer], i * size) == size
    assert read_metrics(ioh) == {
        "read_calls": calls,
        "read_calls_cached": 0,
        "read_lower_ops": calls * parts,
        "read_lower_bytes": about(calls * size),
        "lower_splits": calls * (parts - 1),
    }
    assert ioh.total("block", "read") == calls * parts
    assert ioh.sizes("block", "read") == {64 << 10: calls * parts}
    ratios = [i["layers"]["syscall"]["metrics"]["read_lower_ops_per_op"] for i in ioh.intervals]
    assert {ratio for ratio in ratios if ratio is not None} == {float(parts)}


def test_synchronous_writes_are_charged(volume: Volume) -> None:
    path = volume.file("data", MIB)
    with (
        recording("--device", volume.device, "--layers", "syscall,block") as ioh,
        opened(path, os.O_WRONLY | os.O_DIRECT) as fd,
        aligned(CHUNK) as buffer,
    ):
        for i in range(23):
            assert os.pwritev(fd, [buffer], i * CHUNK) == CHUNK
    assert ioh.metric("syscall", "write_calls") == 23
    assert ioh.metric("syscall", "write_lower_ops") == 23
    assert ioh.metric("syscall", "write_lower_bytes") == about(23 * CHUNK)
