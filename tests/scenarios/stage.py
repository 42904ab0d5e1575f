"""What a scenario runs on: a disk of its own, loads, limits, and ioh recording it all."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.kernel.netns import Namespace
from tests.kernel.rig import MIB, Loop, Volume, ioh_command, ioh_environment, run
from tests.scenarios.own import keep_own

DISK_BYTES = 256 * MIB
BEGINS = "begins"
OWN_FIO = "ioh-fio"
_ENDLESS = ("--name=j", "--time_based", "--runtime=3600", "--thread", "--norandommap")
_START_S = 60.0
_FILL_BYTES = 4 * MIB
_Made = TypeVar("_Made", Loop, Volume, "Btrfs", "Limit", "MemoryLimit", "Zram", Namespace)


_GROUPS = Path("/sys/fs/cgroup")
_IS_V2 = (_GROUPS / "cgroup.controllers").exists()


class Group:
    """A control group with one controller, named as in cgroup version 1 and in version 2."""

    def __init__(self, name: str, controller_v1: str, controller: str) -> None:
        base = _GROUPS if _IS_V2 else _GROUPS / controller_v1
        if _IS_V2:
            (base / "cgroup.subtree_control").write_text(f"+{controller}")
        self.folder = base / f"ioh-{os.getpid()}-{name}"
        self.folder.mkdir()

    def close(self) -> None:
        """Remove it, once its processes have ended."""
        for _ in range(50):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)
        self.folder.rmdir()


class Limit(Group):
    """A control group that limits the I/O of its processes to one device."""

    def __init__(self, number: str) -> None:
        super().__init__(number.replace(":", "-"), "blkio", "io")
        self._number = number

    def set(self, *, read_ops: int = 0, write_ops: int = 0) -> None:
        """Limit operations a second; 0 for no limit."""
        if _IS_V2:
            words = f"riops={read_ops or 'max'} wiops={write_ops or 'max'}"
            (self.folder / "io.max").write_text(f"{self._number} {words}")
            return
        for op, value in (("read", read_ops), ("write", write_ops)):
            file = self.folder / f"blkio.throttle.{op}_iops_device"
            file.write_text(f"{self._number} {value}")

    def close(self) -> None:
        self.set()
        super().close()


class MemoryLimit(Group):
    """A control group with a limit of memory."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__("memory", "memory", "memory")
        name = "memory.max" if _IS_V2 else "memory.limit_in_bytes"
        (self.folder / name).write_text(str(most_bytes))


