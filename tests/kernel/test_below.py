"""What each call becomes below: served from cache or not, how many requests, or holes."""

from __future__ import annotations

import mmap
import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel.aio import FSYNC, PREAD, PWRITE, Aio
from tests.kernel.direct import read_directly, write_directly
from tests.kernel.fuse import fuse
from tests.kernel.mounts import mounted, throttled
from tests.kernel.part import Part, WatchedVolume, part_of
from tests.kernel.rig import MIB, Ioh, Loop, about, aligned, opened, run
from tests.kernel.uring import READ, Uring

CHUNK = 8192
CALLS = 8 * MIB // CHUNK


def read_through(watched: WatchedVolume, path: Path, flags: int) -> Part:
    """Read a file once from start to end, and return what ioh counted."""
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
    """Map a file and read it: while it is mapped, the kernel reclaims none of its memory."""
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
        watched.forget_read_ahead()
        again = read_through(watched, path, 0)
    assert first["read_calls"] == CALLS  # not the last one, which finds the end
    # Read-ahead fetches up to 32 chunks at a time, for the call that reaches its end.
    assert 1 <= CALLS - first["read_calls_cached"] < CALLS / 4
    assert first["read_lower_bytes"] == pytest.approx(8 * MIB, abs=CHUNK)  # and its block map
    second = read_metrics(again)
    assert second["read_calls"] == second["read_calls_cached"] == CALLS
    assert second["read_lower_ops"] == second["read_lower_bytes"] == 0
    shares = [i["layers"]["syscall"]["metrics"]["cached_pct"] for i in again.intervals]
    assert {share for share in shares if share is not None} == {100.0}


def test_reads_of_small_files_outside_the_cache_are_no_hits(watched: WatchedVolume) -> None:
    """As cat and grep read them: one read gets all there is, another one finds the end."""
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
def test_large_reads_are_split_at_the_devices_limit(
    watched: WatchedVolume, size: int, parts: int
) -> None:
    """The limit of 64 KiB is the queue's own: its max_sectors_kb."""
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


