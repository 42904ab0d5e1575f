"""What looks like a problem but is none: no rule may warn.

Every ``time.sleep`` here is the length of a scenario or of one of its parts.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

from tests.kernel.aio import PREAD, Aio
from tests.kernel.rig import MIB, opened, run
from tests.scenarios.anomalies import RANDOM_4K
from tests.scenarios.plays import AIO, DIRECT, LAYERS, PSYNC, Load, on_disk, on_file, on_folder
from tests.scenarios.stage import Stage

SECONDS = 14


def _calm(*fio: str, seconds: float = SECONDS) -> Load:
    return Load(fio=fio, seconds=seconds, is_healthy=True)


large_requests = on_disk(
    _calm("--rw=randread", "--bs=512k", DIRECT, AIO, "--iodepth=4", "--rate=100m")
)
small_reads = on_disk(_calm(*RANDOM_4K, AIO, "--iodepth=8", "--rate_iops=3000"))
busy_disk = on_disk(_calm(*RANDOM_4K, AIO, "--iodepth=8"))
steady = on_disk(_calm(*RANDOM_4K, AIO, "--iodepth=8", "--rate_iops=500", seconds=150))
_MIX = ("--rw=randrw", "--rwmixread=70", "--bs=4k", DIRECT, AIO, "--iodepth=8")
mixed = on_disk(_calm(*_MIX, "--rate_iops=1400,600", seconds=30))
page_random = on_file(_calm("--rw=randread", "--bs=4k", PSYNC, "--rate_iops=300"))
aligned_writes = on_file(_calm("--rw=randwrite", "--bs=4k", PSYNC, "--rate_iops=600"))
_OVER = ("--rw=randwrite", "--bs=4k", DIRECT, AIO, "--iodepth=4", "--rate_iops=2500")
overwriter = on_file(_calm(*_OVER), 128 * MIB)
_WRITE = ("--size=96M", "--rw=write", "--bs=1M", PSYNC)
calm_writer = on_folder(_calm(*_WRITE, "--rate=10m"))
group_commit = on_folder(_calm(*_WRITE, "--fsync=1", "--rate=60m"))
few_trims = on_disk(
    Load(
        shell="while sleep 0.2; do blkdiscard -l 1M {path} || exit 1; done",
        seconds=SECONDS,
        is_healthy=True,
    )
)


def late_reaper(stage: Stage) -> None:
    """A program that does other work before it asks for the completions of its reads."""
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    end_s = time.monotonic() + SECONDS
    with opened(Path(disk.path), os.O_RDONLY | os.O_DIRECT) as fd, closing(Aio(8)) as context:
        reads = [context.prepare(fd, PREAD, offset=at * MIB) for at in range(8)]
        while time.monotonic() < end_s:
            assert context.submit(reads) == len(reads)
            time.sleep(0.02)
            assert context.reap(len(reads), len(reads)) == [4096] * len(reads)


def two_from_the_start(stage: Stage) -> None:
    disk = stage.disk()
    job = (f"--filename={disk.path}", *RANDOM_4K, AIO, "--iodepth=8")
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(*job, "--rate_iops=1500")
    stage.fio(*job, "--rate_iops=1500")
    time.sleep(30)


def copies(stage: Stage) -> None:
    """What is written to a loop device is in memory twice: as files, and as its image."""
    volume = stage.volume(1024 * MIB)
    run("losetup", "--direct-io=off", volume.loop.path)
    volume.file("f", 40 * MIB).read_bytes()
    stage.record("--device", volume.loop.name, *LAYERS)
    copy = "dd if=f of=$i bs=1M && sync $i && sleep 0.7"
    stage.load("sh", "-c", f"cd {volume.mount} && for i in $(seq 100); do {copy} || exit 1; done")
    time.sleep(SECONDS)


def idle(stage: Stage) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    time.sleep(SECONDS)
