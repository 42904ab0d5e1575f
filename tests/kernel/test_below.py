"""What each call became below: served from cache or not, and into how many requests."""

from __future__ import annotations

import mmap
import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel.aio import PREAD, Aio
from tests.kernel.direct import read_directly, write_directly
from tests.kernel.fuse import fuse
from tests.kernel.part import Part, WatchedVolume, part_of
from tests.kernel.rig import MIB, Ioh, Volume, about, aligned, opened, recording
from tests.kernel.uring import READ, Uring

CHUNK = 8192
CALLS = 8 * MIB // CHUNK


def read_through(watched: WatchedVolume, path: Path, flags: int) -> Part:
    """Read a file once from begin to end, and record it."""
    with (
        watched.part() as ioh,
        opened(path, os.O_RDONLY | flags) as fd,
        aligned(CHUNK) as buffer,
    ):
        at = 0
        while got := os.preadv(fd, [buffer], at):
            at += got
    return ioh


def kept(fd: int, size: int) -> mmap.mmap:
    """A file in memory: while it is mapped, the kernel reclaims nothing of it."""
    mapped = mmap.mmap(fd, size, prot=mmap.PROT_READ)
    assert len(mapped[:]) == size
    return mapped


def read_metrics(ioh: Ioh) -> dict[str, int]:
    names = ("read_calls", "read_calls_cached", "read_lower_ops", "read_lower_bytes")
    return {name: ioh.metric("syscall", name) for name in (*names, "lower_splits")}


