"""Operations that have begun and not ended: a device whose backing file system is frozen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kernel import uring
from tests.kernel.aio import PWRITE, Aio
from tests.kernel.rig import MIB, Ioh, Loop, Volume, aligned, opened, recording
from tests.kernel.talker import wait_until
from tests.kernel.uring import Uring

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


def finding(ioh: Ioh) -> dict[str, Any] | None:
    """The finding about a silent disk in the newest interval."""
    found = [x for x in ioh.intervals[-1]["findings"] if x["rule"] == "disk_no_answer"]
    assert len(found) <= 1
    return found[0] if found else None


def open_rows(ioh: Ioh, line: int = -1) -> list[dict[str, Any]]:
    """This process' rows of what has not ended, in one interval."""
    rows = ioh.intervals[line]["layers"]["syscall"]["top"]["in_progress"]
    return [row for row in rows if row["pid"] == str(os.getpid())]


def test_what_waits_is_listed_and_its_time_counts_as_it_passes(volume: Volume) -> None:
    """A write, two of libaio and three of io_uring, on a device that has stopped."""
    with contextlib.closing(Loop(volume.mount, 64 * MIB)) as upper:
        options = ("--device", upper.path, "--layers", "syscall,block")
        writer = threading.Thread(target=write_one, args=(upper.path, 0))
        with (
            recording(*options, cycle_s=0.25) as ioh,
            opened(upper.path, os.O_WRONLY | os.O_DIRECT) as fd,
            contextlib.closing(Aio(2)) as aio,
            contextlib.closing(Uring(4)) as ring,
        ):
            with frozen(volume.mount):
                began_s = time.monotonic()
                writer.start()
                aio.submit([aio.prepare(fd, PWRITE, offset=at * MIB) for at in (1, 2)])
                for at in (3, 4, 5):
                    ring.queue(uring.WRITE, fd, offset=at * MIB)
                ring.submit()
                all_s = time.monotonic()
                time.sleep(0.5)
                ioh.settle()
                (row,) = open_rows(ioh)
                since_began_s = time.monotonic() - began_s
                last_s = ioh.intervals[-1]["time_unix_s"] - time.time() + time.monotonic()
                stuck = len(ioh.intervals)
                found = wait_until(lambda: finding(ioh))
            assert aio.reap(2, 2) == [4096] * 2
            ring.submit(wait=3)
            writer.join(20)
            wait_until(lambda: finding(ioh) is None)
        assert found is not None
        assert found["cause"].startswith(
            f"{upper.name} (file {upper.image} on {volume.loop.name}) "
        )
        assert "does not answer: 6 writes in flight" in found["cause"]
        assert f"[{os.getpid()}] has waited for" in found["cause"]
        assert finding(ioh) is None
        assert row["file"] == upper.path
        assert row["device"] == upper.name
        assert (row["op"], row["count"], row["blocked"]) == ("write_direct", 6, 1)
        assert last_s - all_s - 0.01 <= row["age_us"] / 1e6 <= since_began_s
        numbers = list(ioh.ops("syscall", "write_direct"))
        assert numbers[stuck]["inflight"] == 6
        assert abs(numbers[stuck]["avg_inflight"] - 6) < 0.2
        assert (
            numbers[stuck]["oldest_us"]
            == ioh.intervals[stuck]["layers"]["syscall"]["top"]["in_progress"][0]["age_us"]
        )
        # None of the time before comes at the end.
        assert max(each["avg_inflight"] or 0 for each in numbers) < 6.2
        assert open_rows(ioh) == []
        assert numbers[-1]["oldest_us"] is None


def test_a_writer_of_a_frozen_file_system_is_named(volume: Volume) -> None:
    """A pipe that nobody reads holds up a call, too, but not because of its disk."""
    path = volume.file("data", 4 * MIB)
    reading, writing = os.pipe()

    def write() -> None:
        with opened(path, os.O_WRONLY) as fd:
            os.pwrite(fd, b"x", 0)

    def send() -> None:
        with opened(path, os.O_RDONLY) as fd, contextlib.suppress(OSError):
            os.splice(fd, writing, 4 * MIB)
            os.splice(fd, writing, MIB)

    options = ("--device", volume.device, "--layers", "syscall,block")
    with recording(*options, cycle_s=0.25) as ioh:
        threads = [threading.Thread(target=each) for each in (write, send)]
        with frozen(volume.mount):
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            ioh.settle()
            rows = {row["op"]: row for row in open_rows(ioh)}
            found = wait_until(lambda: finding(ioh))
        os.close(reading)
        for thread in threads:
            thread.join(20)
    os.close(writing)
    assert found is not None
    assert found["cause"].startswith(f"Calls on {volume.loop.name} do not end")
    assert "1 call waits" in found["evidence"][0]["text"]
    assert rows.keys() == {"write_buffered", "read_buffered"}
    assert rows["write_buffered"]["device"] == volume.loop.name
    assert rows["write_buffered"]["blocked"] == 1
    assert rows["read_buffered"]["blocked"] == 0
    assert all(
        row["file"].endswith(str(volume.mount) + "/data") or "inode" in row["file"]
        for row in rows.values()
    )
