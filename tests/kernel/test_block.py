"""The block layer against /proc/diskstats and sysfs: every class of request, merges, shares."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.direct import read_directly, write_directly
from tests.kernel.part import WatchedVolume
from tests.kernel.rig import MIB, Ioh, Loop, Volume, about, aligned, fio, opened, recording, run
from tests.kernel.witness import DiskStats


def row(ioh: Ioh, loop: Loop) -> dict[str, int]:
    """The device's own row, which must be the only one."""
    rows = ioh.table("block", "device", "device")
    assert rows.keys() <= {(loop.name,)}
    return rows[loop.name,]


def assert_agrees(ioh: Ioh, disk: DiskStats, loop: Loop) -> None:
    """Every count and every byte of the device equals the kernel's."""
    ioh.assert_block_agrees(disk)
    told = row(ioh, loop)
    assert told["flushes"] == disk.flushes
    assert told["discards"] == disk.discards
    assert told["read_merges"] == disk.read_merges
    assert told["write_merges"] == disk.write_merges


def test_discards_and_flushes_equal_diskstats(loop: Loop) -> None:
    with recording("--device", loop.path, "--layers", "block") as ioh:
        before = loop.stats()
        for i in range(7):
            run("blkdiscard", "--offset", str(i * 2 * MIB), "--length", str(MIB), loop.path)
        write_directly(loop.path, 11, syncs=True)
        disk = loop.stats() - before
    assert (disk.discards, disk.discard_bytes) == (7, 7 * MIB)
    assert disk.flushes == 11
    assert ioh.total("block", "discard", "bytes") + ioh.unseen * MIB >= 7 * MIB
    assert_agrees(ioh, disk, loop)


def test_write_zeroes_are_a_class_of_their_own(loop: Loop) -> None:
    with recording("--device", loop.path, "--layers", "block") as ioh:
        run("fallocate", "--punch-hole", "--offset", "0", "--length", str(MIB), loop.path)
        run("fallocate", "--zero-range", "--offset", "0", "--length", str(MIB), loop.path)
    assert ioh.total("block", "write_zeroes") + ioh.unseen >= 2
    assert ioh.total("block", "discard") == 0


def test_merges_of_many_small_writes_are_counted(watched: WatchedVolume) -> None:
    """Adjacent small direct writes in one batch: the queue merges them before it issues them."""
    volume = watched.volume
    volume.loop.set_queue("scheduler", "mq-deadline")
    path = volume.file("data", 8 * MIB)
    with watched.part() as ioh:
        before = volume.loop.stats()
        fio(
            volume.mount,
            filename=path.name, ioengine="libaio", direct=1, rw="write", bs="4k", size="8m",
            iodepth=64, iodepth_batch=32, iodepth_batch_complete_min=32, overwrite=1,
        )  # fmt: skip
        volume.sync()
        disk = volume.loop.stats() - before
    assert disk.write_merges > 1000
    assert_agrees(ioh, disk, volume.loop)
    assert ioh.total("syscall", "write_direct") == 2048
    assert ioh.metric("block", "write_merges") == disk.write_merges


def test_each_device_row_covers_exactly_its_interval(loop: Loop) -> None:
    """The first interval's, too, of a device that is busy when ioh starts."""
    is_over = threading.Event()

    def read_on() -> None:
        with opened(loop.path, os.O_RDONLY | os.O_DIRECT) as fd, aligned(4096) as buffer:
            while not is_over.is_set():
                os.preadv(fd, [buffer], 0)
                is_over.wait(0.005)  # so that mostly none is in flight

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        with Ioh("--device", loop.path, "--layers", "block", cycle_s=0.5) as ioh:
            ioh.wait_for_lines(2)
            while len(list(ioh.intervals_of("block"))) < 3:
                ioh.wait_for_lines(len(ioh.intervals) + 1)
    finally:
        is_over.set()
        reader.join()
    counts = []
    for interval in ioh.intervals_of("block"):
        block = interval["layers"]["block"]
        counts.append(block["ops"]["read"]["count"])
        # The first interval may be so short that it has no read, and no row.
        in_rows = [row["reads_per_s"] * block["interval_s"] for row in block["top"]["device"]]
        assert len(in_rows) <= 1
        assert round(sum(in_rows)) == counts[-1]
    assert all(counts[1:])


