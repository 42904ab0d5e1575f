"""Loop devices, volumes, fio, `ioh json` in a subprocess, and the kernel's counts to compare."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioh.layers.syscall import SPEC as SYSCALL
from tests.kernel.talker import TIMEOUT_S, Running
from tests.kernel.witness import DiskStats, Witness, diskstats

ROOT = Path(__file__).parents[2]
# START_S only guards against hanging: an emulated machine that shares its host takes minutes.
# CYCLE_S: tests wait for two ticks before their load and two after it; an emulated machine has no
# time for more of them.
START_S, CYCLE_S = (600, 0.25) if os.environ.get("IOH_IN_VM") else (30, 0.1)
LATE = "its probe is still being compiled"
MIB = 1 << 20


def ended(
    *command: str | Path, timeout_s: float = TIMEOUT_S, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    words = [str(word) for word in command]
    return subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=timeout_s, **options
    )


def run(*command: str | Path, timeout_s: float = TIMEOUT_S) -> str:
    """Run a program and return its output; an assertion with its messages if it failed."""
    done = ended(*command, timeout_s=timeout_s)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}{done.stdout[-2000:]}"
    return done.stdout


def ioh_ended(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ended(*ioh_command(*arguments), env=ioh_environment())


def ioh_command(*arguments: str) -> list[str]:
    """The command as the launcher starts it: isolated; the environment's ioh.pth finds ioh."""
    return [sys.executable, "-I", "-m", "ioh", *arguments]


def ioh_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


METADATA = {"meta", *SYSCALL.groups["meta"], "lock"}


