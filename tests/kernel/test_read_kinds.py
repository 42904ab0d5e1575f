"""Buffered reads are of two kinds: those that memory served, and those that waited for more."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel import aio, uring
from tests.kernel.direct import read_directly, write_directly
from tests.kernel.fuse import fuse
from tests.kernel.mounts import throttled
from tests.kernel.part import WatchedVolume, part_of
from tests.kernel.rig import MIB, Ioh, about, aligned, opened
from tests.kernel.test_below import kept

PAGE, STEP, COUNT = 4096, 1 << 16, 23
Read = Callable[[int], int]  # an offset, to the bytes that were read


def kinds(ioh: Ioh) -> tuple[int, int]:
    """Reads of memory and others."""
    return ioh.total("syscall", "read_cached"), ioh.total("syscall", "read_missed")


def longest(ioh: Ioh) -> set[tuple[str, bool]]:
    """The longest step of the reads' path but for CPUs, and whether it is page cache."""
    ways = [way["read"]["segments"] for each in ioh.intervals if "read" in (way := each["path"])]
    known = ([step for step in steps if step["name"] != "cpu_wait"] for steps in ways)
    slowest = (max(steps, key=lambda step: step["us"] or 0) for steps in known)
    return {(step["name"], step["is_cache"]) for step in slowest}


@contextlib.contextmanager
def reader(engine: str, fd: int) -> Iterator[Read]:
    """Reads a page at an offset."""
    if engine == "pread":
        with aligned(PAGE) as buffer:
            yield lambda at: os.preadv(fd, [buffer], at)
    elif engine == "libaio":
        with closing(aio.Aio(8)) as context:

            def read(at: int) -> int:
                assert context.submit([context.prepare(fd, aio.PREAD, PAGE, at)]) == 1
                return context.reap(1, 1)[0]

            yield read
    else:
        with closing(uring.Uring(8)) as ring:
            ring.register(uring.REGISTER_FILES, struct.pack("=i", fd), 1)
            flags = uring.FIXED_FILE if engine == "registered" else 0

            def ask(at: int) -> int:
                ring.queue(uring.READ, 0 if flags else fd, PAGE, at, flags=flags)
                assert ring.submit(1) == 1
                return ring.reap()[0].result

            yield ask


@pytest.mark.parametrize("engine", ["pread", "libaio", "io_uring", "registered"])
def test_each_read_is_of_its_kind(watched: WatchedVolume, engine: str) -> None:
    """The same in the rows of the process and the file; the time of both is that of all."""
    path = watched.volume.file("data", (COUNT + 1) * STEP)
    with opened(path, os.O_RDONLY) as fd, reader(engine, fd) as read:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        watched.volume.drop_caches()
        read(COUNT * STEP)  # reads the file's block map
        watched.forget_read_ahead()
        with watched.part() as cold:
            assert [read(at * STEP) for at in range(COUNT)] == [PAGE] * COUNT
        with kept(fd, (COUNT + 1) * STEP), watched.part() as warm:
            assert [read(at * STEP) for at in range(COUNT)] == [PAGE] * COUNT
    assert (kinds(cold), kinds(warm)) == ((0, COUNT), (COUNT, 0))
    for ioh, waited in ((cold, COUNT), (warm, 0)):
        assert ioh.total("syscall", "read_buffered") == ioh.total("syscall", "read") == COUNT
        assert ioh.metric("syscall", "read_followed_bytes") == COUNT * PAGE
        assert ioh.metric("syscall", "read_cached_bytes") == (COUNT - waited) * PAGE
        row = ioh.table("syscall", "file", "path")[(str(path),)]
        assert (row["reads"], row["reads_waited"]) == (COUNT, waited)
        assert row["read_waited_bytes"] == waited * PAGE
        assert row["read_waited_ns"] == (row["read_ns"] if waited else 0)


def test_direct_reads_and_synchronous_writes_wait(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, os.O_RDWR) as fd, aligned(PAGE) as buffer:
        read_directly(path, 7, PAGE)
        write_directly(path, 5, PAGE)
        for _ in range(3):
            assert os.pwrite(fd, buffer, 0) == PAGE
        for _ in range(2):
            assert os.pwritev(fd, [buffer], 0, 2) == PAGE  # RWF_DSYNC
    rows = ioh.table("syscall", "mount", "mount")[(str(watched.volume.mount),)]
    assert (rows["reads"], rows["reads_waited"], rows["read_waited_bytes"]) == (7, 7, 7 * PAGE)
    assert (rows["writes"], rows["writes_waited"], rows["write_waited_bytes"]) == (10, 7, 7 * PAGE)
    assert 0 < rows["write_waited_ns"] < rows["write_ns"]


def test_a_read_in_progress_is_of_no_kind(watched: WatchedVolume) -> None:
    """Its kind is known at its end; until then the group counts it."""
    path = watched.volume.file("data", 4 * MIB)
    watched.volume.drop_caches()
    with watched.part() as ioh, throttled(watched.volume, MIB), opened(path, os.O_RDONLY) as fd:
        assert len(os.pread(fd, 2 * MIB, 0)) == 2 * MIB
    ops = [interval["layers"]["syscall"]["ops"] for interval in ioh.intervals]
    assert max(op["read_buffered"]["inflight"] for op in ops) == 1
    assert max(op["read"]["inflight"] for op in ops) == 1
    assert {op[name]["inflight"] for op in ops for name in ("read_cached", "read_missed")} == {None}
    assert ops[-1]["read"]["inflight"] == 0
    assert kinds(ioh) == (0, 1)