@pytest.mark.parametrize(("order", "low", "high"), [("sequential", 99, 100), ("random", 0, 2)])
def test_the_order_of_reads_decides_the_sequential_share(
    loop: Loop, order: str, low: float, high: float
) -> None:
    places = list(range(1009))
    if order == "random":
        # Every fourth block only, so that no two are neighbours, shuffled.
        places = [4 * n for n in places]
        random.Random(5).shuffle(places)
    with (
        recording("--device", loop.path, "--layers", "block") as ioh,
        opened(loop.path, os.O_RDONLY | os.O_DIRECT) as fd,
        aligned(4096) as buffer,
    ):
        for place in places:
            assert os.preadv(fd, [buffer], place * 4096) == 4096
            time.sleep(3e-5)  # each is judged below 50,000 a second
    judged = ioh.metric("block", "positioned")
    assert 1008 - ioh.unseen <= judged <= 1009
    share = 100 * ioh.metric("block", "sequential") / judged
    assert low - 100 * ioh.unseen / judged <= share <= high  # after an unseen one: not sequential


@pytest.mark.parametrize(("order", "low", "high"), [("read", 90, 100), ("randread", 0, 5)])
def test_of_very_many_requests_some_are_judged(
    loop: Loop, order: str, low: float, high: float
) -> None:
    """A device in memory, with more requests a second than are judged.

    Of random reads 1 % continue another one of the last 8; with longer between two that are judged,
    more of them do.
    """
    Path(loop.path).read_bytes()
    with recording("--device", loop.path, "--layers", "block") as ioh:
        options = {"ioengine": "io_uring", "iodepth": 32, "time_based": 1, "runtime": 3}
        fio(Path("/"), filename=loop.path, direct=1, rw=order, bs="4k", size="64m", **options)
    judged, requests = ioh.metric("block", "positioned"), ioh.total("block", "read")
    share = 100 * ioh.metric("block", "sequential") / judged
    print(f"{judged} of {requests} judged, {share} % sequential")
    assert low <= share <= high
    assert judged <= 3.5 * 50_000


def test_busy_time_and_requests_in_flight_equal_diskstats(loop: Loop) -> None:
    with recording("--device", loop.path, "--layers", "block") as ioh:
        before = loop.stats()
        fio(
            Path("/"), filename=loop.path, ioengine="io_uring", direct=1, rw="randread", bs="1m",
            size="512m", iodepth=32, time_based=1, runtime=2,
        )  # fmt: skip
        disk = loop.stats() - before
    rows = [
        (block["interval_s"], line)
        for block in (interval["layers"]["block"] for interval in ioh.intervals_of("block"))
        for line in block["top"]["device"]
    ]
    # diskstats counts whole ms, or ticks of 4 ms where the kernel reads only its tick clock.
    busy_ms = sum(seconds * line["busy_pct"] * 10 for seconds, line in rows)
    assert busy_ms == pytest.approx(disk.busy_ms, rel=1e-3, abs=8)
    weighted_ms = sum(seconds * line["avg_inflight"] * 1e3 for seconds, line in rows)
    assert weighted_ms == pytest.approx(disk.weighted_ms, rel=1e-3, abs=8)
    told = row(ioh, loop)
    # Two ways to one number: the time that requests took, as the probe adds it up.  The kernel's
    # ends after the request's owner has been notified, 3 to 7 µs later: with 32 in flight each
    # request takes more than a millisecond.
    mean_us = told["read_ns"] / 1e3 / told["reads"]
    assert mean_us == pytest.approx(disk.weighted_ms * 1e3 / disk.reads, rel=0.02)
    ioh.assert_block_agrees(disk)


