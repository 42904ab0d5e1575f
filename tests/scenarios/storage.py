"""What storage does below and beside a program: caches, compression, scrubs; lost events.

Every ``time.sleep`` here is how long the scenario lasts.
"""

from __future__ import annotations

import time

from tests.kernel.rig import MIB, run
from tests.scenarios.anomalies import AIO, DIRECT, LAYERS, PSYNC
from tests.scenarios.stage import DISK_BYTES, Stage, fill


def cached_image(stage: Stage) -> None:
    disk = stage.disk()
    run("losetup", "--direct-io=off", disk.path)
    disk.image.read_bytes()
    stage.record_all_disks(disk, *LAYERS)  # what is read of the one below is what tells
    stage.own_fio(f"--filename={disk.path}", "--rw=randread", "--bs=64k", DIRECT, PSYNC)
    stage.begins()
    time.sleep(10)


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
    stage.begins()
    time.sleep(16)


# Six of ten reads go to the first half of a disk, which is in memory whatever others do to the page
# cache, and nothing of the second half is: path, image.
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
    stage.begins()
    time.sleep(16)


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
    stage.begins()
    time.sleep(9)


def read_btrfs(stage: Stage) -> None:
    volume = stage.btrfs()
    fill(volume.mount / "f", 192 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={volume.mount}/f", "--rw=randread", "--bs=16k", DIRECT, AIO,
              "--iodepth=4", "--rate_iops=600")  # fmt: skip
    time.sleep(14)


def unseen_completions(stage: Stage) -> None:
    """fio takes its completions from the ring itself: no call in which ioh could see them."""
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8",
              "--userspace_reap=1", "--iodepth_batch_complete_min=0",
              "--rate_iops=2000")  # fmt: skip
    stage.begins()
    time.sleep(9)
