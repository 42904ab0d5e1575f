"""What storage does below and beside a program: caches, compression, scrubs; lost events.

Every ``time.sleep`` here is the length of a scenario.
"""

from __future__ import annotations

import os
import time

from tests.kernel.rig import MIB, Loop, run
from tests.scenarios.plays import AIO, DIRECT, LAYERS, PSYNC, Load, on_disk
from tests.scenarios.stage import DISK_BYTES, Stage, Zram, fill


def cached_image(stage: Stage) -> None:
    disk = stage.disk()
    run("losetup", "--direct-io=off", disk.path)
    disk.image.read_bytes()
    stage.record_all_disks(disk, *LAYERS)  # reads of the disk below are the evidence
    stage.own_fio(f"--filename={disk.path}", "--rw=randread", "--bs=64k", DIRECT, PSYNC)
    stage.begins_for(10)


def direct_image(stage: Stage) -> None:
    disk = stage.disk()
    stage.record_all_disks(disk, *LAYERS)
    stage.own_fio(f"--filename={disk.path}", "--rw=randread", "--bs=16k", DIRECT, AIO,
                  "--iodepth=4", "--rate_iops=600")  # fmt: skip
    time.sleep(14)


def half_cached(stage: Stage) -> None:
    """Half of the disk is in memory, the other half on a disk that a rival keeps busy."""
    disk = stage.disk()
    run("losetup", "--direct-io=off", disk.path)
    rival = stage.folder / "rival"
    fill(rival, 4 * DISK_BYTES)
    with disk.image.open("rb") as stream:
        while stream.tell() < DISK_BYTES // 2:
            stream.read(MIB)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={rival}", "--rw=randread", "--bs=1M", DIRECT, AIO, "--iodepth=3")
    stage.python(_HALVES, disk.path, str(disk.image))
    stage.begins_for(16)


# Six of ten reads go to the first half of a disk, which is in memory whatever other programs do to
# the page cache; nothing of the second half is.  Arguments: path, image.
_HALVES = """
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); buffer = mmap.mmap(-1, 4096)
image = os.open(sys.argv[2], os.O_RDONLY); half = os.lseek(fd, 0, os.SEEK_END) // 2
while True:
    at = random.randrange(half // 4096) * 4096
    if random.random() < 0.6:
        os.pread(image, 4096, at)
    else:
        at += half
        os.posix_fadvise(image, half, 0, os.POSIX_FADV_DONTNEED)
    os.preadv(fd, [buffer], at)
"""


def compressed(stage: Stage) -> None:
    _write_btrfs(stage, "compress-force=lzo", "--buffer_compress_percentage=80")
    stage.begins_for(16)


# Reads a file from its disk, again and again.  Argument: path.
_READ_COLD = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while True:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.lseek(fd, 0, 0)
    while os.read(fd, 1 << 17): pass
"""


def compressed_reads(stage: Stage) -> None:
    _read_btrfs(stage, b"five of six words are the same as before " + os.urandom(8))
    stage.begins_for(11)


def incompressible_reads(stage: Stage) -> None:
    _read_btrfs(stage)
    time.sleep(11)


def _read_btrfs(stage: Stage, words: bytes = b"") -> None:
    """Read a file that repeats these words, or one of random bytes."""
    volume = stage.btrfs("compress-force=zstd")
    path = volume.mount / "f"
    with path.open("wb") as stream:
        for _ in range(192):
            stream.write(words * (MIB // len(words)) if words else os.urandom(MIB))
        os.fsync(stream.fileno())
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_READ_COLD, str(path))


def incompressible(stage: Stage) -> None:
    _write_btrfs(stage, "compress=lzo")
    time.sleep(16)


def _write_btrfs(stage: Stage, mounted: str, *options: str) -> None:
    volume = stage.btrfs(mounted)
    # btrfs has device numbers of its own, which --device does not know.
    stage.record_all_disks(volume.loop, *LAYERS)
    stage.own_fio(f"--directory={volume.mount}", "--size=192M", "--rw=write", "--bs=128k", PSYNC,
                  "--fsync=64", "--rate=60m", "--refill_buffers", "--fallocate=none",
                  *options)  # fmt: skip


def scrub(stage: Stage) -> None:
    volume = stage.btrfs()
    fill(volume.mount / "f", 512 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    # A terabyte takes hours; this one is scrubbed at a limited speed, again and again.
    speed = next(volume.sysfs.glob("devinfo/*/scrub_speed_max"))
    speed.write_text(str(40 * MIB))
    stage.load("sh", "-c", f"while :; do btrfs scrub start -B {volume.mount} || exit 1; done")
    stage.begins_for(9)


def read_btrfs(stage: Stage) -> None:
    volume = stage.btrfs()
    fill(volume.mount / "f", 192 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={volume.mount}/f", "--rw=randread", "--bs=16k", DIRECT, AIO,
              "--iodepth=4", "--rate_iops=600")  # fmt: skip
    time.sleep(14)


# fio takes its completions from the ring itself, without a call in which ioh could see them.
_UNSEEN = ("--userspace_reap=1", "--iodepth_batch_complete_min=0", "--rate_iops=2000")
unseen_completions = on_disk(
    Load(fio=("--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8", *_UNSEEN), seconds=9)
)


# Writes to random pages, without end.  Argument: MB of memory.
_TOUCH = """
import mmap, random, sys
size = int(sys.argv[1]) << 20; pages = mmap.mmap(-1, size)
while True: pages[random.randrange(size >> 12) << 12] = 1
"""


def swapping(stage: Stage) -> None:
    """A program of 200 MB in a control group of 64 MB, with swap on a disk."""
    _swap(stage, stage.disk())


def swapping_zram(stage: Stage) -> None:
    """The same with swap in compressed memory."""
    _swap(stage, stage.zram())


def _swap(stage: Stage, disk: Loop | Zram) -> None:
    stage.swap_on(disk)
    stage.record("--device", disk.name, *LAYERS)
    stage.python(_TOUCH, "200", limit=stage.memory_limit(64 * MIB))
    stage.begins_for(12)


def memory_writes(stage: Stage) -> None:
    """dd as a benchmark of a disk, without O_DIRECT and without fsync at the end."""
    volume = stage.volume(2048 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    # A new file each time: ext4 writes back a file that is truncated and rewritten.
    stage.load("sh", "-c", f"cd {volume.mount}; while :; do dd if=/dev/zero of=f bs=1M count=900 "
               "|| exit 1; rm f; done")  # fmt: skip
    stage.begins_for(11)
