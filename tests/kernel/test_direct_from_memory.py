"""O_DIRECT that is not direct: file systems that read such files through the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel.mounts import mounted
from tests.kernel.part import Part, part_of
from tests.kernel.rig import MIB, Ioh, Loop, about, opened, run
from tests.kernel.test_read_kinds import COUNT, PAGE, STEP, reader

ENGINES = ("pread", "libaio", "io_uring")
SIZE = (COUNT + 1) * STEP
TEXT = b"".join(b"%016d" % n for n in range(SIZE // 16))  # shrinks


@contextmanager
def direct(path: Path) -> Iterator[int]:
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
        yield fd


def read(own: Ioh, path: Path, engine: str) -> Part:
    with direct(path) as fd, reader(engine, fd) as ask, part_of(own) as ioh:
        assert [ask(at * STEP) for at in range(COUNT)] == [PAGE] * COUNT
    return ioh


def told(ioh: Ioh) -> dict[str, int]:
    """Direct reads by where their bytes came from; cached and lower in calls and bios."""
    assert ioh.counts("syscall") == {"read_direct": COUNT}
    names = {"cached": "read_calls_cached", "lower": "read_lower_ops"}
    names |= {name: f"read_direct_{name}_bytes" for name in ("from_memory", "hole")}
    return {short: ioh.metric("syscall", name) for short, name in names.items()}


MEMORY = {"cached": COUNT, "lower": 0, "from_memory": about(COUNT * PAGE), "hole": 0}
HOLES = {"cached": 0, "lower": 0, "from_memory": 0, "hole": about(COUNT * PAGE)}


@pytest.mark.parametrize(
    ("fstype", "option"), [("ext4", "data=journal"), ("btrfs", "compress-force=zstd:1")]
)
def test_reads_that_the_page_cache_serves_are_cached(
    own: Ioh, loop: Loop, tmp_path: Path, fstype: str, option: str
) -> None:
    run(f"mkfs.{fstype}", "-q", loop.path)
    with mounted(loop.path, tmp_path / "mnt", "-o", option) as mount:
        path = mount / "data"
        path.write_bytes(TEXT)
        run("sync", "--file-system", mount)
        assert path.read_bytes() == TEXT
        for engine in ENGINES:
            before = loop.stats()
            ioh = read(own, path, engine)
            assert (loop.stats() - before).read_bytes < COUNT * PAGE // 4
            # btrfs gives those of io_uring to a worker, which is not followed.
            is_followed = (fstype, engine) != ("btrfs", "io_uring")
            assert told(ioh) == (MEMORY if is_followed else dict.fromkeys(MEMORY, 0)), engine
            assert ioh.metric("syscall", "read_followed_bytes") == about(COUNT * PAGE * is_followed)
            assert ioh.metric("syscall", "read_cached_bytes") == about(COUNT * PAGE * is_followed)


def test_an_overlay_on_memory_is_memory(own: Ioh, tmp_path: Path) -> None:
    with mounted("tmpfs", tmp_path / "below", "-t", "tmpfs") as below:
        (below / "lower").mkdir()
        (below / "lower/data").write_bytes(TEXT)
        options = f"lowerdir={below / 'lower'}:{tmp_path}"
        with mounted("overlay", tmp_path / "mnt", "-t", "overlay", "-o", options) as mount:
            try:
                ioh = read(own, mount / "data", "pread")
            except OSError:
                pytest.skip("this kernel's tmpfs refuses O_DIRECT")
    assert told(ioh) == MEMORY


def test_direct_reads_of_holes_stay_holes_on_xfs_when_memory_has_most_of_the_file(
    own: Ioh, loop: Loop, tmp_path: Path
) -> None:
    """Holes in memory without the blocks beside them: those were evicted."""
    run("mkfs.xfs", "-q", loop.path)
    with mounted(loop.path, tmp_path / "mnt") as mount:
        sparse = mount / "sparse"
        run("truncate", f"--size={64 * MIB}", sparse)
        with opened(sparse, os.O_RDWR) as fd:
            assert os.pwrite(fd, TEXT[:MIB], SIZE) == MIB
            os.fsync(fd)
            assert os.pread(fd, SIZE, 0) == bytes(SIZE)
            os.posix_fadvise(fd, SIZE, 0, os.POSIX_FADV_DONTNEED)
        for engine in ENGINES:
            assert told(read(own, sparse, engine)) == HOLES, engine


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs"])
def test_direct_reads_of_blocks_and_of_holes_are_neither(
    own: Ioh, loop: Loop, tmp_path: Path, fstype: str
) -> None:
    """Although other pages of the same files are in memory, even those of half of the holes."""
    run(f"mkfs.{fstype}", "-q", loop.path)
    with mounted(loop.path, tmp_path / "mnt") as mount:
        whole, sparse, unwritten = (mount / name for name in ("whole", "sparse", "unwritten"))
        whole.write_bytes(os.urandom(SIZE))
        run("truncate", f"--size={64 * MIB}", sparse)
        run("fallocate", f"--length={2 * SIZE}", unwritten)
        # Few beside the holes: the kernel may evict these pages and keep those of the holes.
        few = SIZE // 8
        for path in (sparse, unwritten):
            with opened(path, os.O_WRONLY) as fd:
                assert os.pwrite(fd, TEXT[:few], SIZE) == few
        run("sync", "--file-system", mount)
        with opened(sparse, os.O_RDONLY) as fd:
            os.pread(fd, SIZE // 2, 0)
        for engine in ENGINES:
            before = loop.stats()
            of_whole = told(read(own, whole, engine))
            disk = loop.stats() - before
            # btrfs itself answers some from memory.
            cached = COUNT - disk.reads if fstype == "btrfs" else 0
            memory = {"cached": cached, "from_memory": about(cached * PAGE)}
            assert of_whole == {**memory, "lower": disk.reads, "hole": 0}, engine
            assert disk.reads > COUNT // 2
            for path in (sparse, unwritten):
                assert told(read(own, path, engine)) == HOLES, (engine, path)
