"""Arrays, rotational disks and a disk with few segments: faults, and healthy look-alikes.

Every ``time.sleep`` here is how long the scenario lasts.
"""

from __future__ import annotations

import time

from tests.scenarios.plays import AIO, DIRECT, PSYNC
from tests.vm.disks import FEW_SEGMENTS, NAMES
from tests.vm.stage import VmStage

SECONDS = 11
# Not libaio: fio, held to a rate, would take completions only at its next turn.
_CALM = (PSYNC, "--numjobs=3", "--rate_iops=15")


def _fio(stage: VmStage, path: str, *options: str) -> None:
    stage.fio(f"--filename={path}", DIRECT, *options)
    stage.begins()
    time.sleep(SECONDS)


def md_resync(stage: VmStage) -> None:
    stage.setting("/proc/sys/dev/raid/speed_limit_max", "3000")
    stage.disks.answer_after(1000)
    stage.record()
    stage.array("--level=1", "--bitmap=none")
    stage.begins()
    time.sleep(SECONDS)


def md_in_sync(stage: VmStage) -> None:
    stage.disks.answer_after(4000)
    path = stage.array("--level=1", "--bitmap=none", "--assume-clean")
    stage.record()
    _fio(stage, path, "--rw=randrw", "--bs=4k", *_CALM)


def md_chunk(stage: VmStage) -> None:
    stage.disks.answer_after(4000)
    path = stage.array("--level=0", "--chunk=64")
    stage.record()
    _fio(stage, path, "--rw=randread", "--bs=1M", PSYNC)


def md_whole_chunks(stage: VmStage) -> None:
    stage.disks.answer_after(4000)
    path = stage.array("--level=0", "--chunk=512")
    stage.record()
    _fio(stage, path, "--rw=randread", "--bs=512k", AIO, "--iodepth=4", "--rate_iops=20",
         "--blockalign=512k")  # fmt: skip


def few_segments(stage: VmStage) -> None:
    stage.record()
    stage.python(_SCATTERED_READS, f"/dev/{FEW_SEGMENTS}")
    stage.begins()
    time.sleep(SECONDS)


# Fresh memory is one piece, and one segment of a request; memory of a program that has run for
# long is scattered, as after touching its pages in any order.  1 MB direct reads into such: path.
_SCATTERED_READS = """
import mmap, os, random, sys
open("/proc/self/comm", "w").write("fio")
buffer = mmap.mmap(-1, 1 << 20)
buffer.madvise(mmap.MADV_NOHUGEPAGE)
pages = list(range(256)); random.shuffle(pages)
for page in pages: buffer[page << 12] = 1
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
while True: os.preadv(fd, [buffer], random.randrange(1000) << 20)
"""


def few_segments_fit(stage: VmStage) -> None:
    stage.record()
    _fio(stage, f"/dev/{FEW_SEGMENTS}", "--rw=randread", "--bs=64k", *_CALM)


def turning_cached(stage: VmStage) -> None:
    stage.disks.answer_after(0)
    stage.record()
    _fio(stage, f"/dev/{NAMES[0]}", "--rw=randread", "--bs=4k", PSYNC)


def turning_disk(stage: VmStage) -> None:
    stage.disks.answer_after(8000)
    stage.record()
    _fio(stage, f"/dev/{NAMES[0]}", "--rw=randread", "--bs=4k", AIO, "--iodepth=4",
         "--rate_iops=80")  # fmt: skip
