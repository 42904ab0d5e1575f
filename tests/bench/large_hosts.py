"""Measure a tick of ioh on hosts that are larger than this one: CPUs, disks, sockets, files.

Maps of 256 possible CPUs, and of 1,000 disks, are made up here and read by the same code as the
kernel's; what the kernel copies from a map is copied here, too.  Sockets and files are real.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioh.bpf import maps
from ioh.bpf.maps import Map, MapSpec
from ioh.bpf.totals import BYTES, COUNT, LATENCY, LATENCY_NS, SIZE_LAT, STARTED
from ioh.layers.block import SPEC as BLOCK
from ioh.layers.block import Block
from ioh.layers.syscall import SPEC as SYSCALL
from ioh.layers.syscall import Syscall
from ioh.model.filters import Filters
from ioh.procfs.diskstats import make_dev
from tests.bench import tcp_tick
from tests.bench.own_cost import ControlGroup, control_group
from tests.bench.report import Report, say
from tests.bench.watchers import IOH, Watcher, WatcherError, watching
from tests.unit.probe_text import text_of

CPUS, CPUS_BUDGET_MS = 256, 10.0
FLOWS = 500
DISKS, DISKS_BUDGET_MS = 1000, 20.0
CONNECTIONS, SOCKETS_BUDGET_MS = 5000, 60.0  # each has two sockets
FILES, FILES_BUDGET_MS = 20_000, 20.0
TICKS = 11
_WINDOW_S = 20.0
_SETTLE_S = 20.0  # until ioh follows as many files as it can
_READ, _WRITE = (BLOCK.ops.index(name) for name in ("read", "write"))
_ARRAYS = {2, 6}


@dataclass
class Held:
    """The contents of one map in a made-up kernel."""

    spec: MapSpec
    keys: list[bytes]
    values: Any  # [entry, cpu, word] of 64 bits, in the order of the keys

    @property
    def value_bytes(self) -> int:
        return int(self.values[0].nbytes)


class MadeUpKernel:
    """libbpf's calls on arrays: as little work besides copying as possible."""

    def __init__(self, specs: list[MapSpec], cpus: int) -> None:
        self.held: dict[int, Held] = {}
        for fd, spec in enumerate(specs, 100):
            words = (spec.value_size + 7) // 8
            of_each = cpus if spec.kind in {5, 6, 10} else 1
            entries = spec.max_entries if spec.kind in _ARRAYS else 0
            keys = [n.to_bytes(4, "little") for n in range(entries)] if entries < 1024 else []
            self.held[fd] = Held(spec, keys, np.zeros((len(keys), of_each, words), "u8"))

    def named(self, name: str) -> Held:
        return next(held for held in self.held.values() if held.spec.name == name)

    def fill(self, name: str, keys: list[bytes]) -> Any:
        """Fill a map with these keys and zeros; returns its values."""
        held = self.named(name)
        held.keys = keys
        held.values = np.zeros((len(keys), *held.values.shape[1:]), "u8")
        return held.values

    def bpf_map_lookup_elem(self, fd: int, key: bytes, value: Any) -> int:
        held = self.held[fd]
        with contextlib.suppress(ValueError):
            at = held.keys.index(bytes(key))
            ctypes.memmove(value, held.values[at].ctypes.data, len(value))
            return 0
        ctypes.set_errno(errno.ENOENT)
        return -1

    def bpf_map_update_elem(self, fd: int, key: bytes, value: bytes, flags: int) -> int:
        del flags
        held = self.held[fd]
        if bytes(key) in held.keys:
            ctypes.memmove(held.values[held.keys.index(bytes(key))].ctypes.data, value, len(value))
        return 0

    def bpf_map_delete_elem(self, fd: int, key: bytes) -> int:
        del fd, key
        return 0

    def bpf_map_lookup_and_delete_elem(self, fd: int, key: bytes, value: Any) -> int:
        return self.bpf_map_lookup_elem(fd, key, value)

    def bpf_map_lookup_batch(
        self, fd: int, start: Any, cursor: Any, keys: Any, values: Any, count: Any, opts: Any
    ) -> int:
        del opts
        held, room = self.held[fd], count._obj.value
        at = 0 if start is None else int.from_bytes(start.raw[:8], "little")
        chosen = held.keys[at : at + room]
        count._obj.value = len(chosen)
        ctypes.memmove(cursor, (at + len(chosen)).to_bytes(8, "little"), 8)
        ctypes.memmove(keys, b"".join(chosen), sum(map(len, chosen)))
        if chosen:
            # A hash that is not per CPU has unpadded values; all that are filled here are per CPU.
            ctypes.memmove(values, held.values[at].ctypes.data, held.value_bytes * len(chosen))
        if at + len(chosen) < len(held.keys):
            return 0
        ctypes.set_errno(errno.ENOENT)
        return -1

    bpf_map_lookup_and_delete_batch = bpf_map_lookup_batch


