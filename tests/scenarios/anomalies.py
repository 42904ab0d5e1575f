"""What goes wrong on one machine, caused for real.

Every ``time.sleep`` here is how long the scenario lasts, or one of its parts: none waits for
something to be ready.
"""

from __future__ import annotations

import time

from tests.kernel.rig import MIB, run
from tests.scenarios.stage import Stage

LAYERS = ("--layers", "syscall,block")
PSYNC = "--ioengine=psync"
DIRECT = "--direct=1"
AIO = "--ioengine=libaio"


def split_reads(stage: Stage) -> None:
    disk = stage.disk()
    disk.set_queue("max_sectors_kb", "64")
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=1M", DIRECT, PSYNC)
    stage.begins()
    time.sleep(8)


def split_writes(stage: Stage) -> None:
    disk = stage.disk()
    disk.set_queue("max_sectors_kb", "64")
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randwrite", "--bs=1M", DIRECT, PSYNC)
    stage.begins()
    time.sleep(8)


def small_window(stage: Stage) -> None:
    volume = stage.volume()
    # A read larger than the window is fetched by max_sectors_kb, so both are needed.
    volume.loop.set_queue("read_ahead_kb", "64")
    volume.loop.set_queue("max_sectors_kb", "64")
    path = volume.file("f", 192 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_READ_AGAIN, str(path), str(MIB), "40")
    stage.begins()
    time.sleep(8)


# Reads a file in order, again and again, from the disk each time: path, size of a read, MB/s.
_READ_AGAIN = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY); size = int(sys.argv[2]); rate = float(sys.argv[3]) * 1e6
start = time.monotonic(); done = 0
while True:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); at = 0
    while data := os.pread(fd, size, at):
        at += len(data); done += len(data)
        time.sleep(max(0.0, done / rate - (time.monotonic() - start)) if done % 2**20 == 0 else 0)
"""


def joined_reads(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.file("f", 192 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_READ_AGAIN, str(path), "4096", "20")
    stage.begins()
    time.sleep(15)


def joined_writes(stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=128M", "--rw=write", "--bs=4k", PSYNC,
              "--rate=12m", "--fallocate=none")  # fmt: skip
    stage.python("import os,sys,time\nwhile True: time.sleep(2); os.sync()")
    stage.begins()
    time.sleep(42)


def late_write_back(stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=230M", "--rw=write", "--bs=4k", PSYNC,
              "--rate=5m", "--fallocate=none")  # fmt: skip
    stage.begins()
    time.sleep(44)


def cached_reads(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.file("f", 32 * MIB)
    path.read_bytes()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={path}", "--rw=randread", "--bs=64k", "--invalidate=0", PSYNC)
    stage.begins()
    time.sleep(9)


def slow_disk(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=30)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, PSYNC, limit=limit)
    stage.begins()
    time.sleep(11)


def limited_group(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(disk.number)
    limit.set(read_ops=30)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, PSYNC, limit=limit)
    stage.begins()
    time.sleep(11)


def limited_volume(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=700)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8",
              limit=limit)  # fmt: skip
    stage.begins()
    time.sleep(12)


def deep_queue(stage: Stage) -> None:
    disk = stage.disk()
    disk.set_queue("scheduler", "mq-deadline")
    limit = stage.limit(stage.below())
    limit.set(read_ops=2000)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=250",
              limit=limit)  # fmt: skip
    stage.begins()
    time.sleep(11)


def stalls(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=300)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(
        f"--filename={disk.path}",
        "--rw=randread",
        "--bs=4k",
        DIRECT,
        AIO,
        "--iodepth=2",
        limit=limit,
    )
    stage.begins()
    time.sleep(11)


def one_reader(stage: Stage) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=512k", DIRECT, PSYNC)
    stage.begins()
    time.sleep(14)


# Reads of 64 KB at random places, nothing of which stays in the cache: path.
_READ_ANEW = """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY); count = os.fstat(fd).st_size >> 16
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
while True:
    at = random.randrange(count) << 16
    os.pread(fd, 1 << 16, at)
    os.posix_fadvise(fd, at, 1 << 16, os.POSIX_FADV_DONTNEED)
"""


def one_buffered_reader(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.file("f", 192 * MIB)
    limit = stage.limit(stage.below())
    limit.set(read_ops=400)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_READ_ANEW, str(path), limit=limit)
    stage.begins()
    time.sleep(14)


def sync_log(stage: Stage) -> None:
    volume = stage.volume()
    limit = stage.limit(stage.below())
    limit.set(write_ops=100)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=32M", "--rw=write", "--bs=4k", PSYNC,
              "--fsync=1", "--numjobs=2", limit=limit)  # fmt: skip
    stage.begins()
    time.sleep(11)


def full_cache(stage: Stage) -> None:
    volume = stage.volume()
    # Requests of 4 KB, four at a time: the disk is slower than any writer.
    volume.loop.set_queue("max_sectors_kb", "4")
    volume.loop.set_queue("nr_requests", "4")
    stage.dirty_limits(16 * MIB, 64 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=160M", "--rw=write", "--bs=64k", PSYNC)
    stage.begins()
    time.sleep(9)


# Four calls in a row at each of many random places, nothing ever in the cache: path.
_SCATTER = """
import os, random, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY); pages = os.fstat(fd).st_size // 4096
for i in range(10**9):
    at = random.randrange(pages - 8)
    for page in range(at, at + 4): os.pread(fd, 4096, page * 4096)
    if i % 8 == 0: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    time.sleep(0.004)
"""


def random_window(stage: Stage) -> None:
    volume = stage.volume()
    volume.loop.set_queue("read_ahead_kb", "1024")
    path = volume.file("f", 192 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_SCATTER, str(path))
    stage.begins()
    time.sleep(16)


def local_rival(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=1500)
    job = (f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(*job, "--iodepth=8", limit=limit)
    time.sleep(22)
    stage.fio(*job, "--iodepth=32", limit=limit)
    stage.begins()
    time.sleep(10)


def remote_rival(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=3000)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8",
              limit=limit)  # fmt: skip
    time.sleep(22)
    limit.set(read_ops=700)
    stage.begins()
    time.sleep(10)


def faster_tier(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=200)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=64",
              limit=limit)  # fmt: skip
    time.sleep(5)
    stage.begins()
    for step in range(135):
        limit.set(read_ops=200 + 15 * step)
        time.sleep(1)


def zeroing(stage: Stage) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.load("sh", "-c", f"while :; do blkdiscard --zeroout {disk.path} || exit 1; done")
    stage.begins()
    time.sleep(8)


def sparse_direct(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.mount / "f"
    run("truncate", "-s", "2G", path)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={path}", "--rw=randread", "--bs=64k", DIRECT, PSYNC)
    stage.begins()
    time.sleep(9)


def sparse_buffered(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.mount / "f"
    run("truncate", "-s", "8G", path)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={path}", "--rw=read", "--bs=64k", "--rate=150m", PSYNC)
    stage.begins()
    time.sleep(10)


def trim(stage: Stage) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.load("sh", "-c", f"while :; do blkdiscard {disk.path} || exit 1; done")
    stage.begins()
    time.sleep(8)


def surface_scan(stage: Stage) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.load("sh", "-c", f"while :; do badblocks -b 65536 -c 1 {disk.path} || exit 1; done")
    stage.begins()
    time.sleep(8)