def fill(path: Path, size: int) -> None:
    """Fill a file with incompressible data; nothing of it stays in memory."""
    path.touch()
    with path.open("r+b") as stream:
        for _ in range(size // _FILL_BYTES):
            stream.write(os.urandom(_FILL_BYTES))
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Btrfs:
    """btrfs on a loop device, mounted with the given options."""

    def __init__(self, folder: Path, options: str) -> None:
        self.loop = Loop(folder, 4 * DISK_BYTES)
        self.mount = folder / "mnt"
        self.mount.mkdir()
        try:
            run("mkfs.btrfs", "-q", "-f", self.loop.path)
            run("mount", "-o", options, self.loop.path, self.mount)
        except BaseException:
            self.loop.close()
            raise
        uuid = run("findmnt", "-n", "-o", "UUID", self.mount).strip()
        self.sysfs = Path("/sys/fs/btrfs") / uuid

    def close(self) -> None:
        # Fails if no scrub is running any more.
        subprocess.run(["btrfs", "scrub", "cancel", self.mount], check=False, capture_output=True)
        run("umount", self.mount)
        self.loop.close()


class Zram:
    """A disk of compressed memory; its I/O makes no requests."""

    _control = Path("/sys/class/zram-control")

    def __init__(self, size: int) -> None:
        self._number = (self._control / "hot_add").read_text().strip()
        self.name = f"zram{self._number}"
        self.path = f"/dev/{self.name}"
        (Path("/sys/block") / self.name / "disksize").write_text(str(size))

    def close(self) -> None:
        (Path("/sys/block") / self.name / "reset").write_text("1")
        (self._control / "hot_remove").write_text(self._number)


class Stage:
    """What a scenario may use; all of it is released in the end.

    Args:
        folder: For disk images; on a file system with O_DIRECT.
        output: The recording to make.
    """

    def __init__(self, folder: Path, output: Path) -> None:
        self.folder = folder
        self._output = output
        self._stack = contextlib.ExitStack()
        self._loads: list[subprocess.Popen[bytes]] = []
        self._recorder: subprocess.Popen[bytes] | None = None
        self._prefix: tuple[str, ...] = ()
        self._own_devices: tuple[str, ...] = ()

    def __enter__(self) -> Stage:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.end_recording()
        self.end_loads()
        self._stack.close()

    def _given_back(self, made: _Made) -> _Made:
        """Close this in the end; returns it."""
        self._stack.callback(made.close)
        return made

    def disk(self) -> Loop:
        """A bare loop device, full of incompressible data."""
        loop = self._given_back(Loop(self.folder, DISK_BYTES))
        fill(loop.image, DISK_BYTES)
        return loop

    def volume(self, size: int = DISK_BYTES) -> Volume:
        """ext4 on a loop device."""
        return self._given_back(Volume(self.folder, size))

    def btrfs(self, options: str = "defaults") -> Btrfs:
        """btrfs on a loop device."""
        return self._given_back(Btrfs(self.folder, options))

    def limit(self, number: str) -> Limit:
        """A control group whose I/O to the device of that number can be limited."""
        return self._given_back(Limit(number))

    def memory_limit(self, most_bytes: int) -> MemoryLimit:
        """A control group whose memory is limited."""
        return self._given_back(MemoryLimit(most_bytes))

    def zram(self) -> Zram:
        """A disk in memory that the kernel compresses."""
        run("sh", "-c", "[ -e /sys/class/zram-control ] || modprobe zram")
        return self._given_back(Zram(2 * DISK_BYTES))

    def swap_on(self, disk: Loop | Zram) -> None:
        """Let memory be swapped to a disk, until the end."""
        run("mkswap", disk.path)
        run("swapon", "--priority", "100", disk.path)
        self._stack.callback(run, "swapoff", disk.path)

    def below(self) -> str:
        """Number of the disk that holds the images: a limit on it slows down the loop device."""
        dev = self.folder.stat().st_dev
        number = f"{os.major(dev)}:{os.minor(dev)}"
        folder = Path(f"/sys/dev/block/{number}").resolve()
        whole = folder.parent if (folder / "partition").exists() else folder
        return (whole / "dev").read_text().strip()

    def dirty_limits(self, background: int, most: int) -> None:
        """Limit how many bytes may wait for write-back, until the end.

        The kernel keeps each limit as bytes or as a ratio: the one not in force reads 0, and 0
        cannot be written.
        """
        for name, value in (("dirty_background", background), ("dirty", most)):
            files = [Path(f"/proc/sys/vm/{name}_{unit}") for unit in ("bytes", "ratio")]
            in_force = next(file for file in files if file.read_text() != "0\n")
            self._stack.callback(in_force.write_text, in_force.read_text())
            files[0].write_text(str(value))

    def namespace(self, name: str) -> Namespace:
        """A network namespace with loopback up."""
        return self._given_back(Namespace(name))

    def at_end(self, undo: Callable[..., object], *words: object) -> None:
        """Call ``undo`` once the loads have ended, before what was made earlier is released."""
        self._stack.callback(undo, *words)

    def load(
        self, *command: str, limit: Limit | MemoryLimit | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program; it is killed after the recording has ended."""
        words = list(command)
        if limit is not None:
            enter = f'echo $$ > {limit.folder}/cgroup.procs; exec "$@"'
            words = ["sh", "-c", enter, "sh", *words]
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        self._loads.append(process)
        return process

    def fio(self, *options: str, limit: Limit | None = None) -> None:
        """Start fio, which runs until the end."""
        self.load("fio", *_ENDLESS, *options, limit=limit)

    def python(self, program: str, *words: str, limit: Limit | MemoryLimit | None = None) -> None:
        """Start a Python program, which runs until the end."""
        self.load(sys.executable, "-c", program, *words, limit=limit)

    def own_fio(self, *options: str) -> None:
        """Start fio as OWN_FIO, so that ``--comm OWN_FIO`` does not record another fio's files."""
        program = self.folder / OWN_FIO
        shutil.copy(shutil.which("fio") or "/usr/bin/fio", program)
        self.load(str(program), *_ENDLESS, *options)

    def end_loads(self) -> None:
        """End all loads; one that failed by itself is an error."""
        for process in self._loads:
            failed = process.poll()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()
            assert failed in {None, 0}, f"{process.args!r}: {errors[-2000:]!r}"
        self._loads.clear()

    def record(self, *options: str, prefix: tuple[str, ...] = ()) -> None:
        """Start recording; returns once samples arrive."""
        self._output.unlink(missing_ok=True)
        self._prefix = prefix  # ioh mark finds a recording of its own network namespace only
        words = [*prefix, *ioh_command("record", "-o", str(self._output), *options)]
        self._recorder = subprocess.Popen(words, env=ioh_environment(), stderr=subprocess.PIPE)
        deadline = time.monotonic() + _START_S
        while not self._output.exists() or self._output.stat().st_size < 1500:
            assert self._recorder.poll() is None, self._recorder.communicate()
            assert time.monotonic() < deadline, "ioh does not record"
            time.sleep(0.1)
        time.sleep(1.5)

    def record_all_disks(self, loop: Loop, *options: str) -> None:
        """Record the whole machine; keep the names of only this device, the disk below, and fio."""
        disk = Path(f"/sys/dev/block/{self.below()}").resolve().name
        self._own_devices = (loop.name, disk)
        self.record("--comm", OWN_FIO, *options)

    def begins(self) -> None:
        """Mark the moment from which the anomaly can be seen."""
        run(*self._prefix, *ioh_command("mark", BEGINS, "--file", str(self._output)))

    def begins_for(self, seconds: float) -> None:
        """Mark that moment, and wait as long as the anomaly lasts."""
        self.begins()
        time.sleep(seconds)

    def end_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.send_signal(signal.SIGTERM)
            self._recorder.communicate(timeout=30)
            self._recorder = None
            if self._own_devices:
                keep_own(self._output, self._own_devices, (OWN_FIO, "fio"))


@contextlib.contextmanager
def stage(folder: Path, output: Path) -> Iterator[Stage]:
    """A stage in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with Stage(folder, output) as made:
        yield made