def test_a_failed_read_was_not_in_memory(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, os.O_RDONLY) as fd:
        for _ in range(5):
            with pytest.raises(OSError, match="Invalid argument"):
                os.pread(fd, PAGE, -PAGE)
    assert kinds(ioh) == (0, 0)
    assert [ioh.errors("syscall", f"read_{kind}") for kind in ("cached", "missed")] == [0, 5]


def test_what_a_sequential_reader_gets_from_the_disk_is_not_from_memory(
    watched: WatchedVolume,
) -> None:
    """Read-ahead makes nearly every call a hit, and hardly any byte; a second pass has all."""
    path = watched.volume.file("data", 8 * MIB)
    watched.volume.drop_caches()
    with opened(path, os.O_RDONLY) as fd:
        with watched.part() as first:
            while os.read(fd, PAGE):
                pass
        with kept(fd, 8 * MIB), watched.part() as second:
            os.lseek(fd, 0, os.SEEK_SET)
            while os.read(fd, PAGE):
                pass
    for ioh, least, most in ((first, 0.0, 0.05), (second, 0.99, 1.0)):
        calls = ioh.metric("syscall", "read_calls")
        assert ioh.metric("syscall", "read_calls_cached") > 0.9 * calls
        read = ioh.metric("syscall", "read_followed_bytes")
        assert read == about(8 * MIB)
        assert least * read <= ioh.metric("syscall", "read_cached_bytes") <= most * read


def test_on_an_opaque_file_system_a_read_that_slept_was_not_in_memory(
    own: Ioh, tmp_path: Path
) -> None:
    """What it submits is invisible, but it waits for an answer; the page cache does not."""
    folder = tmp_path / "fuse"
    folder.mkdir()
    with (
        fuse(folder, os.urandom((COUNT + 1) * STEP)) as server,
        opened(folder / "data", os.O_RDONLY) as fd,
    ):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        parts = []
        for _ in range(2):
            with part_of(own) as ioh:
                assert [len(os.pread(fd, PAGE, at * STEP)) for at in range(COUNT)] == [PAGE] * COUNT
            parts.append((kinds(ioh), server.reads, longest(ioh)))
    assert parts == [
        ((0, COUNT), COUNT, {("fuse", False)}),
        ((COUNT, 0), COUNT, {("syscall", True)}),
    ]


def test_time_without_a_cpu_is_told(watched: WatchedVolume) -> None:
    """Twice as many busy readers as CPUs: each is without one for about half of its time."""
    path = watched.volume.file("data", 8 * MIB)
    cpu = min(os.sched_getaffinity(0))
    end_s = time.monotonic() + 2
    told: list[float] = []

    def read() -> None:
        os.sched_setaffinity(0, {cpu})
        with opened(path, os.O_RDONLY) as fd:
            while time.monotonic() < end_s:
                assert len(os.pread(fd, 8 * MIB, 0)) == 8 * MIB
        told.append(float(Path("/proc/thread-self/schedstat").read_text().split()[1]))

    with opened(path, os.O_RDONLY) as fd, kept(fd, 8 * MIB), watched.part() as ioh:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    waited = ioh.metric("syscall", "read_cpu_wait_ns")
    assert ioh.metric("syscall", "read_waited_cpu_wait_ns") == 0
    assert 0.5 * sum(told) < waited <= sum(told)


def test_a_read_that_has_its_data_but_no_cpu_waits_for_one(watched: WatchedVolume) -> None:
    """A program of low priority beside a busy one: after the disk, each read waits again."""
    path = watched.volume.file("data", 8 * MIB)
    watched.volume.drop_caches()
    cpu = {min(os.sched_getaffinity(0))}
    hog = os.fork()
    if not hog:
        os.sched_setaffinity(0, cpu)
        while True:
            pass
    told: list[float] = []

    def read() -> None:
        os.sched_setaffinity(0, cpu)
        os.setpriority(os.PRIO_PROCESS, 0, 15)  # of this thread
        with opened(path, os.O_RDONLY) as fd:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            before = float(Path("/proc/thread-self/schedstat").read_text().split()[1])
            for at in range(COUNT):
                assert len(os.pread(fd, PAGE, at * STEP)) == PAGE
            told.append(float(Path("/proc/thread-self/schedstat").read_text().split()[1]) - before)

    try:
        with watched.part() as ioh:
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
    finally:
        os.kill(hog, signal.SIGKILL)
        os.waitpid(hog, 0)
    assert kinds(ioh) == (0, COUNT)
    waited = ioh.metric("syscall", "read_waited_cpu_wait_ns")
    assert waited == ioh.metric("syscall", "read_cpu_wait_ns")
    assert 0.5 * sum(told) < waited < 1.01 * sum(told)
