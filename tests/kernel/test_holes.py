"""Buffered reads of what is in no block of its file, told from reads of what is in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.part import part_of
from tests.kernel.rig import MIB, Ioh, Loop, opened, recording, run


def looked_at(ioh: Ioh, path: Path) -> tuple[int, int]:
    """Bytes whose file was looked at while it was read twice, and of these bytes of holes."""
    with part_of(ioh) as part, opened(path, os.O_RDONLY) as fd:
        for _ in range(2):
            os.lseek(fd, 0, os.SEEK_SET)
            while os.read(fd, MIB // 16):
                pass
    looked, holes = (part.metric("syscall", f"read_{name}_bytes") for name in ("looked", "hole"))
    return looked, holes


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs"])
def test_holes_by_file_system(loop: Loop, tmp_path: Path, fstype: str) -> None:
    mount = tmp_path / "mnt"
    mount.mkdir()
    run(f"mkfs.{fstype}", "-q", loop.path)
    run("mount", loop.path, mount)
    try:
        whole, sparse = mount / "whole", mount / "sparse"
        whole.write_bytes(os.urandom(64 * MIB))
        run("truncate", "--size=256M", sparse)
        run("sync", "--file-system", mount)
        with recording("--device", loop.path, "--layers", "syscall") as ioh:
            of_whole, of_sparse = looked_at(ioh, whole), looked_at(ioh, sparse)
    finally:
        run("umount", mount)
    looked, holes = of_whole
    assert looked > 0 == holes
    looked, holes = of_sparse
    assert 0.8 * looked < holes <= looked
