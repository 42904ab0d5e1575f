"""What rules once mistook for something else: rounding, rivals, limits, shared memory, busy CPUs.

Every ``time.sleep`` here is the length of a scenario or of one of its parts.
"""

from __future__ import annotations

import os
import time

from tests.kernel.rig import MIB
from tests.scenarios.anomalies import RANDOM_4K
from tests.scenarios.plays import AIO, LAYERS, PSYNC, Load, on_disk, on_file
from tests.scenarios.stage import Stage

SECONDS = 14

# Copies a file that is in the page cache into shared memory at 150 MB/s.  Argument: path.  Shared
# memory is counted as page cache, too; this is how a database fills its own cache after a restart.
_INTO_SHARED_MEMORY = """
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY); size = os.fstat(fd).st_size
room = mmap.mmap(-1, 4 << 30, mmap.MAP_SHARED); at = 0; start = time.monotonic()
while at < len(room):
    os.preadv(fd, [memoryview(room)[at : at + (1 << 20)]], at % size); at += 1 << 20
    time.sleep(max(0.0, at / 150e6 - (time.monotonic() - start)))
"""


shared_memory = on_file(
    Load(python=_INTO_SHARED_MEMORY, seconds=SECONDS, is_healthy=True), 64 * MIB, is_cached=True
)


def other_writer(stage: Stage) -> None:
    """Another program writes to another disk meanwhile; ioh records only the reader's disk."""
    volume = stage.volume()
    path = volume.file("f", 64 * MIB)
    path.read_bytes()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={path}", "--rw=read", "--bs=64k", "--rate=60m", "--invalidate=0", PSYNC)
    stage.fio(f"--filename={stage.folder}/other", "--size=2G", "--rw=write", "--bs=1M", PSYNC,
              "--rate=100m")  # fmt: skip
    time.sleep(SECONDS)


# Reads the first bytes of each file of a folder, uncached each time.  Arguments: folder, bytes.
_READ_HEADS = """
import os, sys
while True:
    for name in filter(str.isdigit, os.listdir(sys.argv[1])):
        fd = os.open(sys.argv[1] + "/" + name, os.O_RDONLY)
        os.read(fd, int(sys.argv[2]))
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.close(fd)
"""


def _files(stage: Stage, count: int, size: int, head: int) -> None:
    volume = stage.volume()
    for number in range(count):
        (volume.mount / f"{number}").write_bytes(os.urandom(size))
    volume.drop_caches()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_READ_HEADS, str(volume.mount), str(head))


def small_files(stage: Stage) -> None:
    """The kernel fetches whole pages, so 4,096 bytes for each file of 1,500."""
    _files(stage, 4000, 1500, 1500)
    time.sleep(SECONDS)


def file_heads(stage: Stage) -> None:
    _files(stage, 1500, 100_000, 4096)
    stage.begins_for(16)


_DD_AGAIN = (
    "while :; do dd if={{path}} of=/dev/null {} || exit 1; "
    "dd of={{path}} oflag=nocache conv=notrunc,fdatasync count=0; done"
)
# Few reads, each of which takes seconds.
sparse_once = on_file(Load(shell=_DD_AGAIN.format("bs=1G count=2"), seconds=16), holes="8G")
sparse_again = on_file(Load(shell=_DD_AGAIN.format("bs=1M"), seconds=9), holes="1G")


def long_rival(stage: Stage) -> None:
    """A calm reader, and a rival that stays for 45 s."""
    disk = stage.disk()
    limit = stage.limit(stage.below())
    limit.set(read_ops=900)
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", *RANDOM_4K, PSYNC, "--rate_iops=300", limit=limit)
    time.sleep(20)
    stage.fio(f"--filename={disk.path}", *RANDOM_4K, AIO, "--iodepth=64", limit=limit)
    stage.begins_for(45)


one_limited_reader = on_disk(Load(fio=(*RANDOM_4K, PSYNC), group=80, seconds=14))


def starved_reader(stage: Stage) -> None:
    for _ in range(8):
        stage.load("nice", "-n", "-10", "sh", "-c", "while :; do :; done")
    on_disk(Load(fio=(*RANDOM_4K, PSYNC), seconds=14))(stage)


# Direct reads of 1 MB, one after another, into memory whose pages are not contiguous.
# Argument: path.
_SCATTERED = """
import mmap, os, random, sys
pages = mmap.mmap(-1, 2 << 20); pages.madvise(mmap.MADV_NOHUGEPAGE)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT); size = os.lseek(fd, 0, os.SEEK_END)
# Touched in an order by chance among others' pages: neighbours do not lie side by side.
order = list(range(256)); random.shuffle(order); keep = []
for page in order:
    pages[page * 4096] = 1
    other = mmap.mmap(-1, 4096 * 3); other[0] = other[4096] = other[8192] = 1; keep.append(other)
view = memoryview(pages)[: 1 << 20]
while True:
    os.preadv(fd, [view], random.randrange(size >> 20) << 20)
"""


scattered_memory = on_disk(Load(python=_SCATTERED, seconds=10))
