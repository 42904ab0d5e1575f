"""Reads and writes with O_DIRECT; a small one is one request."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kernel.rig import aligned, opened


def read_directly(path: Path | str, count: int, size: int = 4096, step: int | None = None) -> None:
    """Read so many times, each time ``step`` bytes, or else ``size``, after the place before."""
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd, aligned(size) as buffer:
        for i in range(count):
            assert os.preadv(fd, [buffer], i * (size if step is None else step)) == size


def write_directly(
    path: Path | str, count: int, size: int = 4096, step: int | None = None, *, syncs: bool = False
) -> None:
    """Write likewise; with ``syncs`` an fdatasync after each write."""
    with opened(path, os.O_WRONLY | os.O_DIRECT) as fd, aligned(size) as buffer:
        for i in range(count):
            assert os.pwritev(fd, [buffer], i * (size if step is None else step)) == size
            if syncs:
                os.fdatasync(fd)