def test_the_second_pass_is_served_from_cache(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", 8 * MIB)
    watched.volume.drop_caches()
    first = read_metrics(read_through(watched, path, 0))
    with opened(path, os.O_RDONLY) as fd, kept(fd, 8 * MIB):
        again = read_through(watched, path, 0)
    assert first["read_calls"] == CALLS  # not the last one, which finds the end
    # Read-ahead fetches up to 32 chunks at a time for the call that runs into its edge.
    assert 1 <= CALLS - first["read_calls_cached"] < CALLS / 4
    assert first["read_lower_bytes"] == pytest.approx(8 * MIB, abs=CHUNK)  # and the file's map
    second = read_metrics(again)
    assert second["read_calls"] == second["read_calls_cached"] == CALLS
    assert second["read_lower_ops"] == second["read_lower_bytes"] == 0
    shares = [i["layers"]["syscall"]["metrics"]["cached_pct"] for i in again.intervals]
    assert {share for share in shares if share is not None} == {100.0}


def test_small_files_that_are_not_in_the_cache(watched: WatchedVolume) -> None:
    """As by cat or grep: one read gets all there is, another one finds the end."""
    paths = [watched.volume.file(f"{i}", 3000) for i in range(23)]
    watched.volume.drop_caches()
    with watched.part() as ioh:
        assert [len(path.read_bytes()) for path in paths] == 23 * [3000]
    assert ioh.counts("syscall") == {"read_buffered": 2 * 23}
    metrics = read_metrics(ioh)
    assert (metrics["read_calls"], metrics["read_calls_cached"]) == (23, 0)


def test_direct_reads_are_never_served_from_cache(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", 8 * MIB)
    path.read_bytes()
    direct = read_metrics(read_through(watched, path, os.O_DIRECT))
    assert (direct["read_calls"], direct["read_calls_cached"]) == (CALLS, 0)
    assert direct["read_lower_ops"] == CALLS
    assert direct["read_lower_bytes"] == about(8 * MIB)


@pytest.mark.parametrize(("size", "parts"), [(MIB, 16), (192 << 10, 3), (64 << 10, 1)])
def test_large_reads_are_cut_to_the_devices_limit(
    watched: WatchedVolume, size: int, parts: int
) -> None:
    """The limit of 64 KiB is the queue's own, as in a device's max_sectors_kb."""
    calls, loop = 23, watched.volume.loop
    path = watched.volume.file("data", calls * size)
    loop.set_queue("max_sectors_kb", "64")
    with watched.part() as ioh:
        before = loop.stats()
        read_directly(path, calls, size)
        disk = loop.stats() - before
    assert read_metrics(ioh) == {
        "read_calls": calls,
        "read_calls_cached": 0,
        "read_lower_ops": calls * parts,
        "read_lower_bytes": about(calls * size),
        "lower_splits": calls * (parts - 1),
    }
    assert disk.reads == calls * parts
    ioh.assert_block_agrees(disk)
    assert ioh.sizes("block", "read") == {64 << 10: calls * parts - ioh.unseen}
    ratios = [i["layers"]["syscall"]["metrics"]["read_lower_ops_per_op"] for i in ioh.intervals]
    assert {ratio for ratio in ratios if ratio is not None} == {float(parts)}


def test_synchronous_writes_are_charged(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh:
        write_directly(path, 23, CHUNK)
    assert ioh.metric("syscall", "write_calls") == 23
    assert ioh.metric("syscall", "write_lower_ops") == 23
    assert ioh.metric("syscall", "write_lower_bytes") == about(23 * CHUNK)


@pytest.mark.parametrize(("shift", "reads"), [(0, 0), (512, 2)])
def test_reads_that_writes_wait_for(watched: WatchedVolume, shift: int, reads: int) -> None:
    """A page at each end of each write; fsyncs and what others read are no such reads."""
    path, beside = (watched.volume.file(name, 8 * MIB) for name in ("data", "beside"))
    watched.volume.drop_caches()
    with (
        opened(path, os.O_WRONLY) as fd,
        opened(beside, os.O_RDONLY | os.O_DIRECT) as other,
        aligned(CHUNK) as buffer,
    ):
        os.pwrite(fd, b"x" * 4096, 7 * MIB)  # fetches where the file's blocks are
        with watched.part() as ioh:
            for i in range(23):
                assert os.pwrite(fd, b"x" * 4096, i * 4 * CHUNK + shift) == 4096
                os.fsync(fd)
                assert os.preadv(other, [buffer], i * CHUNK) == CHUNK
    assert ioh.metric("syscall", "write_calls") == 2 * 23
    assert ioh.metric("syscall", "write_reads") == reads * 23


def test_reads_that_a_file_systems_own_server_answers(volume: Volume, tmp_path: Path) -> None:
    """FUSE, CIFS, Ceph …: whether one was served from cache is not known, so it is in no share."""
    local = volume.file("data", CHUNK)
    folder = tmp_path / "fuse"
    folder.mkdir()
    size = 64 * CHUNK
    with (
        fuse(folder, os.urandom(size)) as server,
        recording("--pid", str(os.getpid()), "--layers", "syscall") as ioh,
        opened(folder / "data", os.O_RDONLY) as far,
        opened(local, os.O_RDONLY) as near,
        kept(near, CHUNK),
    ):
        for count, fd in ((23, far), (7, near)):
            with part_of(ioh) as part:
                for i in range(count):
                    assert len(os.pread(fd, CHUNK, i * CHUNK if fd == far else 0)) == CHUNK
                with closing(Aio(8)) as aio:
                    assert aio.submit([aio.prepare(fd, PREAD) for _ in range(5)]) == 5
                    assert aio.reap(5, 8) == [4096] * 5
                with closing(Uring(8)) as ring:
                    for _ in range(3):
                        ring.queue(READ, fd)
                    assert ring.submit(3) == 3
                    assert len(ring.reap()) == 3
            calls = part.metric("syscall", "read_calls")
            cached = part.metric("syscall", "read_calls_cached")
            shares = {i["layers"]["syscall"]["metrics"]["cached_pct"] for i in part.intervals}
            assert part.total("syscall", "read_buffered") == count + 5 + 3
            if fd == far:
                assert server.reads
                assert (calls, cached, shares) == (0, 0, {None})
            else:
                assert (calls, cached, shares - {None}) == (count + 8, count + 8, {100.0})
