"""The course of most scenarios: a disk or volume, perhaps a limit, ioh recording it, one load.

Every ``time.sleep`` is the length of a scenario: none waits for something to be ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.kernel.rig import MIB, Loop, run
from tests.scenarios.stage import Limit, Stage

LAYERS = ("--layers", "syscall,block")
PSYNC = "--ioengine=psync"
DIRECT = "--direct=1"
AIO = "--ioengine=libaio"
FILE_BYTES = 192 * MIB

Play = Callable[[Stage], None]


@dataclass(frozen=True, kw_only=True)
class Load:
    """One load, and the conditions it meets.

    Shape:
        The load is fio with the options ``fio``, or the Python program ``python`` with the path
        and ``words`` as arguments, or the command ``shell`` with the path filled in.  ``queue``
        are settings of the device's queue; ``below`` and ``group`` are limits, in reads a second,
        of the disk below or of a control group.
    """

    fio: tuple[str, ...] = ()
    python: str = ""
    words: tuple[str, ...] = ()
    shell: str = ""
    seconds: float
    is_healthy: bool = False
    queue: Mapping[str, str] = field(default_factory=dict)
    below: int = 0
    group: int = 0

    def play(self, stage: Stage, device: Loop, path: str, folder: str = "") -> None:
        """Start recording, then the load; mark the start of a load that is not healthy."""
        limit = self.prepared(stage, device)
        stage.record("--device", device.name, *LAYERS)
        self.start(stage, path, folder, limit)
        if not self.is_healthy:
            stage.begins()
        time.sleep(self.seconds)

    def prepared(self, stage: Stage, device: Loop) -> Limit | None:
        for name, value in self.queue.items():
            device.set_queue(name, value)
        if not self.below + self.group:
            return None
        limit = stage.limit(stage.below() if self.below else device.number)
        limit.set(read_ops=self.below or self.group)
        return limit

    def start(self, stage: Stage, path: str, folder: str, limit: Limit | None) -> None:
        if self.python:
            stage.python(self.python, path, *self.words, limit=limit)
        elif self.shell:
            stage.load("sh", "-c", self.shell.format(path=path))
        else:
            where = f"--directory={folder}" if folder else f"--filename={path}"
            stage.fio(where, *self.fio, limit=limit)


def on_disk(load: Load) -> Play:
    """Play a load on a bare disk."""

    def play(stage: Stage) -> None:
        disk = stage.disk()
        load.play(stage, disk, disk.path)

    return play


def on_file(
    load: Load, size: int = FILE_BYTES, *, is_cached: bool = False, holes: str = ""
) -> Play:
    """Play a load on a file: uncached, cached, or one hole of the size ``holes``."""

    def play(stage: Stage) -> None:
        volume = stage.volume()
        if holes:
            path = volume.mount / "f"
            run("truncate", "-s", holes, path)
        else:
            path = volume.file("f", size)
        if is_cached:
            path.read_bytes()
        load.play(stage, volume.loop, str(path))

    return play


def on_folder(load: Load) -> Play:
    """Play fio on files of its own."""

    def play(stage: Stage) -> None:
        volume = stage.volume()
        load.play(stage, volume.loop, "", str(volume.mount))

    return play
