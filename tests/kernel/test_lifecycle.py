"""However ioh ends, the kernel is left as it was: no program, no map, no process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.rig import Ioh, Volume, recording
from tests.kernel.talker import wait_until
from tests.support.can_bpf import SYS_BPF

LIBC = ctypes.CDLL(None, use_errno=True)
BPF = SYS_BPF[os.uname().machine]
PROG_GET_NEXT_ID, MAP_GET_NEXT_ID, PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 11, 12, 13, 15
GONE_WITHIN_S = 5


def ids(command: int) -> set[int]:
    """The kernel's ids of all programs or maps."""
    found: set[int] = set()
    last = 0
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("=III", last, 0, 0), 128)
        if LIBC.syscall(BPF, command, attributes, 12) != 0:
            return found
        last = struct.unpack_from("=I", attributes, 4)[0]
        found.add(last)


def held(pids: set[int], kind: str) -> set[int]:
    """The ids of the programs (``prog_id``) or maps that these processes hold open."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for info in Path(f"/proc/{pid}/fdinfo").iterdir():
                for line in info.read_text().splitlines():
                    if line.startswith(f"{kind}:"):
                        found.add(int(line.split()[1]))
    return found


def children(pid: int) -> set[int]:
    """A process' children, and theirs."""
    found = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {child} | children(child)
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Traces:
    """What one ioh has in the kernel at this moment."""

    def __init__(self, pid: int) -> None:
        self.family = {pid} | children(pid)
        self.programs = held(self.family, "prog_id")
        self.maps = held(self.family, "map_id")

    def assert_gone(self) -> None:
        wait_until(lambda: not any(map(is_alive, self.family)), GONE_WITHIN_S)
        wait_until(lambda: not self.programs & ids(PROG_GET_NEXT_ID), GONE_WITHIN_S)
        wait_until(lambda: not self.maps & ids(MAP_GET_NEXT_ID), GONE_WITHIN_S)


def traces_of_a_whole(pid: int) -> Traces:
    """The traces of an ioh that has attached syscall, tcp and block."""
    traces = Traces(pid)
    assert len(traces.programs) >= 10
    assert traces.programs <= ids(PROG_GET_NEXT_ID)
    assert traces.maps
    assert traces.maps <= ids(MAP_GET_NEXT_ID)
    return traces


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Ioh]:
    with Ioh(*arguments) as ioh:
        ioh.wait_for_lines(1)
        yield ioh


def test_kills_in_a_row_leave_nothing_in_the_kernel() -> None:
    for _ in range(3):
        with running() as ioh:
            traces = traces_of_a_whole(ioh.process.pid)
            os.kill(ioh.process.pid, signal.SIGKILL)
            ioh.process.wait(5)
            traces.assert_gone()


@pytest.mark.parametrize("delay_ms", [50, 200, 500, 1500])
def test_a_kill_during_startup_leaves_nothing_in_the_kernel(delay_ms: int) -> None:
    """Whatever the loader and its compiling children are doing at that moment."""
    with Ioh() as ioh:
        time.sleep(delay_ms / 1e3)
        traces = Traces(ioh.process.pid)
        os.kill(ioh.process.pid, signal.SIGKILL)
        ioh.process.wait(5)
        traces.assert_gone()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)]
)
def test_signals_end_ioh_and_leave_nothing_in_the_kernel(number: int, status: int) -> None:
    with running("--layers", "block") as ioh:
        traces = Traces(ioh.process.pid)
        assert traces.programs
        os.kill(ioh.process.pid, number)
        assert ioh.process.wait(20) == status
        traces.assert_gone()
        ioh.messages.join(2)
        assert ioh.messages.lines == []


def test_ioh_goes_on_measuring_without_its_loader(volume: Volume) -> None:
    """The loader holds nothing: what is attached stays with ioh itself."""
    with recording("--device", volume.device) as ioh:
        traces = traces_of_a_whole(ioh.process.pid)
        (loader,) = children(ioh.process.pid)
        os.kill(loader, signal.SIGKILL)
        path = volume.file("data", 1000)
        for _ in range(23):
            with path.open("rb", buffering=0) as stream:
                stream.read(100)
        ioh.settle()
        assert ioh.total("syscall", "read") == 23
    traces.assert_gone()
