"""Filters that the probes apply, and the message about a device that does not exist."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioh.bpf.compiled import CACHE_DIR
from tests.kernel.direct import read_directly
from tests.kernel.mounts import mounted
from tests.kernel.named_reader import NamedReader
from tests.kernel.part import WatchedVolume, part_of
from tests.kernel.rig import (
    MIB,
    START_S,
    Ioh,
    Loop,
    Volume,
    ended,
    fio,
    ioh_command,
    ioh_ended,
    ioh_environment,
    opened,
    recording,
    run,
)
from tests.kernel.talker import wait_until


@contextlib.contextmanager
def readers(path: Path, *comms: str) -> Iterator[list[NamedReader]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(NamedReader(path, comm)) for comm in comms]


def only_rows(ioh: Ioh) -> dict[tuple[str, ...], int]:
    return {
        key: row["reads"] for key, row in ioh.table("syscall", "process", "pid", "comm").items()
    }


def test_filter_by_process(own: Ioh, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(1000))
    comm = Path("/proc/self/comm").read_text().strip()
    with NamedReader(path, "other") as other, part_of(own) as ioh, opened(path, os.O_RDONLY) as fd:
        other.read(19)
        for _ in range(23):
            os.pread(fd, 1000, 0)
    assert ioh.counts("syscall") == {"read_buffered": 23}
    assert only_rows(ioh) == {(str(os.getpid()), comm): 23}


def test_filter_by_name(volume: Volume) -> None:
    path = volume.file("data", 1000)
    # The kernel keeps 15 bytes of a name; the third name is only a prefix of it.
    comms = ("ioh-test-reader", "ioh-test-reade", "ioh-test")
    with readers(path, *comms) as (wanted, *others):
        with recording("--comm", "ioh-test-reader-and-more", "--layers", "syscall") as ioh:
            wanted.read(23)
            for other in others:
                other.read(19)
        assert only_rows(ioh) == {(str(wanted.pid), "ioh-test-reader"): 23}


def test_filter_by_a_name_that_is_cut_within_a_character(volume: Volume) -> None:
    with readers(volume.file("data", 1000), "Größe-日本語テスト", "Größe-日本") as (wanted, other):
        with recording("--comm", "Größe-日本語テスト", "--layers", "syscall") as ioh:
            wanted.read(23)
            other.read(19)
        assert ioh.counts("syscall") == {"read_buffered": 23}
        assert only_rows(ioh) == {(str(wanted.pid), "Größe-日本\\xe8"): 23}


def test_filter_by_name_takes_the_whole_name_of_the_process(volume: Volume) -> None:
    """As ps -o comm, /proc and the tables: mysqld, java and qemu give their threads other names."""
    path = volume.file("data", 1000)
    with (
        NamedReader(path, "ioh-test", "ioh-thread") as wanted,
        NamedReader(path, "ioh-process", "ioh-test") as thread,
        NamedReader(path, "ioh-test-reader") as longer,
        recording("--comm", "ioh-test", "--layers", "syscall") as ioh,
    ):
        wanted.read(23)
        thread.read(19)
        longer.read(11)
    assert only_rows(ioh) == {(str(wanted.pid), "ioh-test"): 23}
    assert ioh.counts("syscall") == {"read_buffered": 23}


def compiled() -> dict[str, int]:
    """What is in the cache: a probe that is compiled becomes a new file there."""
    return {path.name: path.stat().st_mtime_ns for path in CACHE_DIR.iterdir()}


def test_another_filter_by_process_starts_no_compiler(volume: Volume, cgroup: Path) -> None:
    path = volume.file("data", 1000)
    groups = [cgroup / name for name in ("first", "other")]
    with readers(path, "first", "other") as (first, other):
        for reader, group in zip((first, other), groups, strict=True):
            group.mkdir()
            (group / "cgroup.procs").write_text(str(reader.pid))
        with recording("--pid", str(first.pid), "--layers", "syscall"):
            before = compiled()
        by_group = ("--cgroup", str(groups[1]))
        for options in (
            ("--pid", str(other.pid)),
            ("--comm", "other"),
            by_group,
            ("--pid", str(other.pid), "--comm", "other", *by_group),
        ):
            with recording(*options, "--layers", "syscall") as ioh:
                first.read(19)
                other.read(23)
            assert compiled() == before
            assert only_rows(ioh) == {(str(other.pid), "other"): 23}
            assert ioh.counts("syscall") == {"read_buffered": 23}
        # Each of the given ones must pass.
        with recording("--pid", str(first.pid), "--comm", "other", "--layers", "syscall") as ioh:
            first.read(19)
            other.read(23)
    assert compiled() == before
    assert not ioh.counts("syscall")


def test_another_device_starts_no_compiler(volume: Volume, loop: Loop) -> None:
    inside = volume.file("data", 8192)
    with recording("--device", loop.path, "--layers", "syscall,block"):
        before = compiled()
    with recording("--device", volume.device, "--layers", "syscall,block") as ioh:
        read_directly(inside, 23, 8192, step=0)
        read_directly(loop.path, 19, 8192, step=0)
    assert compiled() == before
    assert ioh.counts("syscall") == {"read_direct": 23}
    assert ioh.total("block", "read") + ioh.unseen == 23


def test_after_the_set_up_no_start_compiles(volume: Volume, cgroup: Path) -> None:
    done = ended(sys.executable, "-I", "-m", "ioh.commands.prepare", timeout_s=START_S * 4)
    (line,) = done.stderr.splitlines()
    found = re.fullmatch(rf"ioh: probes compiled for Linux {os.uname().release}: (\d+) of \1", line)
    assert found, done.stderr
    before = compiled()
    device, comm, group = (
        ("--device", volume.device),
        ("--comm", "ioh-test"),
        ("--cgroup", str(cgroup)),
    )
    for options in (
        (),
        comm,
        ("--port", "2049"),
        group,
        ("--pid", str(os.getpid()), *device),
        (*comm, *group, *device, "--port", "2049"),
    ):
        with recording(*options):
            pass
    assert compiled() == before


def test_filter_by_process_in_a_container_falls_back_to_proc() -> None:
    """There a process has another id than the one that the probes see."""
    ioh = ioh_command("json", "-t", "0.1", "--layers", "syscall", "--pid", "1")
    command = ("unshare", "--pid", "--fork", "--mount-proc", *ioh)
    done = ended(*command, env=ioh_environment())
    assert done.returncode == 0
    layer = json.loads(done.stdout.splitlines()[0])["layers"]["syscall"]  # ioh itself is process 1
    assert layer["source"] == "proc"
    assert "host's ids" in layer["notes"][0]


def cgroup_root() -> Path:
    """Where the version 2 hierarchy is mounted: on its own, or beside version 1."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return Path(words[1])
    pytest.fail("no cgroup2 hierarchy is mounted")


