"""Requests of libaio and io_uring, submitted in every way that programs use."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

from tests.kernel import aio, uring
from tests.kernel.part import WatchedVolume
from tests.kernel.rig import MIB, Ioh, Volume, ioh_environment, opened, recording
from tests.kernel.uring import Uring

RWF_DSYNC = 2
EINVAL = 22
EFAULT, EAGAIN = 14, 11
RWF_NOWAIT = 8
SIZE = 4096
DIRECT = os.O_RDWR | os.O_DIRECT


def inflight(ioh: Ioh) -> dict[str, int]:
    ops = ioh.intervals[-1]["layers"]["syscall"]["ops"]
    return {op: numbers["inflight"] for op, numbers in ops.items() if numbers["inflight"]}


def test_requests_that_libaio_does_not_take_at_once_count_once(watched: WatchedVolume) -> None:
    """A full ring takes a part of the batch; the program submits the rest again."""
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, DIRECT) as fd, closing(aio.Aio(8)) as context:
        left = [context.prepare(fd, aio.PREAD, SIZE, i % 200 * SIZE) for i in range(997)]
        refused = 0
        while left:
            taken = context.submit(left)
            assert taken > 0
            refused += taken < len(left)
            left = left[taken:]
            assert context.reap(taken, taken) == [SIZE] * taken
        bad = context.prepare(fd, 99)
        syncs = [context.prepare(fd, aio.FSYNC, 0) for _ in range(5)]
        assert context.submit([*syncs[:3], bad, *syncs[3:]]) == 3
        assert context.submit([bad]) == -1
        assert context.reap(3, 3) == [0] * 3
    assert refused > 3 * 4096 // mmap.PAGESIZE  # a ring fills whole pages
    assert ioh.counts("syscall") == {"read_direct": 997, "fsync": 3}
    assert ioh.metric("syscall", "read_calls") == 997
    assert ioh.lost("syscall") == {}
    assert inflight(ioh) == {}


def test_failed_reads_count_neither_as_reads_nor_as_hits(watched: WatchedVolume) -> None:
    """An address that is not the program's, and RWF_NOWAIT of data that is not in memory."""
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, os.O_RDONLY) as fd, closing(Uring(16)) as ring:
        watched.volume.drop_caches()
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: what is read is fetched
        for _ in range(7):
            ring.queue(uring.READ, fd, address=1 << 46)
        assert ring.submit(7) == 7
        for i in range(1, 12):
            ring.queue(uring.READ, fd, offset=i * mmap.PAGESIZE, rw_flags=RWF_NOWAIT)
            assert ring.submit(1) > 0
        results = Counter(completion.result for completion in ring.reap())
        # More than have failed: a failure in a later interval is subtracted from its reads.
        for _ in range(5):
            for _ in range(5):
                ring.queue(uring.READ, fd)
            assert ring.submit(5) == 5
            assert [completion.result for completion in ring.reap()] == [SIZE] * 5
    # A fast disk may deliver the page that an RWF_NOWAIT read has itself requested.
    answered = results.pop(SIZE, 0) + 25
    assert set(results) == {-EFAULT, -EAGAIN}
    assert ioh.counts("syscall") == {"read_buffered": answered, "fsync": 1}  # of drop_caches()
    assert ioh.metric("syscall", "read_calls") == answered
    assert ioh.metric("syscall", "read_calls_cached") == 25
    assert inflight(ioh) == {}


def test_requests_of_a_process_that_has_ended_are_not_in_flight(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    script = (
        "import os, sys; from tests.kernel import aio; context = aio.Aio(8)\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n"
        "assert context.submit([context.prepare(fd, aio.PREAD) for _ in range(7)]) == 7"
    )
    with watched.part() as ioh:
        subprocess.run([sys.executable, "-c", script, str(path)], env=ioh_environment(), check=True)
        watched.ioh.settle()
        watched.ioh.settle()
    assert inflight(ioh) == {}
    assert ioh.lost("syscall") == {"aio_unseen": 7}


def test_requests_in_flight_when_a_context_is_destroyed_are_lost(watched: WatchedVolume) -> None:
    """The kernel waits for them, but reports no result; the next context has the same address."""
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, DIRECT) as fd:
        before = watched.volume.loop.stats()
        for depth, reaped in ((64, 0), (32, 9), (8, 8)):
            with closing(aio.Aio(depth)) as context:
                reads = [context.prepare(fd, aio.PREAD, SIZE, 2 * i * SIZE) for i in range(depth)]
                assert context.submit(reads) == depth
                assert context.reap(reaped, reaped) == [SIZE] * reaped
        disk = watched.volume.loop.stats() - before
    assert disk.reads == 64 + 32 + 8
    assert ioh.counts("syscall") == {"read_direct": 9 + 8}
    assert ioh.lost("syscall") == {"aio_unseen": 64 + 32 - 9}
    assert inflight(ioh) == {}


