"""Reads through mapped memory, exec and swap-in: their counts equal the block layer's."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.part import WatchedVolume
from tests.kernel.rig import MIB, Ioh, Loop, about, aligned, opened, recording, run
from tests.kernel.witness import DiskStats
from tests.scenarios.stage import MemoryLimit

PAGE = mmap.PAGESIZE


def warm(path: Path) -> None:
    """Bring a file's inode and its whole block map into memory, but none of its pages."""
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd, aligned(MIB) as buffer:
        while os.readv(fd, [buffer]):
            pass


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


def resident_bytes(path: Path) -> int:
    """How much of a file is in memory, by mincore(2)."""
    size = path.stat().st_size
    vector = (ctypes.c_ubyte * -(-size // PAGE))()
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), size) as mapped:
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        assert (
            ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector) == 0
        )
    return sum(page & 1 for page in vector) * PAGE


def fault_row(ioh: Ioh, table: str, *keys: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Faults and their bytes, by row."""
    rows = ioh.table("syscall", table, *keys)
    return {key: (row["faults"], row["fault_bytes"]) for key, row in rows.items() if row["faults"]}


def most_hidden(disk: DiskStats) -> int:
    """How many ends of faults can have been hidden: a request ends all that it was merged from."""
    return disk.hidden + disk.read_merges if disk.hidden else 0


def assert_ended(ioh: Ioh, begun: int, disk: DiskStats) -> None:
    """All faults have ended, except those whose end was hidden, until their memory is reused."""
    op = "fault_read"
    under_way = [numbers["inflight"] for numbers in ioh.ops("syscall", op)][-1]
    assert under_way <= most_hidden(disk)
    assert ioh.total("syscall", op) == begun - under_way


def assert_requests(ioh: Ioh, disk: DiskStats, by_calls: int = 0) -> None:
    """Requests of faults and of calls are the disk's reads.

    A read whose end was hidden from BPF stays known by its bio's address: a later read by a bio at
    the same address is then taken for a fault's, too.
    """
    told = ioh.metric("syscall", "fault_requests") + by_calls
    assert 0 <= told - disk.reads <= most_hidden(disk)


def touch(mapped: mmap.mmap, pages: list[int]) -> None:
    for page in pages:
        assert mapped[page * PAGE] is not None


@pytest.mark.parametrize("advice", [mmap.MADV_RANDOM, mmap.MADV_NORMAL, mmap.MADV_SEQUENTIAL])
def test_faults_in_a_mapped_file_equal_the_disks_reads(watched: WatchedVolume, advice: int) -> None:
    """At random each fault is one read of one page; in order read-ahead makes larger ones."""
    path = watched.volume.file("data", 8 * MIB)
    watched.volume.drop_caches()
    warm(path)
    pages = list(range(2048))
    if advice == mmap.MADV_RANDOM:
        random.Random(1).shuffle(pages)
        pages = pages[:997]
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        watched.part() as ioh,
    ):
        mapped.madvise(advice)
        before, faults_before = watched.volume.loop.stats(), faults()
        touch(mapped, pages)
        disk, waited = watched.volume.loop.stats() - before, faults() - faults_before
    counts = ioh.counts("syscall")
    assert counts.keys() == {"fault_read"}
    seen = fault_row(ioh, "file", "path")[(str(path),)]
    assert seen[1] == about(disk.read_bytes)
    assert disk.read_bytes == resident_bytes(path)
    assert_requests(ioh, disk)
    assert fault_row(ioh, "process", "pid") == {(str(os.getpid()),): seen}
    assert_ended(ioh, seen[0], disk)
    assert ioh.metric("syscall", "read_calls") == 0
    if advice == mmap.MADV_RANDOM:
        assert seen[0] == waited == disk.reads == 997
        # In order, read-ahead's requests, which nobody waits for, can take longer than a fault's.
        assert ioh.latency_us("syscall", "fault_read") > ioh.latency_us("block", "read") * 0.9
    else:
        assert waited <= disk.reads < 200
    ioh.assert_block_agrees(disk)


_MAKE_BASE = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
base.execute("create table t(x)")
base.executemany("insert into t values (randomblob(?))", [(3000 + i % 5000,) for i in range(997)])
base.commit()
"""
_READ_BASE = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
base.execute("pragma mmap_size = 100000000")
assert base.execute("select sum(length(x)) from t").fetchone()[0] > 2e6
"""


def _exec(folder: Path) -> tuple[list[str], str]:
    program = shutil.copy(sys.executable, folder / "program")
    return [str(program), "-I", "-S", "-c", "pass"], "program"


def _script(folder: Path) -> tuple[list[str], str]:
    """A script: the kernel reads its first line."""
    script = folder / "script"
    script.write_text("#!/bin/sh\n" + "# is read by its interpreter\n" * 9999)
    script.chmod(0o755)
    return [str(script)], "script"


def _sqlite(folder: Path) -> tuple[list[str], str]:
    base = folder / "base"
    run(sys.executable, "-c", _MAKE_BASE, base)
    return [sys.executable, "-c", _READ_BASE, str(base)], "base"


@pytest.mark.parametrize("prepare", [_exec, _script, _sqlite])
def test_calls_and_faults_of_programs_equal_the_disks_reads(
    watched: WatchedVolume, prepare: Callable[[Path], tuple[list[str], str]]
) -> None:
    """What programs read by calls and by faults is together what the disk was asked for."""
    command, name = prepare(watched.volume.mount)
    path = watched.volume.mount / name
    watched.volume.drop_caches()
    warm(path)
    with watched.part() as ioh:
        before = watched.volume.loop.stats()
        run(*command)
        disk = watched.volume.loop.stats() - before
    count, size = fault_row(ioh, "file", "path")[(str(path),)]
    assert_ended(ioh, count, disk)
    assert size + ioh.metric("syscall", "read_lower_bytes") == about(disk.read_bytes)
    assert_requests(ioh, disk, ioh.metric("syscall", "read_lower_ops"))
    if prepare is _exec:
        assert size > resident_bytes(path) / 2
    ioh.assert_block_agrees(disk)


def test_reads_from_swap_are_counted_as_faults(loop: Loop) -> None:
    """They show in the process, and in no file; what is written to swap is not counted here."""
    script = "import mmap; pages = mmap.mmap(-1, 64 << 20)\n"
    script += "for page in 2 * list(range(16384)): pages[page * 4096] = 1"
    run("mkswap", loop.path)
    limit = MemoryLimit(32 * MIB)
    try:
        run("swapon", "--priority", "100", loop.path)
        with recording("--device", loop.path, "--layers", "syscall,block") as ioh:
            before = loop.stats()
            enter = f'echo $$ > {limit.folder}/cgroup.procs; exec "$@"'
            run("sh", "-c", enter, "sh", sys.executable, "-c", script)
            ioh.settle()
            disk = loop.stats() - before
    finally:
        run("swapoff", loop.path)
        limit.close()
    assert disk.read_bytes > 16 * MIB
    assert ioh.counts("syscall").keys() == {"fault_read"}
    assert_ended(ioh, disk.read_bytes // PAGE, disk)
    assert_requests(ioh, disk)
    seen = (disk.read_bytes // PAGE, about(disk.read_bytes))
    assert fault_row(ioh, "file", "path") == {("(swap)",): seen}
    assert list(fault_row(ioh, "process", "pid").values()) == [seen]


def test_other_reads_and_writes_are_not_faults(watched: WatchedVolume) -> None:
    """Reads by calls, write-back of a mapping that is in memory, and metadata."""
    path = watched.volume.file("data", 8 * MIB)
    with watched.part() as ioh:
        with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
            stream.read()
            for page in range(997):
                mapped[page * PAGE] ^= 1
        watched.volume.drop_caches()
        assert [found.stat().st_size for found in watched.volume.mount.iterdir()]
    assert ioh.total("syscall", "fault_read") == 0
    assert ioh.total("block", "read") > 0
    assert ioh.total("block", "write", "bytes") >= 997 * PAGE
