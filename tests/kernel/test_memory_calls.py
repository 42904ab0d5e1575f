"""Calls that look like I/O on a disk and are of memory alone."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path

from tests.kernel.direct import read_directly
from tests.kernel.rig import recording

SIZE = 1 << 16


def test_msync_of_what_is_in_no_file() -> None:
    with (
        recording("--pid", str(os.getpid()), "--layers", "syscall") as ioh,
        mmap.mmap(-1, SIZE) as mapped,
    ):
        for i in range(17):
            mapped[i * 100] = 1
            mapped.flush()
    assert ioh.counts("syscall") == {}
    assert ioh.intervals[-1]["layers"]["syscall"]["ops"]["fsync"]["inflight"] == 0


def test_direct_reads_of_memory_are_reads_of_memory() -> None:
    """tmpfs takes O_DIRECT since Linux 6.6, and copies from its pages all the same."""
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        recording("--pid", str(os.getpid()), "--layers", "syscall") as ioh,
    ):
        path = Path(folder, "data")
        path.write_bytes(bytes(SIZE))
        try:
            read_directly(path, 23, step=0)
        except OSError as error:
            if error.errno != errno.EINVAL:  # an older kernel
                raise
            return
    assert ioh.counts("syscall") == {"read_buffered": 23, "write_buffered": 1}
    assert ioh.metric("syscall", "read_calls_cached") == 23
