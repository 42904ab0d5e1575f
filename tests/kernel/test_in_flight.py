"""Operations that have begun and not ended: a device whose backing file system is frozen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.rig import MIB, Loop, Volume, aligned, opened, recording

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
WRITERS = 5


@contextlib.contextmanager
def frozen(mount: Path) -> Iterator[None]:
    """Writes into this file system wait, as on a device that has stopped answering."""
    with opened(mount, os.O_RDONLY) as fd:
        fcntl.ioctl(fd, FIFREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(fd, FITHAW, 0)


def write_one(path: str, place: int) -> None:
    with opened(path, os.O_WRONLY | os.O_DIRECT) as fd, aligned(4096) as buffer:
        assert os.pwritev(fd, [buffer], place * MIB) == 4096


def test_writes_to_a_device_that_has_stopped_stay_in_flight(volume: Volume) -> None:
    """A loop device over a file of the volume stops when the volume's file system is frozen."""
    with contextlib.closing(Loop(volume.mount, 64 * MIB)) as upper:
        options = ("--device", upper.path, "--layers", "syscall,block")
        with recording(*options, cycle_s=0.25) as ioh:
            threads = [
                threading.Thread(target=write_one, args=(upper.path, place))
                for place in range(WRITERS)
            ]
            with frozen(volume.mount):
                for thread in threads:
                    thread.start()
                ioh.settle()
                stopped = len(ioh.output.lines) - 1
                ioh.settle()
                still = len(ioh.output.lines) - 1
            for thread in threads:
                thread.join(20)
        for line in (stopped, still):
            layers = ioh.intervals[line]["layers"]
            assert layers["syscall"]["ops"]["write_direct"]["inflight"] == WRITERS
            (row,) = layers["block"]["top"]["device"]
            assert row["inflight"] == WRITERS
            assert row["busy_pct"] > 90 or line == stopped
        last = ioh.intervals[-1]["layers"]
        assert last["syscall"]["ops"]["write_direct"]["inflight"] == 0
        assert ioh.counts("syscall") == {"write_direct": WRITERS}
        assert ioh.total("block", "write") + ioh.unseen == WRITERS
        # They ended at last, and took all of that time.
        slowest = max(numbers["max_us"] or 0 for numbers in ioh.ops("syscall", "write_direct"))
        assert slowest > 3e6 * ioh.cycle_s


READ_ON = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while True:
    os.pread(fd, 4096, 0)
"""


def test_calls_half_seen_while_attaching_are_not_in_flight(volume: Volume) -> None:
    """ioh sees half of a call if one program is attached and its partner is not yet."""
    path = volume.file("data", MIB)
    readers = [subprocess.Popen([sys.executable, "-c", READ_ON, path]) for _ in range(4)]
    try:
        with recording("--device", volume.device, "--layers", "syscall") as ioh:
            for reader in readers:
                reader.kill()
                reader.wait()
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    last = ioh.intervals[-1]["layers"]["syscall"]["ops"]
    assert ioh.total("syscall", "read_buffered") > 1000
    assert {op: numbers["inflight"] for op, numbers in last.items() if numbers["inflight"]} == {}
