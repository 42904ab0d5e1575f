"""Requests of request-based dm devices, and commands that programs send to a disk themselves."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.direct import read_directly, write_directly
from tests.kernel.part import part_of
from tests.kernel.rig import MIB, Ioh, aligned, opened, run
from tests.kernel.witness import DiskStats, diskstats
from tests.vm.disks import NAMES, Disks
from tests.vm.nfs import watching

DISK = NAMES[0]
KIB = 1024


@contextlib.contextmanager
def multipath() -> Iterator[str]:
    """A dm-multipath device with one path, to a disk with a write cache; yields its name."""
    Disks.answer_after(0)
    run("modprobe", "-a", "dm-multipath", "dm-round-robin")
    sectors = Path(f"/sys/block/{DISK}/size").read_text().strip()
    table = f"0 {sectors} multipath 0 0 1 1 round-robin 0 1 1 /dev/{DISK} 1000"
    run("dmsetup", "--noudevsync", "create", "paths", "--table", table)
    try:
        (device,) = Path(f"/sys/block/{DISK}/holders").iterdir()
        assert (Path("/sys/block") / device.name / "mq").is_dir()
        yield device.name
    finally:
        run("dmsetup", "--noudevsync", "remove", "--retry", "paths")


def load(path: str) -> None:
    """Each class that diskstats has of such a disk; all at once where bios can join a request."""
    read_directly(path, 23, 4 * KIB, MIB)
    read_directly(path, 7, MIB)
    write_directly(path, 13, 8 * KIB, MIB)
    write_directly(path, 5, 8 * KIB, MIB, syncs=True)
    with opened(path, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC) as fd, aligned(64 * KIB) as buffer:
        for i in range(11):
            os.pwritev(fd, [buffer], i * MIB)


def counted(ioh: Ioh, name: str) -> tuple[dict[str, int], dict[int, int]]:
    """What ioh counted for one device: counts and bytes by op, and its writes by size."""
    sums: dict[str, int] = defaultdict(int)
    sizes: dict[int, int] = defaultdict(int)
    for interval in ioh.intervals_of("block"):
        for op, numbers in interval["layers"]["block"]["parts"]["device"].get(name, {}).items():
            sums[op] += numbers["count"]
            sums[f"{op} bytes"] += numbers["bytes"]
            hist = numbers.get("hist")
            if op == "write" and hist:
                for edge, counts in zip(hist["size_edges_bytes"], hist["counts"], strict=True):
                    sizes[edge] += sum(counts)
    return sums, sizes


def assert_agrees(ioh: Ioh, name: str, disk: DiskStats) -> None:
    sums, sizes = counted(ioh, name)
    # diskstats of the disk below counts a flush that multipath sends down as a read.
    as_reads = sums["flush"] if name == DISK else 0
    assert (sums["read"] + as_reads, sums["read bytes"]) == (disk.reads, disk.read_bytes)
    assert (sums["write"], sums["write bytes"]) == (disk.writes, disk.write_bytes)
    assert sums["flush"] - as_reads == disk.flushes
    assert sums["other"] == 0
    assert sum(sizes.values()) == disk.writes
    assert sizes[8 * KIB] == 18
    assert sizes[64 * KIB] == 11


def test_each_request_counts_once() -> None:
    """Request-based dm completes one twice: with its clone's bios, and when the clone ends."""
    Disks()
    with multipath() as name, watching("block") as layers:
        with part_of(layers) as ioh:
            before = {disk: diskstats(disk, 0) for disk in (name, DISK)}
            load(f"/dev/{name}")
            done = {disk: diskstats(disk, 0) - older for disk, older in before.items()}
            layers.settle()  # beside other machines ioh's lines lag by more than two intervals
        print(done, {disk: counted(ioh, disk) for disk in done})
    assert done[name].flushes >= 16
    assert done[name].reads >= 30
    assert_agrees(ioh, name, done[name])
    assert_agrees(ioh, DISK, done[DISK])
    assert ioh.lost("block") == {}


COMMANDS = 23
SG_IO = 0x2285
SG_DXFER_NONE = -1
# struct sg_io_hdr of scsi/sg.h: interface_id, dxfer_direction, cmd_len, mx_sb_len, iovec_count,
# dxfer_len, dxferp, cmdp, sbp, timeout, flags, pack_id, usr_ptr, status …
SG_IO_HDR = struct.Struct("@iiBBHIPPPIIiPBBBBHHiII0P")
STATUS_AT = 13


def is_ready(fd: int) -> None:
    """Send TEST UNIT READY to a disk."""
    command, sense = ctypes.create_string_buffer(6), ctypes.create_string_buffer(32)
    places = (ctypes.addressof(command), ctypes.addressof(sense))
    header = bytearray(
        SG_IO_HDR.pack(ord("S"), SG_DXFER_NONE, 6, 32, 0, 0, 0, *places, 5000, *12 * [0])
    )
    fcntl.ioctl(fd, SG_IO, header)
    assert SG_IO_HDR.unpack(header)[STATUS_AT] == 0


def test_commands_of_programs_are_not_reported_as_lost() -> None:
    """Most kernels do not timestamp them; ioh then leaves them out, as diskstats does."""
    Disks().answer_after(0)
    with (
        watching("block") as ioh,
        part_of(ioh) as part,
        opened(f"/dev/{NAMES[0]}", os.O_RDONLY) as fd,
    ):
        for _ in range(COMMANDS):
            is_ready(fd)
        os.pread(fd, 4096, 0)
    assert part.lost("block") == {}
    assert part.total("block", "read") >= 1
    assert sum(part.sizes("block", "other").values()) == part.total("block", "other")
