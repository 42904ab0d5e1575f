"""Problems on one machine, caused for real.

Every ``time.sleep`` here is the length of a scenario or of one of its parts: none waits for
something to be ready.
"""

from __future__ import annotations

import time

from tests.kernel.rig import MIB
from tests.scenarios.plays import (
    AIO,
    DIRECT,
    LAYERS,
    PSYNC,
    Load,
    on_disk,
    on_file,
    on_folder,
)
from tests.scenarios.stage import Stage

RANDOM_4K = ("--rw=randread", "--bs=4k", DIRECT)

split_reads = on_disk(
    Load(fio=("--rw=randread", "--bs=1M", DIRECT, PSYNC), queue={"max_sectors_kb": "64"}, seconds=8)
)
split_writes = on_disk(
    Load(
        fio=("--rw=randwrite", "--bs=1M", DIRECT, PSYNC), queue={"max_sectors_kb": "64"}, seconds=8
    )
)
slow_disk = on_disk(Load(fio=(*RANDOM_4K, PSYNC), below=30, seconds=11))
limited_group = on_disk(Load(fio=(*RANDOM_4K, PSYNC), group=30, seconds=11))
limited_volume = on_disk(Load(fio=(*RANDOM_4K, AIO, "--iodepth=8"), below=700, seconds=12))
deep_queue = on_disk(
    Load(
        fio=(*RANDOM_4K, AIO, "--iodepth=250"),
        queue={"scheduler": "mq-deadline"},
        below=2000,
        seconds=11,
    )
)
stalls = on_disk(Load(fio=(*RANDOM_4K, AIO, "--iodepth=2"), below=300, seconds=11))
one_reader = on_disk(Load(fio=("--rw=randread", "--bs=512k", DIRECT, PSYNC), seconds=14))
zeroing = on_disk(Load(shell="while :; do blkdiscard --zeroout {path} || exit 1; done", seconds=8))
trim = on_disk(Load(shell="while :; do blkdiscard {path} || exit 1; done", seconds=8))
surface_scan = on_disk(
    Load(shell="while :; do badblocks -b 65536 -c 1 {path} || exit 1; done", seconds=8)
)

# Reads a file in order, again and again, from the disk each time.  Arguments: path, bytes of a
# read, MB/s.
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
# The kernel fetches a read larger than the read-ahead window in requests of max_sectors_kb, so both
# must be lowered.
small_window = on_file(
    Load(
        python=_READ_AGAIN,
        words=(str(MIB), "40"),
        queue={"read_ahead_kb": "64", "max_sectors_kb": "64"},
        seconds=8,
    )
)
joined_reads = on_file(Load(python=_READ_AGAIN, words=("4096", "20"), seconds=15))
_SHIFTED = ("--rw=randwrite", "--bs=4k", PSYNC, "--offset=512", "--size=190M")
misaligned_writes = on_file(Load(fio=(*_SHIFTED, "--rate_iops=600"), seconds=9))
cached_reads = on_file(
    Load(fio=("--rw=randread", "--bs=64k", "--invalidate=0", PSYNC), seconds=9),
    32 * MIB,
    is_cached=True,
)

# Reads of 64 KB at random offsets, none of which stays in the cache.  Argument: path.
_READ_ANEW = """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY); count = os.fstat(fd).st_size >> 16
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
while True:
    at = random.randrange(count) << 16
    os.pread(fd, 1 << 16, at)
    os.posix_fadvise(fd, at, 1 << 16, os.POSIX_FADV_DONTNEED)
"""
one_buffered_reader = on_file(Load(python=_READ_ANEW, below=400, seconds=14))

# Four reads of 4 KB in a row at each of many random offsets; the cache is dropped at every eighth
# offset.  Argument: path.
_SCATTER = """
import os, random, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY); pages = os.fstat(fd).st_size // 4096
for i in range(10**9):
    at = random.randrange(pages - 8)
    for page in range(at, at + 4): os.pread(fd, 4096, page * 4096)
    if i % 8 == 0: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    time.sleep(0.004)
"""
random_window = on_file(Load(python=_SCATTER, queue={"read_ahead_kb": "1024"}, seconds=16))

sparse_direct = on_file(
    Load(fio=("--rw=randread", "--bs=64k", DIRECT, PSYNC), seconds=9), holes="2G"
)
sparse_buffered = on_file(
    Load(fio=("--rw=read", "--bs=64k", "--rate=150m", PSYNC), seconds=10), holes="8G"
)

_WRITE_4K = ("--rw=write", "--bs=4k", PSYNC, "--fallocate=none")
late_write_back = on_folder(Load(fio=(*_WRITE_4K, "--size=230M", "--rate=5m"), seconds=44))


def joined_writes(stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", *_WRITE_4K, "--size=128M", "--rate=12m")
    stage.python("import os,sys,time\nwhile True: time.sleep(2); os.sync()")
    stage.begins_for(42)


def sync_log(stage: Stage) -> None:
    volume = stage.volume()
    limit = stage.limit(stage.below())
    limit.set(write_ops=100)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=32M", "--rw=write", "--bs=4k", PSYNC,
              "--fsync=1", "--numjobs=2", limit=limit)  # fmt: skip
    stage.begins_for(11)


def full_cache(stage: Stage) -> None:
    # Requests of 4 KB, four at a time: the disk is slower than any writer.
    queue = {"max_sectors_kb": "4", "nr_requests": "4"}
    stage.dirty_limits(16 * MIB, 64 * MIB)
    write = ("--size=160M", "--rw=write", "--bs=64k", PSYNC)
    on_folder(Load(fio=write, queue=queue, seconds=9))(stage)


def local_rival(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=1500)
    job = (f"--filename={disk.path}", *RANDOM_4K, AIO)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(*job, "--iodepth=8", limit=limit)
    time.sleep(22)
    stage.fio(*job, "--iodepth=32", limit=limit)
    stage.begins_for(10)


def remote_rival(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=3000)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", *RANDOM_4K, AIO, "--iodepth=8", limit=limit)
    time.sleep(22)
    limit.set(read_ops=700)
    stage.begins_for(10)


def faster_tier(stage: Stage) -> None:
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=200)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", *RANDOM_4K, AIO, "--iodepth=64", limit=limit)
    time.sleep(5)
    stage.begins()
    for step in range(135):
        limit.set(read_ops=200 + 15 * step)
        time.sleep(1)