@contextlib.contextmanager
def made_up(name: str, cpus: int) -> Iterator[tuple[MadeUpKernel, dict[str, Map]]]:
    """The maps of a layer as its probe declares them on a host with this many possible CPUs."""
    kernel = MadeUpKernel(text_of(name, cpus).maps(), cpus)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "libbpf", lambda: kernel)
        patch.setattr(maps, "possible_cpus", lambda: cpus)
        yield kernel, {held.spec.name: Map(held.spec, fd) for fd, held in kernel.held.items()}


def do_something(totals: Any) -> None:
    """Let each of these ops end 10 times on every CPU, with ten latencies."""
    for at, more in ((STARTED, 10), (COUNT, 10), (BYTES, 40960), (LATENCY_NS, 1_000_000)):
        totals[:, :, at] += np.uint64(more)
    for first in (LATENCY, SIZE_LAT):
        totals[:, :, first + 100 : first + 110] += np.uint64(1)


def ticks_ms(read: Callable[[], object], change: Callable[[], None]) -> list[float]:
    """CPU time of each tick, without the first three, which read what already exists."""
    found = []
    for _ in range(TICKS + 3):
        change()
        began = time.process_time()
        read()
        found.append((time.process_time() - began) * 1e3)
    return found[3:]


def measure_cpus(report: Report) -> None:
    """Layers syscall and block: reads, writes, fsyncs on two disks; then all the maps can hold."""
    say(f"a tick with {CPUS} possible CPUs")
    with (
        made_up("syscall", CPUS) as (kernel, of_calls),
        made_up("block", CPUS) as (disks, of_disks),
    ):
        layers = (Syscall(Filters()), of_calls), (Block(Filters()), of_disks)
        flows, per_op = kernel.fill("flows", flow_keys(FLOWS)), kernel.named("totals").values
        flows[:, :, 3] = int.from_bytes(b"program\0", "little")
        some = [SYSCALL.ops.index(name) for name in ("read_buffered", "write_buffered", "fsync")]
        room = disks.named("totals").spec.max_entries
        for busy, count, budget in (
            (some, 4, CPUS_BUDGET_MS),
            (list(range(len(SYSCALL.ops))), room, None),
        ):
            keys = [struct.pack("=II", make_dev(259, at // 2), at % 2) for at in range(count)]
            per_disk = disks.fill("totals", keys)

            def change(busy: list[int] = busy, per_disk: Any = per_disk) -> None:
                for op in busy:
                    do_something(per_op[op : op + 1])
                do_something(per_disk)
                flows[:, 7, :3] += np.uint64(1000)

            found = ticks_ms(lambda: [layer.read(read_from) for layer, read_from in layers], change)
            what = f"{len(busy)} kinds of calls, {FLOWS} files, {count // 2} disks busy"
            report.figure(f"a tick, {CPUS} CPUs, {what}", "ms of CPU", found, budget)


def flow_keys(count: int) -> list[bytes]:
    """Keys of one process that reads this many files."""
    return [struct.pack("=QIIII", 1000 + at, make_dev(8, 1), 4711, 0, at) for at in range(count)]


def make_disks(root: Path, count: int) -> list[tuple[int, str]]:
    """Make a /sys with this many disks; returns their numbers and names."""
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/block").mkdir()
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("")
    found = []
    for at in range(count):
        dev, name = make_dev(259, at), f"nvme{at}n1"
        folder = root / "sys/devices" / name
        (folder / "queue").mkdir(parents=True)
        (folder / "mq").mkdir()
        (folder / "inflight").write_text("       0        0\n")
        (folder / "dev").write_text(f"259:{at}\n")
        for setting in ("iostats", "max_sectors_kb", "nr_requests", "rotational", "read_ahead_kb"):
            (folder / "queue" / setting).write_text("1\n")
        (root / f"sys/dev/block/259:{at}").symlink_to(folder)
        (root / "sys/block" / name).symlink_to(folder)
        found.append((dev, name))
    return found


def measure_disks(report: Report) -> None:
    """Layer block with reads and writes of each disk, of which none, a tenth or all are busy."""
    cpus = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = Path(folder)
        disks = make_disks(root, DISKS)
        for busy in (0, DISKS // 10, DISKS):
            say(f"a tick with {DISKS:,} disks, {busy} of them busy")
            with made_up("block", cpus) as (kernel, read_from):
                layer = Block(Filters(), root)
                keys = [struct.pack("=II", dev, op) for dev, _ in disks for op in (_READ, _WRITE)]
                totals = kernel.fill("totals", keys)
                do_something(totals)
                done = 0

                def change(totals: Any = totals, busy: int = busy) -> None:
                    nonlocal done
                    done += 10 * cpus
                    do_something(totals[: 2 * busy])
                    counts = (done if at < busy else 10 * cpus for at in range(DISKS))
                    text = "".join(
                        f"259 {at} {name} {n} 0 {n * 8} 9 {n} 0 {n * 8} 9 0 9 9 0 0 0 0 0 0\n"
                        for at, ((_, name), n) in enumerate(zip(disks, counts, strict=True))
                    )
                    (root / "proc/diskstats").write_text(text)

                found = ticks_ms(lambda: layer.read(read_from), change)  # noqa: B023
                budget = DISKS_BUDGET_MS if busy < DISKS else None
                name = f"a tick, {DISKS:,} disks, {busy:,} of them busy"
                report.figure(name, "ms of CPU", found, budget)


def measure_sockets(report: Report) -> None:
    """Layer tcp, half of the connections busy; real ones, in a namespace of their own."""
    say(f"a tick with {2 * CONNECTIONS:,} sockets")
    name = f"a tick, {2 * CONNECTIONS:,} sockets, worst of {2 * tcp_tick.TICKS}"
    report.figure(name, "ms of CPU", [tcp_tick.measure(CONNECTIONS)], SOCKETS_BUDGET_MS)


WRITER = """
import os, sys, time
folder, count = sys.argv[1], int(sys.argv[2])
print("begun", flush=True)
while True:
    began = time.monotonic()
    for n in range(count):
        fd = os.open(f"{folder}/{n}", os.O_CREAT | os.O_WRONLY)
        os.pwrite(fd, b"x", 0)
        os.close(fd)
    time.sleep(max(0.0, began + 1 - time.monotonic()))
"""


def measure_files(report: Report) -> None:
    """Layer syscall: CPU time that ioh needs in addition while a process writes to each file."""
    say(f"a tick with {FILES:,} busy files")
    watcher = Watcher("ioh text", (*IOH, "text", "--layers", "syscall"), "date:")
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        control_group() as group,
        watching(watcher, group.prefix),
    ):
        time.sleep(3)
        idle_s = _spent_s(group)
        command = [sys.executable, "-c", WRITER, folder, str(FILES)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline()
            time.sleep(_SETTLE_S)
            busy_s = _spent_s(group)
            writer.kill()
    per_tick = (busy_s - idle_s) / _WINDOW_S * 1e3
    report.figure(f"a tick, {FILES:,} busy files", "ms of CPU", [per_tick], FILES_BUDGET_MS)


def _spent_s(group: ControlGroup) -> float:
    before = group.cpu_s()
    time.sleep(_WINDOW_S)
    return group.cpu_s() - before


def measure(report: Report) -> None:
    measure_cpus(report)
    measure_disks(report)
    measure_sockets(report)
    try:
        measure_files(report)
    except WatcherError as error:
        report.figure(f"a tick, {FILES:,} busy files", "ms of CPU", [], FILES_BUDGET_MS)
        report.note(f"busy files: {error}")
