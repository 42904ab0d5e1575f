"""What calls became below where others hand it on, or requests where the end of a file is met."""

from __future__ import annotations

import mmap
import os
from contextlib import closing

import pytest

from tests.kernel.aio import FSYNC, PREAD, PWRITE, Aio
from tests.kernel.direct import read_directly
from tests.kernel.io_limit import throttled
from tests.kernel.part import Part, WatchedVolume
from tests.kernel.rig import MIB, Ioh, about, aligned, opened
from tests.kernel.uring import READ, Uring

CHUNK = 4096
MAP_LOCKED = 0x2000  # asm-generic/mman.h


def metrics(ioh: Ioh) -> dict[str, int]:
    names = ("read_calls", "read_calls_cached", "read_calls_at_end", "read_lower_ops")
    return {name: ioh.metric("syscall", name) for name in names}


def test_reads_that_a_control_groups_limit_delays(watched: WatchedVolume) -> None:
    """A kernel thread submits them when it is time."""
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


def test_a_call_of_which_a_limit_delays_a_part(watched: WatchedVolume) -> None:
    """A file in pieces: the first ones are read at once, the others when it is their time."""
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
    """A part of a file that stays in memory, whatever the kernel reclaims (DAMON does, unasked)."""
    flags = mmap.MAP_SHARED | MAP_LOCKED
    return mmap.mmap(fd, end - begin, flags, mmap.PROT_READ, offset=begin)


@pytest.mark.parametrize("batch", [1, 8])
def test_buffered_reads_of_libaio_that_a_limit_delays(watched: WatchedVolume, batch: int) -> None:
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
                reads = [aio.prepare(fd, PREAD, size - CHUNK, p) for p in places[at : at + batch]]
                assert aio.submit(reads) == batch
                assert aio.reap(batch, batch) == [size - CHUNK] * batch
        again = [aio.prepare(fd, PREAD, size - CHUNK, p) for p in places[:8]]
        with locked(fd, places[7], 2 * calls * size):
            assert aio.submit(again) == 8
            assert aio.reap(8, 8) == [size - CHUNK] * 8
    told = metrics(ioh)
    assert (told["read_calls"], told["read_calls_cached"]) == (calls + 8, 8)
    assert ioh.metric("syscall", "read_lower_bytes") == about(calls * (size - CHUNK))


def test_reads_of_io_uring_that_a_limit_delays(watched: WatchedVolume) -> None:
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
def test_reads_of_libaio_at_the_end_of_a_file(watched: WatchedVolume, flags: int) -> None:
    size = 40 * CHUNK
    path = watched.volume.file("data", size)
    with opened(path, os.O_RDONLY) as warm:
        os.pread(warm, size, 0)
    with watched.part() as ioh, opened(path, os.O_RDONLY | flags) as fd, closing(Aio(64)) as aio:
        for batch in (1, 7):
            beyond = [aio.prepare(fd, PREAD, CHUNK, size + i * CHUNK) for i in range(batch)]
            assert aio.submit(beyond) == batch
            assert aio.reap(batch, 64) == [0] * batch
        places = [size + i * CHUNK for i in (-6, -4, -2, 0, 2, 4)]
        mixed = [aio.prepare(fd, PREAD, CHUNK, place) for place in places]
        assert aio.submit([*mixed, aio.prepare(fd, FSYNC, 0)]) == 7
        results = aio.reap(7, 64)
        while len(results) < 7:
            results += aio.reap(1, 64)
        assert sorted(results) == [0] * 4 + [CHUNK] * 3
    below = 3 if flags else 0
    check_ends(ioh, found=3, cached=3 - below, at_end=1 + 7 + 3, below=below)


@pytest.mark.parametrize("flags", [0, os.O_DIRECT])
def test_reads_of_io_uring_at_the_end_of_a_file(watched: WatchedVolume, flags: int) -> None:
    size = 40 * CHUNK
    path = watched.volume.file("data", size)
    with opened(path, os.O_RDONLY) as warm:
        os.pread(warm, size, 0)
    with watched.part() as ioh, opened(path, os.O_RDONLY | flags) as fd, closing(Uring(16)) as ring:
        for places in ([40], [40, 41, 90], [36, 38, 40, 41]):
            for place in places:
                ring.queue(READ, fd, CHUNK, place * CHUNK)
            assert ring.submit(len(places)) == len(places)
            assert sorted(done.result for done in ring.reap()) == [
                CHUNK * (place < 40) for place in sorted(places, reverse=True)
            ]
    below = 2 if flags else 0
    check_ends(ioh, found=2, cached=2 - below, at_end=1 + 3 + 2, below=below)


def test_what_a_write_reads_is_no_reads(watched: WatchedVolume) -> None:
    """A part of a page that is not in the cache: the rest of it is fetched first."""
    path = watched.volume.file("data", 64 * CHUNK)
    watched.volume.drop_caches()
    with watched.part() as ioh, opened(path, os.O_RDWR) as fd, closing(Aio(8)) as aio:
        writes = [aio.prepare(fd, PWRITE, 100, 8 * i * CHUNK) for i in range(8)]
        assert aio.submit(writes) == 8
        assert aio.reap(8, 8) == [100] * 8
    assert ioh.total("block", "read") + ioh.unseen >= 8
    check_ends(ioh, found=0, cached=0, at_end=0, below=0)
