"""Calls on names and attributes, locks and close: exact counts by op, process and mount."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ioh.bpf.syscall_numbers import SYSCALL_NUMBERS
from tests.kernel.meta_calls import COMM, LIBC
from tests.kernel.part import part_of
from tests.kernel.rig import METADATA, MIB, Ioh, Volume, recording, run
from tests.kernel.talker import Talker


class Caller(Talker):
    """The program in tests/kernel/meta_calls.py, and ioh, which watches only it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sys.executable, "-m", "tests.kernel.meta_calls", folder)
        assert self.line() == "ready"

    def run(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        told = json.loads(self.ask(name))
        return told["done"], told["failed"]


@pytest.fixture(scope="module")
def named() -> Iterator[Ioh]:
    with recording("--comm", COMM, "--layers", "syscall") as ioh:
        yield ioh


def answers(ioh: Ioh) -> dict[str, int]:
    """Calls answered with an errno, such as ENOENT, by op; none of them is an error."""
    assert not any(ioh.errors("syscall", op) for op in METADATA - {"meta"})
    rows = ioh.table("syscall", "error", "op")
    return {op: row["errors"] for (op,), row in rows.items() if row["errors"]}


@pytest.mark.parametrize("name", ["opens", "stats", "changes", "others", "requests"])
def test_each_call_counts_once_in_its_op(named: Ioh, volume: Volume, name: str) -> None:
    with Caller(volume.mount) as caller, part_of(named) as ioh:
        done, answered = caller.run(name)
        pid = str(caller.pid)
    assert answers(ioh) == answered
    done = Counter(done) + Counter(answered)
    assert ioh.metadata() == done
    rows = ioh.table("syscall", "process", "pid", "comm")
    assert rows.get((pid, COMM), {}).get("metas", 0) == sum(done.values())
    mounts = ioh.table("syscall", "mount", "mount")
    assert sum(row["metas"] for row in mounts.values()) == sum(done.values())
    assert {key[0] for key, row in mounts.items() if row["metas"]} <= {
        str(volume.mount),
        "(absolute path)",
    }
    assert ioh.lost("syscall") == {}


def test_a_call_that_a_limit_refuses_is_an_error(named: Ioh, volume: Volume) -> None:
    with Caller(volume.mount) as caller, part_of(named) as ioh:
        done, failed = caller.run("failures")
    assert (done, failed) == ({}, {"open": 7})
    assert ioh.errors("syscall", "open") == 7
    assert "open" not in ioh.metadata()


def test_a_lock_counts_if_it_waits_and_has_its_time(named: Ioh, volume: Volume) -> None:
    with Caller(volume.mount) as caller, part_of(named) as ioh:
        done, _ = caller.run("locks")
    assert ioh.metadata().get("lock") == done["lock"] == 2
    mounts = ioh.table("syscall", "mount", "mount")
    row = mounts[(str(volume.mount),)]
    assert row["locks"] == 2
    assert row["lock_ns"] == pytest.approx(done["lock_ns"], rel=0.01)


class Stopwatch:
    """Times calls by op with a clock of its own."""

    def __init__(self) -> None:
        self.times_ns: dict[str, list[int]] = defaultdict(list)

    def __call__(self, op: str, call: Callable[..., int | object], *args: object) -> Any:
        begun = time.perf_counter_ns()
        result = call(*args)
        self.times_ns[op].append(time.perf_counter_ns() - begun)
        return result

    def mean_us(self, op: str) -> float:
        return sum(self.times_ns[op]) / len(self.times_ns[op]) / 1e3


def _list(clock: Stopwatch, folder: str) -> None:
    number = SYSCALL_NUMBERS[platform.machine()]["getdents64"]
    entries, fd = ctypes.create_string_buffer(MIB), clock("open", os.open, folder, os.O_RDONLY)
    clock("readdir", LIBC.syscall, number, fd, entries, MIB)
    os.close(fd)


ON_DISK: dict[str, Callable[[Stopwatch, str], None]] = {
    "stat": lambda clock, at: clock("stat", os.stat, f"{at}/f"),
    "open": lambda clock, at: os.close(clock("open", os.open, f"{at}/f", os.O_RDONLY)),
    "create": lambda clock, at: os.close(clock("create", os.open, f"{at}/new", os.O_CREAT)),
    "readdir": _list,
    "setattr": lambda clock, at: clock("setattr", os.chmod, f"{at}/f", 0o600),
    "rename": lambda clock, at: clock("rename", os.rename, f"{at}/f", f"{at}/g"),
    "unlink": lambda clock, at: clock("unlink", os.unlink, f"{at}/g"),
}


def test_means_are_those_of_another_clock(own: Ioh, volume: Volume) -> None:
    """Calls that read a folder's block for each part of a long path, or for each few entries.

    After a call that sleeps, the program reaches its clock through cold caches: some 10 µs, which
    are not the call's time.  So each call sleeps often, and takes milliseconds.
    """
    folders = [f"{volume.mount}/{number}" + "/d" * 199 for number in range(5)]
    for folder in folders:
        Path(folder).mkdir(parents=True)
        for name in ("f", *(f"{number:0200}" for number in range(2000))):
            os.close(os.open(f"{folder}/{name}", os.O_CREAT))
    clock = Stopwatch()
    with part_of(own) as ioh:
        for do in ON_DISK.values():
            run("umount", volume.mount)  # the journal keeps blocks when caches are dropped
            run("mount", "-o", "noatime", volume.device, volume.mount)
            for folder in folders:
                do(clock, folder)
    for op, times in clock.times_ns.items():
        assert ioh.total("syscall", op) == len(times)
        assert ioh.latency_us("syscall", op) == pytest.approx(clock.mean_us(op), rel=0.01), op
        assert clock.mean_us(op) > 2000
