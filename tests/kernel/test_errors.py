"""Failed requests and calls: counted apart, in no rate and no mean, and named with their cause."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.rig import MIB, Ioh, Loop, aligned, opened, recording, run
from tests.kernel.talker import Talker

GOOD = 16 * MIB  # of the loop device's file; what lies behind it cannot be read


@pytest.fixture
def sick(loop: Loop) -> Loop:
    """A disk whose end is gone."""
    run("truncate", "--size", str(GOOD), loop.image)
    return loop


def fails(fd: int, buffer: mmap.mmap, at: int, code: int = errno.EIO) -> None:
    with pytest.raises(OSError) as failed:  # noqa: PT011
        os.preadv(fd, [buffer], at)
    assert failed.value.errno == code


def test_failed_reads_are_in_no_count_no_bytes_and_no_time(sick: Loop) -> None:
    with (
        recording("--device", sick.path) as ioh,
        opened(sick.path, os.O_RDONLY | os.O_DIRECT) as fd,
        aligned(4096) as buffer,
        aligned(8192) as two,
    ):
        before = sick.stats()
        for n in range(13):
            assert os.preadv(fd, [buffer], n * 4096) == 4096
        for n in range(29):
            fails(fd, buffer, GOOD + n * 4096)
        fails(fd, two, GOOD - 4096)  # the first half arrives, in a completion of its own
        disk = sick.stats() - before
    good, bad = ioh.total("block", "read"), ioh.errors("block", "read")
    # diskstats counts failed requests like the others.
    assert (disk.reads, disk.read_bytes) == (43, 44 * 4096)
    assert good + bad + ioh.lost("block").get("unseen", 0) == 43
    assert 13 - disk.hidden <= good <= 13
    assert 30 - disk.hidden <= bad <= 30
    assert ioh.total("block", "read", "bytes") in {good * 4096, (good + 1) * 4096}
    if not disk.hidden:
        assert ioh.total("block", "read", "bytes") == 14 * 4096
    hists = [numbers["hist"] for numbers in ioh.ops("block", "read") if "hist" in numbers]
    assert sum(sum(map(sum, hist["counts"])) for hist in hists) == good
    row = ioh.table("block", "device", "device")[sick.name,]
    assert (row["reads"], row["errors"]) == (good, bad)
    process = str(os.getpid())
    told = ioh.table("syscall", "error", "pid", "op", "error", "mount")
    assert {key: row["errors"] for key, row in told.items()} == {
        (process, "read_direct", "EIO", "/dev"): 30
    }
    assert ioh.total("syscall", "read_direct") == 13
    assert ioh.errors("syscall", "read_direct") == 30


@contextlib.contextmanager
def full(folder: Path) -> Iterator[Path]:
    """A file system of 2 MB that has no room left."""
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=2m", "none", folder)
    try:
        (folder / "sparse").touch()
        os.truncate(folder / "sparse", 4 * MIB)
        (folder / "rest").write_bytes(bytes(2 * MIB))
        yield folder
    finally:
        run("umount", folder)


def test_a_synchronous_write_that_fails_is_one_error(tmp_path: Path) -> None:
    """With its flushes it completes twice, and fails twice."""
    with full(tmp_path / "full") as folder:
        device = run("losetup", "--find", "--show", folder / "sparse").strip()
        try:
            with (
                recording("--device", device) as ioh,
                opened(device, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC) as fd,
                aligned(4096) as buffer,
            ):
                for n in range(7):
                    with pytest.raises(OSError, match=r"error|space"):
                        os.pwritev(fd, [buffer], (n + 2) * 65536)
        finally:
            run("losetup", "--detach", device)
    assert ioh.total("block", "write") == 0
    assert ioh.errors("block", "write") + ioh.unseen == 7
    assert ioh.errors("syscall", "write_sync") == 7


NAME = Path(sys.executable).name
PROGRAM = """
import contextlib, mmap, os, sys, time
device, full = sys.argv[1:]
direct, plain = (os.open(device, os.O_RDONLY | flag) for flag in (os.O_DIRECT, 0))
big, buffer = os.open(full, os.O_WRONLY), memoryview(mmap.mmap(-1, 8192))
tries = {
    "bad": lambda: os.preadv(direct, [buffer[:4096]], 40 << 20),
    "misaligned": lambda: os.preadv(direct, [buffer[:4096]], 100),
    "full": lambda: os.pwrite(big, bytes(65536), 3 << 20),
    "expected": lambda: os.write(plain, b"x"),
}
for line in sys.stdin:
    for _ in range(20):
        with contextlib.suppress(OSError):
            tries[line.strip()]()
    print("done", flush=True)
"""


def said(ioh: Ioh, sick: Loop) -> dict[str, dict[str, Any]]:
    """The findings about errors by subject, without those of other disks."""
    return {
        finding["subject"]: finding
        for interval in ioh.intervals
        for finding in interval["findings"]
        if finding["rule"] == "io_errors"
        if finding["layer"] == "syscall" or finding["subject"] == sick.name
    }


def test_each_kind_of_failure_is_found_and_what_is_expected_is_not(
    sick: Loop, tmp_path: Path
) -> None:
    with (
        full(tmp_path / "full") as folder,
        Talker(sys.executable, "-c", PROGRAM, sick.path, folder / "sparse") as program,
        recording("--pid", str(program.pid), "--layers", "syscall,block", cycle_s=0.5) as ioh,
    ):
        found: dict[str, set[str]] = {
            "expected": set(),
            "misaligned": {f"EINVAL {NAME} /dev"},
            "full": {f"ENOSPC {NAME} {folder}"},
            "bad": {sick.name, f"EIO {NAME} /dev"},
        }
        for kind, findings in found.items():
            before = said(ioh, sick).keys()
            assert program.ask(kind) == "done"
            ioh.settle()
            assert said(ioh, sick).keys() - before == findings, kind
    assert said(ioh, sick)[sick.name]["severity"] == "critical"
    assert f"{NAME}[{program.pid}]" in said(ioh, sick)[f"EIO {NAME} /dev"]["cause"]
