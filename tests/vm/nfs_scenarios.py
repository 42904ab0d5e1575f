"""NFS servers and clients at their limits, and look-alikes.

Every ``time.sleep`` here is how long the scenario lasts.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.scenarios.plays import AIO, DIRECT, PSYNC
from tests.vm.stage import FILE, FILE_BYTES, SERVED, VmStage

SECONDS = 12
_RANDOM = ("--rw=randread", "--bs=8k", DIRECT, AIO)
_SMALL = ("--rw=randread", "--bs=4k", DIRECT, AIO)


def _mount(stage: VmStage, version: str, *options: str, disk_us: int) -> Path:
    """Mount the slow export; each request of the server's disk takes ``disk_us``."""
    stage.disks.answer_after(disk_us)
    return stage.mount(version, *options)


def _fio(stage: VmStage, mount: Path, *options: str, seconds: float = SECONDS) -> None:
    stage.fio(f"--directory={mount}", f"--filename={FILE}", f"--size={FILE_BYTES}", *options)
    stage.begins()
    time.sleep(seconds)


def _loaded(
    stage: VmStage, version: str, disk_us: int, *fio: str, mount: tuple[str, ...] = ()
) -> None:
    """Record fio on such a mount."""
    place = _mount(stage, version, *mount, disk_us=disk_us)
    stage.record()
    _fio(stage, place, *fio)


def two_threads(stage: VmStage) -> None:
    stage.setting("/proc/fs/nfsd/threads", "2")
    _loaded(stage, "4.2", 12000, *_RANDOM, "--iodepth=8")


def enough_threads(stage: VmStage) -> None:
    _loaded(stage, "4.2", 12000, *_RANDOM, "--iodepth=4", "--rate_iops=60")


def server_disk(stage: VmStage) -> None:
    _loaded(stage, "4.2", 12000, *_SMALL, "--iodepth=2", "--rate_iops=70")


def few_session_slots(stage: VmStage) -> None:
    stage.setting("/sys/module/nfs/parameters/max_session_slots", "2")
    _loaded(stage, "4.1", 8000, *_RANDOM, "--iodepth=8")


def few_rpc_slots(stage: VmStage) -> None:
    for name in ("tcp_slot_table_entries", "tcp_max_slot_table_entries"):
        stage.setting(f"/proc/sys/sunrpc/{name}", "2")
    _loaded(stage, "3", 8000, *_RANDOM, "--iodepth=8")


def enough_slots(stage: VmStage) -> None:
    _loaded(stage, "3", 8000, *_RANDOM, "--iodepth=4", "--rate_iops=60")


def small_wsize(stage: VmStage) -> None:
    options = ("--rw=write", "--bs=1m", DIRECT, PSYNC)
    _loaded(stage, "4.2", 500, *options, mount=("wsize=32768",))


def whole_writes(stage: VmStage) -> None:
    options = ("--rw=randwrite", "--bs=64k", DIRECT, AIO, "--iodepth=2", "--rate_iops=20")
    _loaded(stage, "4.2", 500, *options, mount=("wsize=1048576",))


def server_memory(stage: VmStage) -> None:
    mount = _mount(stage, "4.2", disk_us=12000)
    stage.read(SERVED / FILE)
    stage.record()
    _fio(stage, mount, *_SMALL, "--iodepth=4")


def silent_server(stage: VmStage) -> None:
    """Reads are under way when the network goes."""
    mount = _mount(stage, "4.2", disk_us=2000)
    _fio(stage, mount, *_RANDOM, "--iodepth=4", "--rate_iops=40", seconds=0)
    stage.record()
    time.sleep(4)
    with stage.server.netem("srv1", "loss", "100%"):
        stage.begins()
        time.sleep(14)


def silent_for_stat(stage: VmStage) -> None:
    """A program asks for a file's attributes only, once a second."""
    mount = _mount(stage, "3", "noac", "lookupcache=none", disk_us=2000)
    stage.record()
    stage.python(_LOOK, str(mount / FILE))
    time.sleep(4)
    with stage.server.netem("srv1", "loss", "100%"):
        stage.begins()
        time.sleep(14)


# Asks for a file's attributes once a second: path.
_LOOK = """
import os, sys, time
while True: os.stat(sys.argv[1]); time.sleep(1)
"""


def slow_answers(stage: VmStage) -> None:
    """Each takes 2.5 s, and a little more."""
    mount = _mount(stage, "3", disk_us=2000)
    stage.record()
    with stage.server.netem("srv1", "delay", "2500ms"):
        _fio(stage, mount, "--rw=randread", "--bs=4k", DIRECT, PSYNC, seconds=16)


def idle_mount(stage: VmStage) -> None:
    _mount(stage, "3", disk_us=2000)
    stage.record()
    stage.begins()
    time.sleep(SECONDS)


def killed_programs(stage: VmStage) -> None:
    """They wait for a server that is gone and are killed; then it is back, and nobody uses it."""
    mount = _mount(stage, "3", "noac", "lookupcache=none", disk_us=2000)
    stage.fio(f"--directory={mount}", f"--filename={FILE}", f"--size={FILE_BYTES}",
              "--rw=randread", "--bs=4k", DIRECT, PSYNC)  # fmt: skip
    stage.python(_LOOK, str(mount / FILE))
    stage.begins()
    with stage.server.netem("srv1", "loss", "100%"):
        time.sleep(4)
        stage.end_loads()
    # TCP retransmits what was lost: its timeout, which doubles each time, is 4 s at most by now.
    time.sleep(8)
    stage.record()
    stage.begins()
    time.sleep(SECONDS)


def lost_calls(stage: VmStage) -> None:
    mount = _mount(stage, "3", "timeo=5", disk_us=2000)
    stage.record()
    _fio(stage, mount, *_RANDOM, "--iodepth=4", "--rate_iops=40", seconds=0)
    for _ in range(6):
        with stage.server.netem("srv1", "loss", "100%"):
            time.sleep(0.9)
        time.sleep(1.6)


# Only system calls of programs called fio are recorded.  Argument: the folder to work in.
_AS_FIO = """
import os, sys
with open("/proc/self/comm", "w") as comm: comm.write("fio")
os.chdir(sys.argv[1])
"""
_LOOK_AGAIN = """
while True:
    for number in range(60): os.stat(f"f{number}")
"""
_READ_EACH = """
while True:
    for number in range(60):
        with open(f"f{number}", "rb", buffering=0) as file: file.read(4096)
"""


def _small_files(stage: VmStage, program: str, *mount: str) -> None:
    """A program's work on sixty files of 2 KB."""
    place = _mount(stage, "4.2", *mount, disk_us=500)
    (folder := place / "small").mkdir(exist_ok=True)
    for number in range(60):
        (folder / f"f{number}").write_bytes(b"x" * 2048)
    stage.record()
    stage.python(_AS_FIO + program, str(folder))
    stage.begins()
    time.sleep(SECONDS)


def no_attributes(stage: VmStage) -> None:
    _small_files(stage, _LOOK_AGAIN, "noac")


def kept_attributes(stage: VmStage) -> None:
    _small_files(stage, _LOOK_AGAIN)


def small_files(stage: VmStage) -> None:
    _small_files(stage, _READ_EACH)
