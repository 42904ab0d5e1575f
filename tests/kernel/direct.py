"""Reads and writes with O_DIRECT, each of which is one request where it is small."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kernel.rig import aligned, opened


def read_directly(path: Path | str, count: int, size: int = 4096, step: int | None = None) -> None:
    """So many reads, each of them ``step`` bytes, or its size, behind the one before."""
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd, aligned(size) as buffer:
        for i in range(count):
            assert os.preadv(fd, [buffer], i * (size if step is None else step)) == size


def write_directly(
    path: Path | str, count: int, size: int = 4096, step: int | None = None, *, syncs: bool = False
) -> None:
    """So many writes; with ``syncs`` an fdatasync after each."""
    with opened(path, os.O_WRONLY | os.O_DIRECT) as fd, aligned(size) as buffer:
        for i in range(count):
            assert os.pwritev(fd, [buffer], i * (size if step is None else step)) == size
            if syncs:
                os.fdatasync(fd)