def test_the_device_and_the_submitter_have_rows(volume: Volume) -> None:
    path = volume.file("data", 23 * 8192)
    volume.loop.set_queue("max_sectors_kb", "256")
    with recording("--device", volume.device, "--layers", "block") as ioh:
        read_directly(path, 23, 8192)
    *_, line = [  # a busy machine reads in more than one interval
        line
        for interval in ioh.intervals_of("block")
        for line in interval["layers"]["block"]["top"]["device"]
    ]
    assert line["device"] == volume.loop.name
    assert "disk.img" in line["on"]
    assert line["max_request_bytes"] == 256 << 10
    assert line["queue_depth_limit"] == int((volume.loop.queue / "nr_requests").read_text())
    assert row(ioh, volume.loop)["reads"] + ioh.unseen == 23
    comm = Path("/proc/self/comm").read_text().strip()
    submitters = ioh.table("block", "process", "pid", "comm")
    assert submitters.keys() == {(str(os.getpid()), comm)}
    assert submitters[str(os.getpid()), comm]["reads"] == 23
    assert submitters[str(os.getpid()), comm]["read_bytes"] == about(23 * 8192)


def test_a_thread_with_its_own_name_counts_for_its_process(watched: WatchedVolume) -> None:
    path = watched.volume.file("data", 23 * 8192)
    comm = Path("/proc/self/comm").read_text().strip()

    def read() -> None:
        ctypes.CDLL(None).prctl(15, b"ioh-thread")
        read_directly(path, 23, 8192)

    with watched.part() as ioh:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    rows = ioh.table("block", "process", "pid", "comm")
    assert {key: row["reads"] for key, row in rows.items()} == {(str(os.getpid()), comm): 23}


def test_the_processes_bytes_add_up_to_the_devices(loop: Loop) -> None:
    """Also where most bios are merged into an earlier request, in the plug list."""
    batches = {"iodepth": 32, "iodepth_batch": 32, "iodepth_batch_complete": 32}
    with recording("--device", loop.name, "--layers", "block") as ioh:
        before = loop.stats()
        for rw in ("read", "write"):
            options = {"filename": loop.path, "rw": rw, "bs": "4k", "size": "8m", "direct": 1}
            fio(Path("/"), ioengine="libaio", **options, **batches)
        disk = loop.stats() - before
    assert min(disk.read_merges, disk.write_merges) > 1024
    rows = ioh.table("block", "process", "pid", "comm").values()
    assert sum(row["read_bytes"] for row in rows) == about(disk.read_bytes)
    assert sum(row["write_bytes"] for row in rows) == about(disk.write_bytes)


def test_proc_and_the_probe_count_the_same(volume: Volume) -> None:
    """Both sources at once over one load: the probe's counts are those of /proc."""
    fio(volume.mount, rw="randrw", bs="16k", size="32m", create_only=1)
    volume.drop_caches()
    with (
        recording("--device", volume.device, "--layers", "block") as ioh,
        recording("--proc", "--device", volume.device, "--layers", "block") as proc,
    ):
        before = volume.loop.stats()
        fio(volume.mount, rw="randrw", bs="16k", size="32m", direct=1, fsync=64)
        volume.sync()
        time.sleep(0.1)
        disk = volume.loop.stats() - before
    assert {i["layers"]["block"]["source"] for i in ioh.intervals_of("block")} == {"bpf"}
    assert {i["layers"]["block"]["source"] for i in proc.intervals_of("block")} == {"proc"}
    differences = {
        op: proc.total("block", op) - ioh.total("block", op) for op in ("read", "write", "flush")
    }
    assert min(differences.values()) >= 0
    assert differences["read"] + differences["write"] == ioh.lost("block").get("unseen", 0)
    assert sum(differences.values()) <= disk.hidden
    if not disk.hidden:
        for op in ("read", "write"):
            assert ioh.total("block", op, "bytes") == proc.total("block", op, "bytes")
    assert all(numbers.get("p99_us") is None for numbers in proc.ops("block", "read"))


# <linux/loop.h>
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
SPARE = 77