def test_requests_that_reuse_the_iocbs_of_lost_ones_are_counted(watched: WatchedVolume) -> None:
    """A program reuses its iocbs while ioh looks for the requests that it left in flight."""
    path, depth, reaped, rounds = watched.volume.file("data", 4 * MIB), 512, 300, 0
    with watched.part() as ioh, opened(path, DIRECT) as fd, closing(aio.Aio(1)) as first:
        reads = [first.prepare(fd, aio.PREAD, SIZE, i * SIZE) for i in range(depth)]
        end_s = time.monotonic() + 3
        while time.monotonic() < end_s:
            with closing(aio.Aio(depth)) as context:
                assert context.submit(reads) == depth
                assert context.reap(reaped, reaped) == [SIZE] * reaped
            rounds += 1
            time.sleep(0.004)  # so that ioh finds some before their iocbs are used again
    assert ioh.counts("syscall") == {"read_direct": reaped * rounds}
    assert ioh.lost("syscall") == {"aio_unseen": (depth - reaped) * rounds}
    assert inflight(ioh) == {}


def test_requests_in_flight_when_a_ring_is_closed_are_counted(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, DIRECT) as fd, closing(Uring(64)) as ring:
        for i in range(64):
            ring.queue(uring.READ, fd, offset=i * SIZE)
        assert ring.submit() == 64
    assert ioh.counts("syscall") == {"read_direct": 64}
    assert ioh.lost("syscall") == {}
    assert inflight(ioh) == {}


def test_libaio_reads_that_fail_after_fetching_do_not_count(watched: WatchedVolume) -> None:
    """Nor do they count as reads from memory, where the reads of a batch can be told apart."""
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, os.O_RDONLY) as fd, closing(aio.Aio(8)) as context:
        watched.volume.drop_caches()
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: what is read is fetched

        def read(*pages: int, is_bad: bool = False) -> list[int]:
            batch = [context.prepare(fd, aio.PREAD, SIZE, page * SIZE) for page in pages]
            for request in batch:
                request.buffer = 1 << 46 if is_bad else request.buffer
            assert context.submit(batch) == len(batch)
            return context.reap(len(batch), len(batch))

        assert read(1, is_bad=True) == [-EFAULT]  # fetched
        assert read(1, is_bad=True) == [-EFAULT]  # in memory
        assert read(2, 3, 4, is_bad=True) == [-EFAULT] * 3
        assert read(1, 2, 3, 4) == [SIZE] * 4
        assert read(10, 20, 1) == [SIZE] * 3
    assert ioh.counts("syscall") == {"read_buffered": 7, "fsync": 1}  # of drop_caches()
    assert ioh.metric("syscall", "read_calls") == 7
    assert ioh.metric("syscall", "read_calls_cached") == 5
    assert inflight(ioh) == {}


def test_requests_at_more_addresses_than_the_probe_has_room_for(watched: WatchedVolume) -> None:
    """The probe has room for 16,384 addresses; the first and last ones are then used once more."""
    path, batch, rounds = watched.volume.file("data", MIB), 509, 34
    with watched.part() as ioh, opened(path, DIRECT) as fd, closing(aio.Aio(1024)) as context:
        requests = [context.prepare(fd, aio.PREAD, SIZE, i % 200 * SIZE) for i in range(batch)]
        for _ in range(rounds):
            requests += [context.prepare(fd, aio.PREAD, SIZE, SIZE) for _ in range(batch)]
        for begin in (*range(0, len(requests), batch), 0, len(requests) - batch):
            left = context.submit(requests[begin : begin + batch])
            assert left == batch
            while left:
                left -= len(context.reap(1, 256))
    assert ioh.counts("syscall") == {"read_direct": (rounds + 3) * batch}
    assert ioh.lost("syscall") == {}
    assert inflight(ioh) == {}