class Ioh(Running):
    """A running `ioh json`: every interval since its start, and sums over them.

    ``within``: the words of a program that starts it, such as nsenter.
    """

    def __init__(
        self, *arguments: str, cycle_s: float = CYCLE_S, within: Sequence[str] = ()
    ) -> None:
        command = [*within, *ioh_command("json", "-c", str(cycle_s), "--top", "all", *arguments)]
        super().__init__(command, env=ioh_environment(), cwd="/")
        self.cycle_s = cycle_s
        self._parsed: list[dict[str, Any]] = []

    def wait_for_lines(self, count: int, timeout_s: float = START_S) -> None:
        self.output.wait_for(count, timeout_s, why=lambda: self.messages.lines[-30:])

    def settle(self) -> None:
        """Wait for an interval that began after this call: all that happened before is in then."""
        self.wait_for_lines(len(self.output.lines) + 2, 2 * self.cycle_s + 10)

    @property
    def raw(self) -> bytes:
        return b"".join(self.output.lines)

    @property
    def intervals(self) -> list[dict[str, Any]]:
        lines = self.output.lines
        self._parsed += [json.loads(line) for line in lines[len(self._parsed) :]]
        return self._parsed

    def intervals_of(self, layer: str) -> Iterator[dict[str, Any]]:
        """The intervals in which the layer was measured: under emulation its probe can be late."""
        return (interval for interval in self.intervals if layer in interval["layers"])

    def ops(self, layer: str, op: str) -> Iterator[dict[str, Any]]:
        """One op's numbers in each interval in which the layer was measured."""
        for interval in self.intervals:
            if op in interval["layers"].get(layer, {}).get("ops", {}):
                yield interval["layers"][layer]["ops"][op]

    def total(self, layer: str, op: str, field: str = "count") -> int:
        return sum(numbers[field] or 0 for numbers in self.ops(layer, op))

    def counts(self, layer: str) -> dict[str, int]:
        """Each op's count that is not 0, without the sums read and write, and kinds of buffered.

        Of layer syscall without calls on names and attributes, which each test makes by the way.
        """
        sums: dict[str, int] = defaultdict(int)
        for interval in self.intervals:
            for op, numbers in interval["layers"].get(layer, {}).get("ops", {}).items():
                sums[op] += numbers["count"] or 0
        kinds = ("", "_waited", "_cached", "_missed")
        others = {f"{op}{kind}" for op in ("read", "write") for kind in kinds if layer == "syscall"}
        for op in others | (METADATA if layer == "syscall" else set()):
            sums.pop(op, None)
        return {op: count for op, count in sums.items() if count}

    def metadata(self) -> dict[str, int]:
        """The counts of all calls on names and attributes, and of locks, that are not 0."""
        counts = {op: self.total("syscall", op) for op in METADATA - {"meta"}}
        return {op: count for op, count in counts.items() if count}

    def errors(self, layer: str, op: str) -> int:
        return self._integral(
            (interval["layers"][layer]["interval_s"], numbers["errors_per_s"])
            for interval in self.intervals_of(layer)
            if (numbers := interval["layers"][layer]["ops"].get(op))
        )

    def metric(self, layer: str, name: str) -> int:
        """A counter metric's increase, from its rates."""
        return self._integral(
            (found["interval_s"], found["metrics"][f"{name}_per_s"])
            for found in (interval["layers"][layer] for interval in self.intervals_of(layer))
        )

    def latency_us(self, layer: str, op: str) -> float:
        """Mean over all intervals, each weighted by its operations."""
        time_us = sum((n["latency_us"] or 0) * (n["count"] or 0) for n in self.ops(layer, op))
        return time_us / self.total(layer, op)

    def sizes(self, layer: str, op: str) -> dict[int, int]:
        """Row sums of the size × latency table: operations by the row's edge in bytes."""
        rows: dict[int, int] = defaultdict(int)
        for numbers in self.ops(layer, op):
            hist = numbers.get("hist", {"size_edges_bytes": [], "counts": []})
            for edge, counts in zip(hist["size_edges_bytes"], hist["counts"], strict=True):
                rows[edge] += sum(counts)
        return dict(rows)

    def table(self, layer: str, name: str, *keys: str) -> dict[tuple[str, ...], dict[str, int]]:
        """A breakdown's counters over all intervals, by the given key columns."""
        sums: dict[tuple[str, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for interval in self.intervals:
            found = interval["layers"].get(layer, {})
            for row in found.get("top", {}).get(name, ()):
                to = sums[tuple(row[key] for key in keys)]
                for column, value in row.items():
                    if column.endswith("_per_s") and value is not None:
                        to[column.removesuffix("_per_s")] += value * found["interval_s"]
        return {
            key: {name: round(value) for name, value in row.items()} for key, row in sums.items()
        }

    def lost(self, layer: str) -> dict[str, int]:
        sums: dict[str, int] = defaultdict(int)
        for interval in self.intervals_of(layer):
            for reason, count in interval["layers"][layer]["lost"].items():
                sums[reason] += count
        return {reason: count for reason, count in sums.items() if count}

    @property
    def unseen(self) -> int:
        """Completions that the kernel counted but ran no BPF program for.

        For tests that do not ask a witness how many those are: they must be few, since a probe that
        misses more does not measure.  On a busy machine 2.2 % of 8,000 were hidden, and 4 of 10.
        """
        unseen = self.lost("block").get("unseen", 0)
        seen = sum(self.counts("block").values())
        assert unseen <= 6 + seen // 20, (unseen, seen)
        return unseen

    def assert_block_agrees(self, disk: DiskStats) -> None:
        """Each class of request equals /proc/diskstats, except for what ioh reports as lost.

        No more may be missing than the witness knows to be hidden from BPF.  ioh reports how many
        reads and writes that is (``unseen``); for flushes and discards it cannot.
        """
        kernel = {"read": disk.reads, "write": disk.writes, "flush": disk.flushes}
        kernel["discard"] = disk.discards
        missing = {op: count - self.total("block", op) for op, count in kernel.items()}
        assert all(count >= 0 for count in missing.values()), missing
        # No limit as in ``unseen``: the witness knows how many the kernel has hidden.
        assert missing["read"] + missing["write"] == self.lost("block").get("unseen", 0)
        assert sum(missing.values()) <= disk.hidden
        if not disk.hidden:
            assert self.total("block", "read", "bytes") == disk.read_bytes
            assert self.total("block", "write", "bytes") == disk.write_bytes

    @staticmethod
    def _integral(rates: Iterator[tuple[float, float | None]]) -> int:
        return round(sum(seconds * (rate or 0.0) for seconds, rate in rates))


@contextlib.contextmanager
def recording(*arguments: str, cycle_s: float = CYCLE_S) -> Iterator[Ioh]:
    """Run `ioh json` around a workload: from its first interval to one after the workload."""
    with Ioh(*arguments, cycle_s=cycle_s) as ioh:
        ioh.wait_for_lines(1)
        # Under emulation a probe can be late; until it is attached, its layer comes from /proc.
        while LATE in json.dumps(ioh.intervals[-1]):
            ioh.wait_for_lines(len(ioh.intervals) + 1)
        yield ioh
        ioh.settle()


class Loop:
    """A loop device with a backing file of its own."""

    def __init__(self, folder: Path, size: int = 512 * MIB) -> None:
        self.image = folder / "disk.img"
        with self.image.open("wb") as stream:
            stream.truncate(size)
        self._changed: dict[Path, str] = {}
        self.attach()

    def attach(self, *options: str) -> None:
        self.path = run("losetup", "--find", "--show", *options, self.image).strip()
        self.name = self.path.rpartition("/")[2]
        # Fails on a file system without O_DIRECT; the counts of this device are the same.
        subprocess.run(["losetup", "--direct-io=on", self.path], check=False, capture_output=True)
        settle_devices()
        major, _, minor = self.number.partition(":")
        try:
            self.witness = Witness(int(major) << 20 | int(minor))
        except BaseException:
            run("losetup", "--detach", self.path)
            raise

    @property
    def queue(self) -> Path:
        return Path("/sys/block") / self.name / "queue"

    @property
    def number(self) -> str:
        return (Path("/sys/block") / self.name / "dev").read_text().strip()

    def stats(self) -> DiskStats:
        return diskstats(self.name, self.witness.hidden)

    def set_queue(self, name: str, value: str) -> None:
        """Change a queue setting until restore_queue(): it would outlive the device's file."""
        setting = self.queue / name
        before = setting.read_text().strip()
        chosen = re.search(r"\[(.+)\]", before)
        self._changed.setdefault(setting, chosen[1] if chosen else before)
        setting.write_text(value)

    def restore_queue(self) -> None:
        for setting, value in self._changed.items():
            setting.write_text(value)
        self._changed.clear()

    def close(self) -> None:
        self.restore_queue()
        self.detach()

    def detach(self) -> None:
        self.witness.close()
        run("losetup", "--detach", self.path)


class Volume:
    """A mounted ext4 on a loop device; nothing else uses it."""

    def __init__(self, folder: Path, size: int = 512 * MIB) -> None:
        self.loop = Loop(folder, size)
        self.device = self.loop.path
        self.mount = folder / "mnt"
        self.mount.mkdir()
        try:
            # No lazy initialisation, which would write in the background during a test.
            options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
            run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, self.device)
            # ext4's thread would read bitmaps soon after; Linux 5.10 neither does nor knows this.
            quiet = f"mount -o noatime,no_prefetch_block_bitmaps {self.device} '{self.mount}' ||"
            run("sh", "-c", f"{quiet} mount -o noatime {self.device} '{self.mount}'")
        except BaseException:
            self.loop.close()
            raise
        settle_devices()

    def sync(self) -> None:
        """Write everything back, the journal included: afterwards the device is idle."""
        run("sync", "--file-system", self.mount)

    def drop_caches(self) -> None:
        self.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")

    def empty(self) -> None:
        for path in self.mount.iterdir():
            if path.is_file():
                path.unlink()
            elif path.name != "lost+found":
                shutil.rmtree(path)
        self.sync()

    def file(self, name: str, size: int) -> Path:
        """Make a file of that size, written to disk and not in the cache; no write-back is left."""
        path = self.mount / name
        with path.open("wb") as stream:
            for _ in range(size // MIB):
                stream.write(os.urandom(MIB))
            stream.write(os.urandom(size % MIB))
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.sync()
        return path

    def close(self) -> None:
        for _ in range(20):
            done = subprocess.run(["umount", self.mount], check=False, capture_output=True)
            if done.returncode == 0:
                break
            time.sleep(0.1)
        else:
            run("umount", "--lazy", self.mount)
        self.loop.close()


def settle_devices() -> None:
    """Wait until udev, if it runs, has finished with a new device."""
    if shutil.which("udevadm"):
        subprocess.run(["udevadm", "settle"], check=False, timeout=TIMEOUT_S)


def aligned(size: int) -> mmap.mmap:
    """A buffer that O_DIRECT accepts."""
    return mmap.mmap(-1, size)


def about(total: int) -> Any:
    """Equal to a total that JSON gives only as a rate with six decimals, as its interval has.

    An interval of 50 ms is rounded by up to 1e-5 of it, and the total then to a whole number.
    """
    return pytest.approx(total, rel=1e-5, abs=1e-5 * total + 0.5)


@contextlib.contextmanager
def opened(path: Path | str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def real_time_fio(directory: Path, **options: object) -> list[Mapping[str, Any]]:
    """As fio(), as a real-time process: everything else that wants a CPU comes after it."""
    return fio(directory, "chrt", "--fifo", "50", **options)


def fio(directory: Path, *before: str, **options: object) -> list[Mapping[str, Any]]:
    """Run fio in a directory, with ``before`` as command prefix; return its JSON of each job."""
    words = [*before, "fio", "--output-format=json", "--name=j", f"--directory={directory}"]
    text = run(*words, *(f"--{name}={value}" for name, value in options.items()))
    jobs: list[Mapping[str, Any]] = json.loads(text[text.index("{") :])["jobs"]
    assert all(job["error"] == 0 for job in jobs)
    return jobs