def on_disks() -> int:
    """Reads and writes of all devices with a request queue but loops; none lies on another one."""
    count = 0
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        folder = Path("/sys/block") / words[2]
        if not words[2].startswith("loop") and (folder / "mq").is_dir():
            assert not list((folder / "slaves").iterdir())
            count += int(words[3]) + int(words[7])
    return count


def control_loops(request: int) -> None:
    with opened("/dev/loop-control", os.O_RDWR) as fd:
        fcntl.ioctl(fd, request, SPARE)


@contextlib.contextmanager
def spare_loop(image: Path) -> Iterator[str]:
    """A loop device that exists only as long as the block lasts."""
    control_loops(LOOP_CTL_ADD)
    path = f"/dev/loop{SPARE}"
    try:
        run("losetup", path, image)
        try:
            yield path
        finally:
            run("losetup", "--detach", path)
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):  # busy until its last opener has closed it
                control_loops(LOOP_CTL_REMOVE)
                break
            time.sleep(0.1)


def test_the_sum_leaves_out_loop_devices_that_come_and_go(tmp_path: Path) -> None:
    """It is of the disks below: no request of a loop device over a file is ever in it.

    All reads are of holes, so that nothing reaches the disk.
    """
    image = tmp_path / "holes.img"
    with image.open("wb") as stream:
        stream.truncate(64 * MIB)
    before = on_disks()
    with recording("--layers", "block") as ioh:
        begun = on_disks()
        path = run("losetup", "--find", "--show", image).strip()
        try:
            read_directly(path, 1009)  # an unused device node gets a file
            ioh.settle()
            read_directly(path, 2003)  # and loses it
        finally:
            run("losetup", "--detach", path)
        with spare_loop(image) as path:
            read_directly(path, 4001)
            ioh.settle()
            read_directly(path, 307)  # a new device node goes away
        ioh.settle()
        with spare_loop(image) as path:
            read_directly(path, 23)  # and comes back
            ioh.settle()
        ended = on_disks()
        # In each tick ioh reads one device's facts again: wait until it has read all.
        ioh.wait_for_lines(len(ioh.intervals) + len(list(Path("/sys/block").iterdir())) + 8)
    after = on_disks()
    told = sum(ioh.total("block", op) for op in ("read", "write", "write_zeroes", "zone_append"))
    # Of the loop devices' reads, too, which are not in the sum; the disks' requests that end while
    # a program runs for a loop device's are hidden from ours.
    unseen = ioh.lost("block").get("unseen", 0)
    assert unseen <= 6 + (7343 + after - before) // 20
    assert ended - begun - unseen <= told <= after - before
    parts: dict[str, int] = {}
    for interval in ioh.intervals_of("block"):
        for name, ops in interval["layers"]["block"]["parts"]["device"].items():
            parts[name] = parts.get(name, 0) + ops.get("read", {"count": 0})["count"]
    assert not [part for part in parts if ":" in part]
    name, others = f"loop{SPARE}", 64  # udev looks at a new disk, too
    assert 4331 - unseen <= parts[name] <= 4331 + others
    # Its last reads before it went away have no row any more.
    row_reads = ioh.table("block", "device", "device")[name,]["reads"]
    assert 4024 - unseen <= row_reads <= 4331 + others


def test_a_queue_that_does_not_timestamp_requests_has_queue_times(loop: Loop) -> None:
    """Without write-back throttling nothing needs the kernel's timestamps; ioh takes its own."""
    loop.set_queue("wbt_lat_usec", "0")
    with recording("--device", loop.path, "--layers", "block") as ioh:
        before = loop.stats()
        for _ in range(6):
            read_directly(loop.path, 101)
            ioh.settle()
        disk = loop.stats() - before
    assert_agrees(ioh, disk, loop)
    reads = [interval["layers"]["block"]["ops"]["read"] for interval in ioh.intervals_of("block")]
    queue_us = [read["queue_us"] for read in reads if read["count"]]
    assert queue_us[-1] is not None
    assert 0 <= queue_us[-1] < 10_000
