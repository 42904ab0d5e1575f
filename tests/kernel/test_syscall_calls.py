"""Every call of the syscall layer, made a prime number of times by small programs, counts once."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from operator import mul
from pathlib import Path

import pytest

from tests.kernel.direct import read_directly
from tests.kernel.mounts import mounted
from tests.kernel.part import WatchedVolume, assert_calls, assert_seen, part_of
from tests.kernel.rig import MIB, Ioh, Loop, aligned, fio, opened, run
from tests.kernel.talker import Talker, wait_until

RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT = 1, 2, 4, 8
LIBC = ctypes.CDLL(None, use_errno=True)
SIZE = 1 << 16
TWO = [bytearray(300), bytearray(700)]


def test_direct_reads_count_in_the_row_of_their_size(watched: WatchedVolume) -> None:
    sizes = {8192: 23, 12 << 10: 19, 192 << 10: 17, 4096: 13}
    rows = {8192: 23, 16 << 10: 19, 256 << 10: 17, 4096: 13}
    path = watched.volume.file("data", 17 * (192 << 10))
    with watched.part() as ioh:
        before = watched.volume.loop.stats()
        for size, count in sizes.items():
            read_directly(path, count, size)
        disk = watched.volume.loop.stats() - before
    assert_calls(ioh, {"read_direct": sum(rows.values())})
    if not ioh.lost("syscall"):
        assert ioh.sizes("syscall", "read_direct") == ioh.sizes("syscall", "read") == rows
        assert ioh.total("syscall", "read", "bytes") == disk.read_bytes
    assert (disk.reads, disk.read_bytes) == (72, sum(map(mul, sizes, sizes.values())))
    ioh.assert_block_agrees(disk)
    seen = ioh.sizes("block", "read")
    assert sum(seen.values()) == 72 - ioh.unseen
    assert all(count <= rows[row] for row, count in seen.items())


# Each moves 1,000 bytes.
CALLS: dict[str, tuple[Callable[[int], int], str]] = {
    "read": (lambda fd: len(os.read(fd, 1000)), "read_buffered"),
    "pread": (lambda fd: len(os.pread(fd, 1000, 5)), "read_buffered"),
    "readv": (lambda fd: os.readv(fd, TWO), "read_buffered"),
    "preadv": (lambda fd: os.preadv(fd, TWO, 5), "read_buffered"),
    "preadv2": (lambda fd: os.preadv(fd, TWO, 5, RWF_HIPRI), "read_buffered"),
    "write": (lambda fd: os.write(fd, bytes(1000)), "write_buffered"),
    "pwrite": (lambda fd: os.pwrite(fd, bytes(1000), 5), "write_buffered"),
    "writev": (lambda fd: os.writev(fd, TWO), "write_buffered"),
    "pwritev": (lambda fd: os.pwritev(fd, TWO, 5), "write_buffered"),
    "pwritev2 dsync": (lambda fd: os.pwritev(fd, TWO, 5, RWF_DSYNC), "write_sync"),
    "pwritev2 sync": (lambda fd: os.pwritev(fd, TWO, 5, RWF_SYNC), "write_sync"),
}


def test_each_call_counts_once_in_its_class(watched: WatchedVolume) -> None:
    """Each is made its own power of two times: a sum tells which ones are in it, and how often."""
    path = watched.volume.file("data", SIZE)
    done = Counter[str]()
    with watched.part() as ioh, opened(path, os.O_RDWR) as fd:
        for number, (name, (call, op)) in enumerate(CALLS.items()):
            for _ in range(1 << number):
                assert call(fd) == 1000, name
            done[op] += 1 << number
    assert_calls(ioh, done, 1000)


WRITES_BY_FLAGS = {
    0: "write_buffered",
    os.O_SYNC: "write_sync",
    os.O_DSYNC: "write_sync",
    os.O_DIRECT: "write_direct",
    os.O_DIRECT | os.O_DSYNC: "write_sync",
    os.O_APPEND: "write_buffered",
}


def test_the_flags_of_a_file_decide_the_class_of_a_write(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", SIZE)
    done = Counter[str]()
    with watched.part() as ioh, aligned(4096) as buffer:
        for number, (flags, op) in enumerate(WRITES_BY_FLAGS.items()):
            with opened(path, os.O_WRONLY | flags) as fd:
                for _ in range(1 << number):
                    assert os.write(fd, buffer) == 4096
            done[op] += 1 << number
    assert_calls(ioh, done, 4096)
    assert ioh.total("syscall", "write", "bytes") == ioh.total("syscall", "write") * 4096


@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
def test_the_mount_decides_the_class_of_a_write(
    own: Ioh, loop: Loop, tmp_path: Path, fstype: str
) -> None:
    """The kernel's IS_SYNC() checks the mount, too; its option dirsync is for names alone."""
    run(f"mkfs.{fstype}", "-q", loop.path)
    with (
        mounted(loop.path, tmp_path / "mnt", "-o", "dirsync") as mount,
        opened(mount / "data", os.O_WRONLY | os.O_CREAT) as fd,
    ):
        for option, op, times in [
            (None, "write_buffered", 7),
            ("sync", "write_sync", 13),
            ("async", "write_buffered", 11),
        ]:
            if option is not None:
                run("mount", "-o", f"remount,{option}", loop.path, mount)
            with part_of(own) as part:
                for _ in range(times):
                    assert os.pwrite(fd, bytes(1000), 0) == 1000
            assert_calls(part, {op: times}, 1000)


