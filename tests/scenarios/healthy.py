"""What looks like trouble and is none: every rule must stay silent.

Every ``time.sleep`` here is how long the scenario lasts.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

from tests.kernel.aio import PREAD, Aio
from tests.kernel.rig import MIB, opened, run
from tests.scenarios.anomalies import AIO, DIRECT, LAYERS, PSYNC
from tests.scenarios.stage import Stage

SECONDS = 14


def _on_disk(stage: Stage, *options: str, seconds: float = SECONDS) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(f"--filename={disk.path}", *options)
    time.sleep(seconds)


def large_requests(stage: Stage) -> None:
    _on_disk(stage, "--rw=randread", "--bs=1M", DIRECT, AIO, "--iodepth=4", "--rate=100m")


def small_reads(stage: Stage) -> None:
    _on_disk(stage, "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8", "--rate_iops=3000")


def busy_disk(stage: Stage) -> None:
    _on_disk(stage, "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8")


def late_reaper(stage: Stage) -> None:
    """A program that has other things to do before it asks what has become of its reads."""
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    end_s = time.monotonic() + SECONDS
    with opened(Path(disk.path), os.O_RDONLY | os.O_DIRECT) as fd, closing(Aio(8)) as context:
        reads = [context.prepare(fd, PREAD, offset=at * MIB) for at in range(8)]
        while time.monotonic() < end_s:
            assert context.submit(reads) == len(reads)
            time.sleep(0.02)
            assert context.reap(len(reads), len(reads)) == [4096] * len(reads)


def mixed(stage: Stage) -> None:
    mix = ("--rw=randrw", "--rwmixread=70", "--bs=4k", DIRECT, AIO, "--iodepth=8")
    _on_disk(stage, *mix, "--rate_iops=1400,600", seconds=30)


def page_random(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.file("f", 192 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={path}", "--rw=randread", "--bs=4k", PSYNC, "--rate_iops=300")
    time.sleep(SECONDS)


def calm_writer(stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=96M", "--rw=write", "--bs=1M", PSYNC,
              "--rate=10m")  # fmt: skip
    time.sleep(SECONDS)


def group_commit(stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--directory={volume.mount}", "--size=96M", "--rw=write", "--bs=1M", PSYNC,
              "--fsync=1", "--rate=60m")  # fmt: skip
    time.sleep(SECONDS)


def overwriter(stage: Stage) -> None:
    volume = stage.volume()
    path = volume.file("f", 128 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.fio(f"--filename={path}", "--rw=randwrite", "--bs=4k", DIRECT, AIO, "--iodepth=4",
              "--rate_iops=2500")  # fmt: skip
    time.sleep(SECONDS)


def two_from_the_start(stage: Stage) -> None:
    disk = stage.disk()
    job = (f"--filename={disk.path}", "--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8")
    stage.record("--device", disk.name, *LAYERS)
    stage.fio(*job, "--rate_iops=1500")
    stage.fio(*job, "--rate_iops=1500")
    time.sleep(30)


def steady(stage: Stage) -> None:
    options = ("--rw=randread", "--bs=4k", DIRECT, AIO, "--iodepth=8", "--rate_iops=500")
    _on_disk(stage, *options, seconds=150)


def few_trims(stage: Stage) -> None:
    disk = stage.disk()
    stage.record("--device", disk.name, *LAYERS)
    stage.load("sh", "-c", f"while sleep 0.2; do blkdiscard -l 1M {disk.path} || exit 1; done")
    time.sleep(SECONDS)


def copies(stage: Stage) -> None:
    """What is written of a loop device is in memory twice: as its files, and as its image."""
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