def test_synchronous_writes_are_charged_with_their_requests(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh:
        write_directly(path, 23, CHUNK)
    assert ioh.metric("syscall", "write_calls") == 23
    assert ioh.metric("syscall", "write_lower_ops") == 23
    assert ioh.metric("syscall", "write_lower_bytes") == about(23 * CHUNK)


@pytest.mark.parametrize(("shift", "reads"), [(0, 0), (512, 2)])
def test_reads_that_writes_wait_for_are_counted(
    watched: WatchedVolume, shift: int, reads: int
) -> None:
    """A page at each end of an unaligned write; fsyncs and reads of others do not count."""
    path, beside = (watched.volume.file(name, 8 * MIB) for name in ("data", "beside"))
    watched.volume.drop_caches()
    with (
        opened(path, os.O_WRONLY) as fd,
        opened(beside, os.O_RDONLY | os.O_DIRECT) as other,
        aligned(CHUNK) as buffer,
    ):
        os.pwrite(fd, b"x" * 4096, 7 * MIB)  # reads the file's block map
        with watched.part() as ioh:
            for i in range(23):
                assert os.pwrite(fd, b"x" * 4096, i * 4 * CHUNK + shift) == 4096
                os.fsync(fd)
                assert os.preadv(other, [buffer], i * CHUNK) == CHUNK
    assert ioh.metric("syscall", "write_calls") == 2 * 23
    assert ioh.metric("syscall", "write_reads") == reads * 23


def test_reads_answered_by_a_file_systems_server_are_in_no_share(
    own: Ioh, watched: WatchedVolume, tmp_path: Path
) -> None:
    """FUSE, CIFS, Ceph …: whether such a read was served from cache is not known."""
    local = watched.volume.file("data", CHUNK)
    folder = tmp_path / "fuse"
    folder.mkdir()
    size = 64 * CHUNK
    with (
        fuse(folder, os.urandom(size)) as server,
        opened(folder / "data", os.O_RDONLY) as far,
        opened(local, os.O_RDONLY) as near,
        kept(near, CHUNK),
    ):
        for count, fd in ((23, far), (7, near)):
            with part_of(own) as part:
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
            notes = {note for i in part.intervals for note in i["layers"]["syscall"]["notes"]}
            assert any(
                "FUSE daemons (" in note for note in notes
            )  # a thread of this process is one
            calls = part.metric("syscall", "read_calls")
            cached = part.metric("syscall", "read_calls_cached")
            shares = {i["layers"]["syscall"]["metrics"]["cached_pct"] for i in part.intervals}
            assert part.total("syscall", "read_buffered") == count + 5 + 3
            if fd == far:
                assert server.reads
                assert (calls, cached, shares) == (0, 0, {None})
            else:
                assert (calls, cached, shares - {None}) == (count + 8, count + 8, {100.0})


PAGE = 4096
MAP_LOCKED = 0x2000  # asm-generic/mman.h


def metrics(ioh: Ioh) -> dict[str, int]:
    names = ("read_calls", "read_calls_cached", "read_calls_at_end", "read_lower_ops")
    return {name: ioh.metric("syscall", name) for name in names}


def test_reads_delayed_by_a_control_groups_limit_are_charged(watched: WatchedVolume) -> None:
    """A kernel thread submits their requests later."""
    size, calls = 256 << 10, 32
    path = watched.volume.file("data", calls * size)
    watched.volume.drop_caches()
    with (
        watched.part() as ioh,
        throttled(watched.volume, 16 * MIB),
        opened(path, os.O_RDONLY) as fd,
    ):
        for at in reversed(range(0, calls * size, size)):  # nothing is read ahead
            assert len(os.pread(fd, size, at)) == size
    told = metrics(ioh)
    assert (told["read_calls"], told["read_calls_cached"]) == (calls, 0)
    assert ioh.metric("syscall", "read_lower_bytes") == about(calls * size)


def test_a_call_that_a_limit_delays_in_part_is_charged_in_full(watched: WatchedVolume) -> None:
    """The file is fragmented: its first pieces are read at once, the others later."""
    calls, piece, volume = 12, 64 << 10, watched.volume
    path = volume.mount / "data"
    flags = os.O_WRONLY | os.O_CREAT | os.O_DIRECT
    with (
        opened(path, flags) as fd,
        opened(volume.mount / "between", flags) as other,
        aligned(piece) as buffer,
    ):
        for at in range(0, calls * MIB, piece):
            os.pwritev(fd, [buffer], at)
            os.pwritev(other, [buffer], at)
    volume.drop_caches()
    with watched.part() as ioh, throttled(volume, 6 * MIB):
        read_directly(path, calls, MIB)
    assert ioh.metric("syscall", "read_lower_bytes") == about(calls * MIB)
    told = metrics(ioh)
    assert (told["read_calls"], told["read_calls_cached"]) == (calls, 0)


def locked(fd: int, begin: int, end: int) -> mmap.mmap:
    """Lock a part of a file in memory, whatever the kernel reclaims (DAMON does, unasked)."""
    flags = mmap.MAP_SHARED | MAP_LOCKED
    return mmap.mmap(fd, end - begin, flags, mmap.PROT_READ, offset=begin)


@pytest.mark.parametrize("batch", [1, 8])
def test_buffered_libaio_reads_delayed_by_a_limit_are_charged(
    watched: WatchedVolume, batch: int
) -> None:
    size, calls, volume = 64 << 10, 128, watched.volume
    path = volume.file("data", 2 * calls * size)
    places = [2 * i * size for i in reversed(range(calls))]  # nothing is read ahead
    volume.drop_caches()
    with (
        watched.part() as ioh,
        opened(path, os.O_RDONLY) as fd,
        closing(Aio(8)) as aio,
    ):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        with throttled(volume, 16 * MIB):
            for at in range(0, calls, batch):
                reads = [aio.prepare(fd, PREAD, size - PAGE, p) for p in places[at : at + batch]]
                assert aio.submit(reads) == batch
                assert aio.reap(batch, batch) == [size - PAGE] * batch
        again = [aio.prepare(fd, PREAD, size - PAGE, p) for p in places[:8]]
        with locked(fd, places[7], 2 * calls * size):
            assert aio.submit(again) == 8
            assert aio.reap(8, 8) == [size - PAGE] * 8
    told = metrics(ioh)
    assert (told["read_calls"], told["read_calls_cached"]) == (calls + 8, 8)
    assert ioh.metric("syscall", "read_lower_bytes") == about(calls * (size - PAGE))


def test_io_uring_reads_delayed_by_a_limit_are_charged(watched: WatchedVolume) -> None:
    size, calls, volume = 64 << 10, 64, watched.volume
    path = volume.file("data", 2 * calls * size)
    volume.drop_caches()
    with (
        watched.part() as ioh,
        opened(path, os.O_RDONLY | os.O_DIRECT) as fd,
        closing(Uring(8)) as ring,
        throttled(volume, 8 * MIB),
    ):
        for at in range(0, calls, 4):
            for i in range(at, at + 4):
                ring.queue(READ, fd, size, 2 * i * size)
            assert ring.submit(4) == 4
            assert [done.result for done in ring.reap()] == [size] * 4
    told = metrics(ioh)
    assert (told["read_calls"], told["read_calls_cached"]) == (calls, 0)
    assert ioh.metric("syscall", "read_lower_bytes") == about(calls * size)


def check_ends(ioh: Part, *, found: int, cached: int, at_end: int, below: int) -> None:
    assert metrics(ioh) == {
        "read_calls": found,
        "read_calls_cached": cached,
        "read_calls_at_end": at_end,
        "read_lower_ops": below,
    }


@pytest.mark.parametrize("flags", [0, os.O_DIRECT])
def test_libaio_reads_at_the_end_of_a_file_are_counted_apart(
    watched: WatchedVolume, flags: int
) -> None:
    size = 40 * PAGE
    path = watched.volume.file("data", size)
    with opened(path, os.O_RDONLY) as warm:
        os.pread(warm, size, 0)
    with watched.part() as ioh, opened(path, os.O_RDONLY | flags) as fd, closing(Aio(64)) as aio:
        for batch in (1, 7):
            beyond = [aio.prepare(fd, PREAD, PAGE, size + i * PAGE) for i in range(batch)]
            assert aio.submit(beyond) == batch
            assert aio.reap(batch, 64) == [0] * batch
        places = [size + i * PAGE for i in (-6, -4, -2, 0, 2, 4)]
        mixed = [aio.prepare(fd, PREAD, PAGE, place) for place in places]
        assert aio.submit([*mixed, aio.prepare(fd, FSYNC, 0)]) == 7
        results = aio.reap(7, 64)
        while len(results) < 7:
            results += aio.reap(1, 64)
        assert sorted(results) == [0] * 4 + [PAGE] * 3
    below = 3 if flags else 0
    check_ends(ioh, found=3, cached=3 - below, at_end=1 + 7 + 3, below=below)


@pytest.mark.parametrize("flags", [0, os.O_DIRECT])
def test_io_uring_reads_at_the_end_of_a_file_are_counted_apart(
    watched: WatchedVolume, flags: int
) -> None:
    size = 40 * PAGE
    path = watched.volume.file("data", size)
    with opened(path, os.O_RDONLY) as warm:
        os.pread(warm, size, 0)
    with watched.part() as ioh, opened(path, os.O_RDONLY | flags) as fd, closing(Uring(16)) as ring:
        for places in ([40], [40, 41, 90], [36, 38, 40, 41]):
            for place in places:
                ring.queue(READ, fd, PAGE, place * PAGE)
            assert ring.submit(len(places)) == len(places)
            assert sorted(done.result for done in ring.reap()) == [
                PAGE * (place < 40) for place in sorted(places, reverse=True)
            ]
    below = 2 if flags else 0
    check_ends(ioh, found=2, cached=2 - below, at_end=1 + 3 + 2, below=below)


def test_what_a_write_reads_does_not_count_as_reads(watched: WatchedVolume) -> None:
    """A write of a part of a page that is not in the cache first fetches the rest of the page."""
    path = watched.volume.file("data", 64 * PAGE)
    watched.volume.drop_caches()
    with watched.part() as ioh, opened(path, os.O_RDWR) as fd, closing(Aio(8)) as aio:
        writes = [aio.prepare(fd, PWRITE, 100, 8 * i * PAGE) for i in range(8)]
        assert aio.submit(writes) == 8
        assert aio.reap(8, 8) == [100] * 8
    assert ioh.total("block", "read") + ioh.unseen >= 8
    check_ends(ioh, found=0, cached=0, at_end=0, below=0)


def looked_at(ioh: Ioh, path: Path) -> tuple[int, int]:
    """Read a file twice; return the bytes that were checked for holes, and those from holes."""
    with part_of(ioh) as part, opened(path, os.O_RDONLY) as fd:
        for _ in range(2):
            os.lseek(fd, 0, os.SEEK_SET)
            while os.read(fd, MIB // 16):
                pass
    looked, holes = (part.metric("syscall", f"read_{name}_bytes") for name in ("looked", "hole"))
    return looked, holes


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs"])
def test_reads_of_holes_are_found_on_each_file_system(
    own: Ioh, loop: Loop, tmp_path: Path, fstype: str
) -> None:
    run(f"mkfs.{fstype}", "-q", loop.path)
    with mounted(loop.path, tmp_path / "mnt") as mount:
        whole, sparse = mount / "whole", mount / "sparse"
        whole.write_bytes(os.urandom(64 * MIB))
        run("truncate", "--size=256M", sparse)
        run("sync", "--file-system", mount)
        looked, holes = looked_at(own, whole)
        assert looked > 0 == holes
        looked, holes = looked_at(own, sparse)
    assert 0.8 * looked < holes <= looked
