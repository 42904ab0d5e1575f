"""/proc and sysfs on the running kernel: a mount that appears, a loop device with known reads."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioh.layers.block import SPEC
from ioh.model.sample import LayerSample
from ioh.procfs.block_fallback import BlockFallback
from ioh.procfs.blockdev import read_block_device
from ioh.procfs.devices import resolve_device
from ioh.procfs.mountinfo import MountTable

READS, READ_BYTES = 23, 8192


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "a b.img"
    with file.open("wb") as stream:
        stream.truncate(1 << 20)
    done = subprocess.run(
        ["losetup", "--find", "--show", file], check=True, capture_output=True, text=True
    )
    path = done.stdout.strip()
    yield path
    subprocess.run(["losetup", "--detach", path], check=True)


def test_direct_reads_of_a_loop_device(loop: str, tmp_path: Path) -> None:
    chosen = resolve_device(loop)
    device = read_block_device(chosen.dev)
    mounts = MountTable()
    mount = mounts.mount_of_path(str(tmp_path))
    mounts.close()
    assert device is not None
    # In a chroot the file's own file system is mounted nowhere that can be seen.
    on = "" if mount is None else " on "
    assert device.stack.startswith(f"file {tmp_path}/a b.img{on}")
    assert device.is_stacked == (mount is None or mount.fstype != "tmpfs")

    fallback = BlockFallback(SPEC, chosen.dev)
    fallback.sample()
    fd = os.open(loop, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, READ_BYTES) as buffer:  # aligned, as O_DIRECT wants it
        for i in range(READS):
            assert os.preadv(fd, [buffer], i * READ_BYTES) == READ_BYTES
    os.close(fd)
    time.sleep(0.05)  # per-CPU sums of the last request
    sample = fallback.sample()
    assert isinstance(sample, LayerSample)
    assert sample.ops["read"].count_total == READS
    assert sample.ops["read"].bytes_total == READS * READ_BYTES


def test_mount_table_sees_a_mount_appear_and_go() -> None:
    script = """
import subprocess, sys
from ioh.procfs.mountinfo import MountTable
table = MountTable()
seen = [table.refresh()]
subprocess.run(["mount", "-t", "tmpfs", "ioh-test", sys.argv[1]], check=True)
seen += [table.refresh(), table.refresh(), table.mount_of_path(sys.argv[1] + "/x").source]
subprocess.run(["umount", sys.argv[1]], check=True)
seen += [table.refresh(), table.refresh()]
print(seen)
"""
    done = subprocess.run(
        # Below /sys, which is a mount of its own even in a chroot and can be made private.
        [
            "unshare",
            "--mount",
            "--propagation",
            "unchanged",
            "sh",
            "-c",
            'mount --make-rprivate /sys && exec "$@"',
            "sh",
            sys.executable,
            "-c",
            script,
            "/sys/kernel",
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "[False, True, False, 'ioh-test', True, False]"