@pytest.fixture
def cgroup() -> Iterator[Path]:
    root = cgroup_root()
    folder = root / f"ioh-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    for each in (*folder.glob("*/"), folder):
        for pid in (each / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(pid)
        each.rmdir()


def test_filter_by_control_group(volume: Volume, cgroup: Path) -> None:
    path = volume.file("data", 1000)
    with readers(path, "inside", "outside") as (inside, outside):
        # In a group below it: a group that holds groups has no processes of its own.
        below = cgroup / "service"
        below.mkdir()
        (below / "cgroup.procs").write_text(str(inside.pid))
        with recording("--cgroup", str(cgroup), "--layers", "syscall") as ioh:
            inside.read(23)
            outside.read(19)
    assert ioh.counts("syscall") == {"read_buffered": 23}
    assert only_rows(ioh) == {(str(inside.pid), "inside"): 23}


def test_another_device_is_left_out(watched: WatchedVolume, tmp_path: Path) -> None:
    """In both layers, I/O on the device's files is counted and I/O on files elsewhere is not."""
    beside = tmp_path / "beside"
    beside.write_bytes(bytes(8192))
    inside = watched.volume.file("data", 8192)
    with (
        watched.part() as ioh,
        opened(inside, os.O_RDONLY) as one,
        opened(beside, os.O_RDWR) as other,
    ):
        for path, times, fd in ((inside, 23, one), (beside, 19, other)):
            read_directly(path, times, 8192, step=0)
            os.fsync(fd)
        with mmap.mmap(other, 4096) as mapped:
            mapped[0] = 1
            mapped.flush()  # msync: its file is not known
    assert ioh.counts("syscall") == {"read_direct": 23, "fsync": 1}
    assert ioh.total("block", "read") + ioh.unseen == 23
    assert any("msync" in note for note in ioh.intervals[-1]["layers"]["syscall"]["notes"])


def test_an_open_that_waits_elsewhere_is_not_in_flight_on_the_device(
    watched: WatchedVolume, tmp_path: Path
) -> None:
    """Where a path from '/' leads is known once the file is open: until then, so is nothing."""
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen(["cat", tmp_path / "fifo"]) as waiting:
        wait_until(lambda: "wait_for_partner" in Path(f"/proc/{waiting.pid}/wchan").read_text())
        with watched.part() as ioh:
            pass
        (tmp_path / "fifo").write_bytes(b"")
        assert waiting.wait() == 0
    for interval in ioh.intervals:
        layer = interval["layers"]["syscall"]
        assert layer["ops"]["open"]["inflight"] is None
        assert not layer["ops"]["meta"]["inflight"]
        assert layer["ops"]["open"]["avg_inflight"] == 0
        assert not [row for row in layer["top"]["in_progress"] if row["op"] == "open"]


@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
def test_requests_to_another_device_are_not_counted_as_splits(
    watched: WatchedVolume, loop: Loop, engine: str
) -> None:
    loop.set_queue("max_sectors_kb", "64")
    options = {"bs": "1m", "size": "16m", "iodepth": 4, "direct": 1, "rw": "read"}
    with watched.part() as ioh:
        before = loop.stats()
        fio(Path("/"), filename=loop.path, ioengine=engine, **options)
        disk = loop.stats() - before
    assert disk.reads >= 16 * 16
    assert ioh.counts("syscall") == {}
    assert ioh.metric("syscall", "lower_splits") == 0


def test_a_partition_stands_for_its_disk(loop: Loop, tmp_path: Path) -> None:
    loop.detach()
    loop.attach("--partscan")
    # Only the kernel knows of it, not the disk: no partition table's format is needed.
    run("addpart", loop.path, "1", "2048", str(64 * MIB // 512))
    partition = f"{loop.path}p1"
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", partition)
    with mounted(partition, tmp_path / "mnt") as mount:
        path = mount / "data"
        path.write_bytes(bytes(8192))
        run("sync", "--file-system", mount)
        with recording("--device", partition, "--layers", "syscall,block") as ioh:
            read_directly(path, 23, 8192, step=0)
            read_directly(partition, 19, 8192, step=0)
        assert ioh.counts("syscall") == {"read_direct": 23 + 19}
        assert ioh.total("block", "read") + ioh.unseen == 23 + 19
        (note,) = ioh.messages.lines
        assert b"is a partition" in note
        assert loop.name.encode() in note


def test_filter_by_disk_finds_the_files_of_btrfs(loop: Loop, tmp_path: Path) -> None:
    """Their superblock names no disk: it has an anonymous device number instead."""
    beside = tmp_path / "beside"
    beside.write_bytes(bytes(8192))
    run("mkfs.btrfs", "-q", loop.path)
    with mounted(loop.path, tmp_path / "mnt") as mount:
        inside = mount / "data"
        inside.write_bytes(bytes(8192))
        run("sync", "--file-system", mount)
        Path("/proc/sys/vm/drop_caches").write_text("3")
        with recording("--device", loop.path, "--layers", "syscall,block") as ioh:
            before = loop.stats()
            read_directly(inside, 23, 8192, step=0)
            read_directly(beside, 19, 8192, step=0)
            disk = loop.stats() - before
    assert ioh.counts("syscall") == {"read_direct": 23}
    assert disk.reads
    ioh.assert_block_agrees(disk)


@pytest.mark.parametrize("name", ["nothing", "/dev/nothing", "250:250", "/etc/passwd", "a\x1b[2Jb"])
def test_an_unknown_device_is_refused_with_a_short_message(name: str) -> None:
    done = ioh_ended("json", "--device", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") <= 2
    assert "\x1b" not in done.stderr
    assert "no block device" in done.stderr
    assert "Traceback" not in done.stderr