def test_fdatasync_and_sync_file_range_count_as_fsync(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", SIZE)
    with watched.part() as ioh, opened(path, os.O_RDWR) as fd:
        for _ in range(7):
            os.fsync(fd)
        for _ in range(11):
            os.fdatasync(fd)
        for _ in range(13):
            assert LIBC.sync_file_range(fd, 0, 0, 7) == 0
        for _ in range(5):
            assert LIBC.syncfs(fd) == 0
    assert_calls(ioh, {"fsync": 36}, 0)


def test_a_sync_file_range_that_does_not_wait_for_the_end_is_no_fsync(
    watched: WatchedVolume,
) -> None:
    """It starts write-back, whose requests belong to no call, and is in no table."""
    path = watched.volume.file("data", SIZE)
    with watched.part() as ioh, opened(path, os.O_RDWR) as fd:
        for flags in (1, 2, 2, 3, 3, 3, 3):
            os.pwrite(fd, bytes(SIZE), 0)
            assert LIBC.sync_file_range(fd, 0, SIZE, flags) == 0
    assert_calls(ioh, {"write_buffered": 7, "writeback": 7})
    assert ioh.metric("syscall", "write_calls") == 7
    row = ioh.table("syscall", "file", "path")[str(path),]
    assert (row["writes"], row["syncs"], row["reads"]) == (7, 0, 0)


def test_sync_counts_as_an_fsync_of_all_files(own: Ioh) -> None:
    with part_of(own) as ioh:
        for _ in range(3):
            os.sync()
    assert ioh.counts("syscall") == {"fsync": 3}
    assert ioh.table("syscall", "file", "path")["(all files)",]["syncs"] == 3
    assert ioh.intervals[-1]["layers"]["syscall"]["ops"]["fsync"]["inflight"] == 0


def test_fsync_of_a_directory_is_counted(watched: WatchedVolume) -> None:
    """It makes a file's creation or new name durable; nothing else of a directory is I/O here."""
    folder = watched.volume.mount
    with watched.part() as ioh, opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        for n in range(5):
            (folder / f"new{n}").touch()
            os.fsync(fd)
        for _ in range(3):
            with pytest.raises(IsADirectoryError):
                os.read(fd, 100)
    assert_calls(ioh, {"fsync": 5})
    assert ioh.errors("syscall", "read") == 0
    assert ioh.table("syscall", "file", "path")[str(folder),]["syncs"] == 5


def await_state(pid: int, state: str) -> None:
    """Wait until /proc/PID/stat says so: S waits within a call, T is stopped."""
    stat = Path(f"/proc/{pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == state, pause_s=0.005)


def test_a_call_that_the_kernel_restarts_counts_once(watched: WatchedVolume) -> None:
    """A splice that waits for a pipe and is stopped three times is one write, and no error."""
    path = watched.volume.file("data", SIZE)
    script = (
        "import os,sys; f=os.open(sys.argv[1],os.O_WRONLY); print(f,flush=True)\nos.splice(0,f,9)"
    )
    with watched.part() as ioh, Talker(sys.executable, "-c", script, path) as writer:
        assert writer.line()
        await_state(writer.pid, "S")  # within the call
        for number, state in [(signal.SIGSTOP, "T"), (signal.SIGCONT, "S")] * 3:
            writer.process.send_signal(number)
            await_state(writer.pid, state)
        writer.tell("12345678")
        assert writer.process.wait(10) == 0
    assert_calls(ioh, {"write_buffered": 1}, 9)
    assert ioh.errors("syscall", "write") == 0
    assert ioh.intervals[-1]["layers"]["syscall"]["ops"]["write"]["inflight"] == 0


@pytest.mark.parametrize("of_file", [True, False])
def test_msync_of_a_file_counts_as_fsync(own: Ioh, tmp_path: Path, of_file: bool) -> None:
    """msync names no file, so that a filter by device cannot match it: this one is by process."""
    path = tmp_path / "data"
    path.write_bytes(bytes(SIZE))
    with (
        opened(path, os.O_RDWR) as fd,
        mmap.mmap(fd if of_file else -1, SIZE) as mapped,
        part_of(own) as ioh,
    ):
        for i in range(17):
            mapped[i * 100] = 1
            mapped.flush()
    assert ioh.counts("syscall") == ({"fsync": 17} if of_file else {})
    assert ioh.intervals[-1]["layers"]["syscall"]["ops"]["fsync"]["inflight"] == 0


@pytest.mark.parametrize(("option", "every"), [("fsync", 7), ("fdatasync", 5)])
def test_fsyncs_and_fdatasyncs_of_fio_are_counted(
    watched: WatchedVolume, option: str, every: int
) -> None:
    load: dict[str, object] = {"rw": "write", "bs": "4k", "size": 2 * MIB, "overwrite": 1}
    fio(watched.volume.mount, **load, create_only=1)
    watched.volume.sync()
    with watched.part() as ioh:
        (job,) = fio(watched.volume.mount, **load, **{option: every})
    # fio 3.33 counts its fsyncs, but not its fdatasyncs.
    assert job["sync"]["total_ios"] in {0, 512 // every}
    assert_calls(ioh, {"write_buffered": 512, "fsync": 512 // every})


def test_sendfile_splice_and_copies_are_counted(watched: WatchedVolume) -> None:
    source, target = watched.volume.file("from", SIZE), watched.volume.file("to", SIZE)
    read_end, write_end = os.pipe()
    with (
        watched.part() as ioh,
        opened(source, os.O_RDONLY) as a,
        opened(target, os.O_WRONLY) as b,
        opened("/dev/null", os.O_WRONLY) as null,
    ):
        for _ in range(5):
            assert os.sendfile(b, a, 0, 1000) == 1000
        for _ in range(7):
            assert os.copy_file_range(a, b, 1000, 0, 0) == 1000
        for _ in range(11):
            assert os.splice(a, write_end, 1000, offset_src=0) == 1000
            assert os.splice(read_end, b, 1000, offset_dst=0) == 1000
        for _ in range(3):
            assert os.sendfile(null, a, 0, 1000) == 1000
    os.close(read_end)
    os.close(write_end)
    # Between two files it is a copy; with a pipe or a device on one side a read or a write.
    assert_calls(ioh, {"copy": 5 + 7, "read_buffered": 11 + 3, "write_buffered": 11})
    assert ioh.total("syscall", "copy", "bytes") == ioh.total("syscall", "copy") * 1000
    row = ioh.table("syscall", "mount", "mount")[(str(watched.volume.mount),)]
    assert (row["copies"], row["copy_bytes"], row["writes"], row["reads"]) == (12, 12_000, 11, 14)
    assert row["copy_ns"] > 0


def test_reads_at_the_end_of_a_file_are_calls(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", 1000)
    with watched.part() as ioh, opened(path, os.O_RDONLY) as fd:
        for _ in range(19):
            assert os.pread(fd, 4096, 1000) == b""
    assert_calls(ioh, {"read_buffered": 19}, 0)
    assert ioh.sizes("syscall", "read_buffered") == {512: ioh.total("syscall", "read_buffered")}


def test_failing_calls_count_as_errors_only(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", SIZE)
    with (
        watched.part() as ioh,
        opened(path, os.O_RDONLY | os.O_DIRECT) as fd,
        aligned(8192) as buffer,
    ):
        for _ in range(5):
            with pytest.raises(OSError) as failed:  # noqa: PT011
                os.preadv(fd, [memoryview(buffer)[1:4097]], 1)
            assert failed.value.errno == errno.EINVAL
        for _ in range(7):
            assert LIBC.pread(fd, ctypes.c_void_p(4096), 4096, 0) == -1
            assert ctypes.get_errno() == errno.EFAULT
        for _ in range(3):
            with pytest.raises(OSError) as failed:  # noqa: PT011
                os.write(fd, bytes(4096))
            assert failed.value.errno == errno.EBADF
        with pytest.raises(OSError) as failed:  # noqa: PT011
            os.read(999, 1)
        assert failed.value.errno == errno.EBADF
    assert_calls(ioh, {})
    # Opened for reading only, the file is still the one that the call was for.
    failed_calls = {"read_direct": 12, "write_direct": 3}
    assert_seen(ioh, {op: ioh.errors("syscall", op) for op in failed_calls}, failed_calls)


def test_calls_that_would_block_are_no_errors(watched: WatchedVolume) -> None:
    """A web server's sendfile to a full socket, and reads of what is not in the cache."""
    page, cold = (watched.volume.file(name, SIZE) for name in ("page", "cold"))
    watched.volume.drop_caches()
    left, right = socket.socketpair()
    with watched.part() as ioh, left, right, opened(page, os.O_RDONLY) as fd:
        left.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                left.send(bytes(SIZE))
        for _ in range(23):
            with pytest.raises(BlockingIOError):
                os.sendfile(left.fileno(), fd, 0, 1000)
        # The first read is refused, and can make the kernel fetch what a second one then gets.
        with opened(cold, os.O_RDONLY) as other, pytest.raises(BlockingIOError):
            os.preadv(other, [bytearray(1000)], 0, RWF_NOWAIT)
    assert_calls(ioh, {})
    assert ioh.errors("syscall", "read") == 0
    assert ioh.intervals[-1]["layers"]["syscall"]["ops"]["read"]["inflight"] == 0


def test_reads_and_writes_of_what_is_no_file_are_not_counted(own: Ioh, tmp_path: Path) -> None:
    """Sockets, pipes, character devices and pseudo file systems."""
    a, b = socket.socketpair()
    read_end, write_end = os.pipe()
    with (
        a,
        b,
        mounted("binfmt_misc", tmp_path / "binfmt", "-t", "binfmt_misc") as binfmt_misc,
        part_of(own) as ioh,
    ):
        for _ in range(31):
            os.write(a.fileno(), b"x")
            os.read(b.fileno(), 1)
            os.write(write_end, b"x")
            os.read(read_end, 1)
        kernels = ("/proc/self/stat", "/proc/diskstats", "/sys/kernel/mm/ksm/run", "/dev/zero")
        for name in (*kernels, binfmt_misc / "status"):
            with opened(name, os.O_RDONLY) as fd:
                for _ in range(31):
                    os.read(fd, 100)
    os.close(read_end)
    os.close(write_end)
    assert ioh.counts("syscall") == {}


def test_direct_reads_of_tmpfs_count_as_served_from_cache(own: Ioh) -> None:
    """tmpfs accepts O_DIRECT since Linux 6.6, and copies from its pages all the same."""
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        part_of(own) as ioh,
    ):
        path = Path(folder, "data")
        path.write_bytes(bytes(SIZE))
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            if error.errno != errno.EINVAL:  # an older kernel
                raise
            return
        read_directly(path, 23, step=0)
    assert ioh.counts("syscall") == {"read_buffered": 23, "write_buffered": 1}
    assert ioh.metric("syscall", "read_calls_cached") == 23
