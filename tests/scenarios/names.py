"""Metadata: programs that wait for names, attributes and locks, caused for real.

Every ``time.sleep`` is the length of a scenario, or what its program does: none waits for something
to be ready.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.scenarios.plays import LAYERS, Play
from tests.scenarios.stage import Stage

SECONDS = 11

# Each pass finds nothing in memory.  Argument: the folder to go through.
_ANEW = """
import os, sys
def anew():
    with open("/proc/sys/vm/drop_caches", "w") as drop: drop.write("3")
os.chdir(sys.argv[1]); os.sync()
"""
_LIST = """
while True:
    anew()
    for name in os.listdir("."): os.lstat(name)
"""
_WALK = """
while True:
    anew()
    for at, folders, files in os.walk("."):
        for name in files: os.lstat(at + "/" + name)
"""
_STATUS = """
import time
while True:
    for name in os.listdir("."): os.lstat(name)
    time.sleep(0.05)
"""
# Holds a lock for most of the time.  Arguments: folder, seconds that it holds it and rests.
_HOLD = """
import fcntl, os, sys, time
os.chdir(sys.argv[1]); fd = os.open("lock", os.O_RDWR | os.O_CREAT)
while True:
    fcntl.flock(fd, fcntl.LOCK_EX); time.sleep(float(sys.argv[2]))
    fcntl.flock(fd, fcntl.LOCK_UN); time.sleep(float(sys.argv[3]))
"""


def _files(folder: Path, folders: int, files: int) -> None:
    for number in range(folders):
        (at := folder / f"d{number:04}").mkdir()
        for each in range(files):
            (at / f"f{each:05}").touch()


def _on_a_slow_disk(folders: int, files: int, program: str, at: str, reads_per_s: int) -> Play:
    """A program that goes through files of which nothing is in memory."""

    def play(stage: Stage) -> None:
        volume = stage.volume()
        _files(volume.mount, folders, files)
        limit = stage.limit(stage.below())
        limit.set(read_ops=reads_per_s)
        stage.record("--device", volume.loop.name, *LAYERS)
        stage.python(_ANEW + program, str(volume.mount / at), limit=limit)
        stage.begins()
        time.sleep(SECONDS)

    return play


large_folder = _on_a_slow_disk(1, 20_000, _LIST, "d0000", 400)
many_folders = _on_a_slow_disk(2000, 4, _WALK, "", 60)


def held_lock(stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    for _ in range(2):
        stage.python(_HOLD, str(volume.mount), "0.4", "0.01")
    stage.begins()
    time.sleep(SECONDS)


def cached_names(stage: Stage) -> None:
    """A program that looks at ten thousand files in memory, and one that gets its locks at once."""
    volume = stage.volume()
    _files(volume.mount, 1, 10_000)
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_ANEW + _STATUS, str(volume.mount / "d0000"))
    stage.python(_HOLD, str(volume.mount), "0.001", "0.001")
    time.sleep(SECONDS)
