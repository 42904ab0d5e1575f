"""fio against ioh: counts and bytes exact at both layers, latencies within what ioh promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kernel.rig import MIB, Ioh, Volume, fio, recording

Jobs = list[Mapping[str, Any]]

# engine, direct, pattern, block size, jobs, depth, bytes for each job
CASES = [
    ("psync", 1, "read", "4k", 1, 1, 16),
    ("psync", 1, "randread", "12k", 4, 1, 6),
    ("psync", 1, "write", "192k", 2, 1, 24),
    ("psync", 1, "randrw", "4k", 16, 1, 2),
    ("psync", 1, "randwrite", "1m", 3, 1, 24),
    ("psync", 0, "read", "4k", 1, 1, 64),
    ("psync", 0, "randread", "128k", 16, 1, 8),
    ("psync", 0, "write", "12k", 4, 1, 12),
    ("psync", 0, "randrw", "192k", 8, 1, 12),
    ("psync", 0, "randwrite", "1m", 2, 1, 32),
    ("libaio", 1, "read", "1m", 1, 4, 64),
    ("libaio", 1, "randread", "4k", 4, 4, 8),
    ("libaio", 1, "write", "128k", 16, 4, 4),
    ("libaio", 1, "randrw", "12k", 2, 16, 12),
    ("libaio", 0, "read", "192k", 3, 4, 24),
    ("libaio", 0, "randwrite", "4k", 1, 4, 16),
    ("io_uring", 1, "randread", "4k", 1, 4, 16),
    ("io_uring", 1, "read", "192k", 4, 4, 24),
    ("io_uring", 1, "write", "12k", 16, 2, 3),
    ("io_uring", 1, "randrw", "1m", 2, 4, 32),
    ("io_uring", 0, "read", "4k", 4, 4, 16),
    ("io_uring", 0, "randwrite", "128k", 8, 4, 8),
    ("io_uring", 0, "randrw", "12k", 16, 8, 3),
]


def directions(jobs: Jobs) -> dict[str, tuple[int, int]]:
    """fio's own operations and bytes, by direction."""
    return {
        d: (sum(j[d]["total_ios"] for j in jobs), sum(j[d]["io_bytes"] for j in jobs))
        for d in ("read", "write")
    }


def counted(ioh: Ioh) -> dict[str, tuple[int, int]]:
    """The same as the syscall layer saw it."""
    return {
        d: (ioh.total("syscall", d), ioh.total("syscall", d, "bytes")) for d in ("read", "write")
    }


@pytest.mark.parametrize(
    ("engine", "direct", "pattern", "bs", "jobs", "depth", "mib"),
    CASES,
    ids=[f"{e}-{'direct' if d else 'buffered'}-{p}-{b}x{j}" for e, d, p, b, j, *_ in CASES],
)
def test_counts_and_bytes(
    volume: Volume,
    engine: str,
    direct: int,
    pattern: str,
    bs: str,
    jobs: int,
    depth: int,
    mib: int,
) -> None:
    load: dict[str, object] = {
        "ioengine": engine,
        "direct": direct,
        "rw": pattern,
        "bs": bs,
        "numjobs": jobs,
        "iodepth": depth,
        "size": mib * MIB,
        "overwrite": 1,
        "fallocate": "none",
    }
    # Let fio lay out its files first: that is no part of the measured work.
    fio(volume.mount, **{**load, "create_only": 1})
    volume.drop_caches()
    with recording("--device", volume.device, "--layers", "syscall,block") as ioh:
        before = volume.loop.stats()
        done = fio(volume.mount, **load)
        volume.sync()
        disk = volume.loop.stats() - before
    assert counted(ioh) == directions(done)
    leaves = {"read": "read_direct", "write": "write_direct"}
    if not direct:
        leaves = {"read": "read_buffered", "write": "write_buffered"}
    expected = {leaves[d]: count for d, (count, _) in directions(done).items() if count}
    assert {k: v for k, v in ioh.counts("syscall").items() if k != "fsync"} == expected
    ioh.assert_block_agrees(disk)
    assert ioh.metric("block", "read_merges") == disk.read_merges
    assert ioh.metric("block", "write_merges") == disk.write_merges
    assert ioh.lost("syscall") == {}
