"""The workloads: fio reads from the page cache and from devices, as fast as it can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.report import say

CACHED_MB = 64
DEVICE_MB = 192
CPUS = sorted(os.sched_getaffinity(0))
LOAD_CPU, WATCH_CPU = CPUS[0], CPUS[-1]
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Job:
    """One fio job; ``layer`` is where ioh counts its reads, as op ``op``."""

    name: str
    arguments: tuple[str, ...]
    layer: str
    op: str

    def command(self, seconds: float) -> list[str]:
        common = "--rw=randread --bs=4k --readonly --time_based --norandommap --randrepeat=1"
        return [
            *("fio", "--name=bench", "--output-format=json", f"--runtime={seconds:g}s"),
            *common.split(),
            *self.arguments,
        ]


@dataclass(frozen=True)
class Done:
    """The result of one run of a job."""

    ops: int
    seconds: float
    cpu_ns: float

    @property
    def rate(self) -> float:
        return self.ops / self.seconds

    @property
    def cpu_ns_per_op(self) -> float:
        """User and system time of the job, without interrupts and kernel threads."""
        return self.cpu_ns / self.ops


def run(job: Job, seconds: float) -> Done:
    """Run a job on LOAD_CPU."""
    command = [*job.command(seconds), f"--cpus_allowed={LOAD_CPU}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"fio failed: {done.stderr.strip() or done.stdout.strip()}"
        raise RuntimeError(msg)
    found = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    cpu_share = (found["usr_cpu"] + found["sys_cpu"]) / 100
    read = found["read"]
    return Done(read["total_ios"], read["runtime"] / 1e3, cpu_share * found["job_runtime"] * 1e6)


@contextmanager
def in_background(jobs: list[Job], seconds: float) -> Iterator[None]:
    """Run jobs wherever the scheduler puts them, ``seconds`` at most."""
    quiet = subprocess.DEVNULL
    running = [subprocess.Popen(j.command(seconds), stdout=quiet, stderr=quiet) for j in jobs]
    try:
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


class Targets:
    """Files and devices to read from; a context manager that removes them again.

    They are a file in the page cache; and, for direct reads, a file on the disk, a loop device over
    it, and a loop device over memory, which is read with io_uring, too.
    """

    def __init__(self, where: Path) -> None:
        self._where = where
        self._stack = ExitStack()

    def __enter__(self) -> Targets:  # noqa: PYI034 (Self came with Python 3.11)
        with self._stack:
            self.dir = self._directory(self._where)
            cached, direct = self.dir / "cached", self.dir / "direct"
            _fill(cached, CACHED_MB)
            cached.read_bytes()
            _fill(direct, DEVICE_MB)
            self.cached = Job(
                "cached psync",
                (f"--filename={cached}", "--ioengine=psync", "--invalidate=0"),
                "syscall",
                "read_buffered",
            )
            self.devices = [_direct("file on disk", direct)]
            self._add_loop("loop, direct-io", direct, "--direct-io=on")
            if _MEMORY.is_dir():
                memory = self._directory(_MEMORY) / "memory"
                _fill(memory, DEVICE_MB)
                self._add_loop("loop in memory", memory)
            last = self.devices[-1]
            by_uring = tuple(a.replace("libaio", "io_uring") for a in last.arguments)
            self.uring = replace(last, name=f"{last.name}, io_uring", arguments=by_uring)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fastest_disk(self) -> Job:
        """Of the targets that are not in memory, the one that reads fastest now."""
        return max(self.devices[:2], key=lambda job: run(job, 1.0).rate)

    def _directory(self, where: Path) -> Path:
        made = Path(tempfile.mkdtemp(prefix="ioh-bench-", dir=where))
        self._stack.callback(shutil.rmtree, made)
        return made

    def _add_loop(self, name: str, file: Path, *options: str) -> None:
        command = ["losetup", "--find", "--show", *options, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            say(f"no {name}: {done.stderr.strip()}")
            return
        device = Path(done.stdout.strip())
        self._stack.callback(subprocess.run, ["losetup", "--detach", str(device)], check=False)
        self.devices.append(_direct(name, device))


def _direct(name: str, path: Path) -> Job:
    arguments = (f"--filename={path}", "--ioengine=libaio", "--iodepth=32", "--direct=1")
    return Job(name, arguments, "block", "read")


def _fill(path: Path, megabytes: int) -> None:
    """Write real blocks: reads of holes and unwritten extents would cause no I/O."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