def test_the_rest_of_a_libaio_batch_that_is_too_large_is_lost(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with watched.part() as ioh, opened(path, DIRECT) as fd, closing(aio.Aio(1024)) as context:
        batch = [context.prepare(fd, aio.PREAD, SIZE, i % 200 * SIZE) for i in range(700)]
        for size in (512, 700):
            left = context.submit(batch[:size])
            assert left == size
            while left:
                left -= len(context.reap(1, 256))
    assert ioh.counts("syscall") == {"read_direct": 512 + 528}
    assert ioh.lost("syscall") == {"aio_unseen": 700 - 528}
    assert inflight(ioh) == {}


def test_requests_that_completed_before_the_program_asked_are_late(watched: WatchedVolume) -> None:
    """io_getevents then did not sleep, by the kernel's own count for the thread."""

    def sleeps() -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

    path = watched.volume.file("data", MIB)
    late, done = Counter[int](), Counter[int]()

    def batch(context: aio.Aio, fd: int, opcode: int, count: int, pause_s: float = 0.0) -> None:
        size = 0 if opcode == aio.FSYNC else SIZE
        requests = [context.prepare(fd, opcode, size, i * size) for i in range(count)]
        assert context.submit(requests) == count
        time.sleep(pause_s)
        left = count
        while left:
            before = sleeps()
            got = len(context.reap(1, 64))
            late[opcode] += got if sleeps() == before else 0
            left -= got
        done[opcode] += count

    with watched.part() as ioh, opened(path, DIRECT) as fd, closing(aio.Aio(64)) as context:
        for opcode, count in ((aio.PREAD, 1), (aio.PWRITE, 3)):
            # A busy machine may itself be so slow that no call has to wait.
            while done[opcode] < 40 or late[opcode] == done[opcode]:
                batch(context, fd, opcode, count)
                assert done[opcode] < 10_000
        batch(context, fd, aio.PREAD, 40, pause_s=0.3)
        batch(context, fd, aio.PWRITE, 20, pause_s=0.3)
        batch(context, fd, aio.FSYNC, 5, pause_s=0.3)
    reads, writes = done[aio.PREAD], done[aio.PWRITE]
    assert ioh.counts("syscall") == {"read_direct": reads, "write_direct": writes, "fsync": 5}
    assert ioh.metric("syscall", "read_reaped_late") == late[aio.PREAD]
    assert ioh.metric("syscall", "write_reaped_late") == late[aio.PWRITE]
    assert 40 <= late[aio.PREAD] < reads
    assert 20 <= late[aio.PWRITE] < writes


def test_every_read_write_and_fsync_of_io_uring_is_counted(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", MIB)
    with (
        watched.part() as ioh,
        opened(path, DIRECT) as fd,
        opened(path, os.O_RDWR) as buffered,
        closing(Uring(64)) as ring,
    ):
        ring.register(uring.REGISTER_FILES, struct.pack("=i", fd), 1)
        ring.register(uring.REGISTER_BUFFERS, struct.pack("=QQ", ring.address, MIB), 1)
        pieces = ctypes.create_string_buffer(
            struct.pack("=QQQQ", ring.address, SIZE, ring.address + SIZE, SIZE)
        )
        vector = {"size": 2, "address": ctypes.addressof(pieces)}
        for opcode, count, more in (
            (uring.READ, 2, {}),
            (uring.READ_FIXED, 3, {}),
            (uring.READV, 5, vector),
            (uring.WRITE, 7, {}),
            (uring.WRITE_FIXED, 3, {}),
            (uring.WRITEV, 2, vector),
        ):
            for _ in range(count):
                ring.queue(opcode, fd, **more)
        ring.queue(uring.READ, 0, flags=uring.FIXED_FILE)
        ring.queue(uring.FSYNC, fd, 0)
        ring.queue(uring.SYNC_FILE_RANGE, fd, 0, rw_flags=7)
        ring.queue(uring.SYNC_FILE_RANGE, fd, 0, rw_flags=2)  # starts write-back
        for flags in (0, uring.FIXED_FILE):
            ring.queue(uring.WRITE, 0 if flags else fd, flags=flags, rw_flags=RWF_DSYNC)
        ring.queue(uring.WRITE, buffered, rw_flags=RWF_DSYNC)
        assert ring.submit(29) == 29
        assert all(done.result >= 0 for done in ring.reap())
        # Since Linux 6.15:
        for _ in range(3):
            ring.queue(uring.READV_FIXED, fd, **vector)
            ring.queue(uring.WRITEV_FIXED, fd, **vector)
        results: list[int] = []
        while len(results) < 6 and -EINVAL not in results:
            ring.submit(1)
            results += [done.result for done in ring.reap()]
        new = 0 if results[0] == -EINVAL else 3
        assert results[:6] == [2 * SIZE] * 6 if new else set(results) == {-EINVAL}
    counts = {"read_direct": 11 + new, "write_direct": 12 + new, "write_sync": 3, "fsync": 2}
    counts["writeback"] = 1
    assert ioh.counts("syscall") == counts
    assert ioh.total("syscall", "read", "bytes") == SIZE * (11 + 5 + 2 * new)
    assert ioh.total("syscall", "write", "bytes") == SIZE * (15 + 2 + 2 * new)
    assert ioh.lost("syscall") == {}
    assert inflight(ioh) == {}


def test_files_sent_by_splices_of_io_uring_are_read_and_written(watched: WatchedVolume) -> None:
    """From a file to a pipe, and from the pipe to a file; between two pipes it is no file's."""
    source, target = (watched.volume.file(name, MIB) for name in ("from", "to"))
    ends, others = os.pipe(), os.pipe()
    with (
        watched.part() as ioh,
        opened(source, os.O_RDONLY) as a,
        opened(target, os.O_WRONLY) as b,
        closing(Uring(8)) as ring,
    ):
        ring.register(uring.REGISTER_FILES, struct.pack("=i", b), 1)

        def splice(fd_in: int, out: int, begin: int, to: int, flags: int = 0) -> None:
            ring.queue(uring.SPLICE, out, SIZE, to, flags=flags, address=begin, source=fd_in)
            assert ring.submit(1) == 1
            assert [done.result for done in ring.reap()] == [SIZE]

        for i in range(1, 8):
            splice(a, ends[1], i * SIZE, uring.ANYWHERE)
            if i == 3:
                splice(ends[0], others[1], uring.ANYWHERE, uring.ANYWHERE)
            elif i % 2:
                splice(ends[0], b, uring.ANYWHERE, i * SIZE)
            else:
                splice(ends[0], 0, uring.ANYWHERE, i * SIZE, uring.FIXED_FILE)
    for end in (*ends, *others):
        os.close(end)
    assert ioh.counts("syscall") == {"read_buffered": 7, "write_buffered": 6}
    assert ioh.total("syscall", "read", "bytes") == 7 * SIZE
    assert ioh.total("syscall", "write", "bytes") == 6 * SIZE
    assert ioh.table("syscall", "file", "path")[str(source),]["reads"] == 7
    assert ioh.lost("syscall") == {}
    assert inflight(ioh) == {}


def test_io_uring_completions_that_are_never_delivered_are_lost(volume: Volume) -> None:
    """Unwanted ones, and those without room in the ring: lost, but not in flight for ever.

    Needs an ioh of its own: a request that the kernel does not reuse stays in flight.
    """
    path = volume.file("data", MIB)
    with (
        recording("--device", volume.device, "--layers", "syscall") as ioh,
        opened(path, DIRECT) as fd,
    ):
        with closing(Uring(8)) as ring:
            for i in range(7):
                ring.queue(uring.WRITE, fd, flags=uring.CQE_SKIP if i < 6 else 0)
            assert ring.submit(1) == 7
        ioh.settle()
        skipped = (ioh.counts("syscall"), ioh.lost("syscall"), inflight(ioh))
        done = 0
        with closing(Uring(8)) as ring:
            # The kernel chooses which requests it reuses.
            while done < 1000:
                read_more_than_fit(ring, fd)
                done += 50
                ioh.settle()
                counted = ioh.counts("syscall")["read_direct"]
                lost = ioh.lost("syscall")["uring_unseen"] - 6
                if lost or counted == done:
                    break
    assert skipped == ({"write_direct": 1}, {"uring_unseen": 6}, {})
    assert counted + lost + inflight(ioh).get("read_direct", 0) == done
    assert counted == done or lost > 0


def read_more_than_fit(ring: Uring, fd: int) -> None:
    """Submit 50 reads, 40 of them before the program takes a completion."""
    reaped = 0
    for _ in range(5):
        for _ in range(8):
            ring.queue(uring.READ, fd)
        assert ring.submit() == 8
    while reaped < 40:
        reaped += len(ring.reap())
        ring.submit(1 if reaped < 40 else 0)
    for _ in range(10):
        ring.queue(uring.READ, fd)
        assert ring.submit(1) == 1
        assert len(ring.reap()) == 1


def test_reads_by_an_io_uring_worker_are_no_cache_hits(watched: WatchedVolume) -> None:
    """ioh does not see what another task submits for a request, so it does not judge such reads."""
    path = watched.volume.file("data", MIB)
    watched.volume.drop_caches()
    with (
        watched.part() as ioh,
        opened(path, DIRECT) as direct,
        opened(path, os.O_RDONLY) as buffered,
        closing(Uring(16)) as ring,
    ):
        for fd, flags in ((buffered, uring.ASYNC), (direct, uring.ASYNC), (direct, uring.LINK)):
            for i in range(5):
                ring.queue(uring.READ, fd, offset=i * SIZE, flags=flags)
        ring.queue(uring.READ, direct)  # the last one of the chain
        assert ring.submit(16) == 16
        assert [done.result for done in ring.reap()] == [SIZE] * 16
        watched.ioh.settle()
        elsewhere = ioh.metric("syscall", "read_calls")
        for fd, count in ((direct, 3), (buffered, 5)):
            for _ in range(count):
                ring.queue(uring.READ, fd)
        assert ring.submit(8) == 8
    assert elsewhere == 0
    assert ioh.metric("syscall", "read_calls") == 8
    assert ioh.metric("syscall", "read_calls_cached") == 5
    assert ioh.total("syscall", "read") == 24
