"""The syscall layer from /proc/PID/io: exits, children, names that change, filters."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ioh.layers.syscall import SPEC
from ioh.model.filters import Filters
from ioh.model.sample import LayerSample, Unavailable
from ioh.procfs.syscall_fallback import SyscallFallback

ROOT = Path(__file__).parents[1] / "data/proc-6.18"
COLUMNS = [c.name for c in SPEC.tables[0].raw_columns]


class Host:
    """A fake /proc whose processes the test changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir(parents=True)
        self.put(1, 0, comm="init", parent=0)

    def put(
        self, pid: int, calls: int | None, comm: str = "app", parent: int = 1, start: int = 7
    ) -> None:
        """A process that made ``calls`` reads of 10 bytes; None if its io file is unreadable."""
        folder = self.root / f"proc/{pid}"
        folder.mkdir(exist_ok=True)
        tail = " ".join(["0"] * 17)
        (folder / "stat").write_text(f"{pid} ({comm}) S {parent} {tail} {start} 0\n")
        (folder / "io").unlink(missing_ok=True)
        if calls is not None:
            (folder / "io").write_text(
                f"rchar: {calls * 10}\nwchar: 0\nsyscr: {calls}\nsyscw: 0\n"
                "read_bytes: 0\nwrite_bytes: 0\n"
            )

    def end(self, pid: int) -> None:
        shutil.rmtree(self.root / f"proc/{pid}")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "root")


def read(fallback: SyscallFallback) -> LayerSample:
    sample = fallback.sample()
    assert isinstance(sample, LayerSample)
    return sample


def begun(host: Host, filters: Filters | None = None) -> SyscallFallback:
    """A fallback read once, so that its totals count from here on."""
    fallback = SyscallFallback(SPEC, filters or Filters(), host.root)
    read(fallback)
    return fallback


def reads(sample: LayerSample) -> int | None:
    assert sample.ops["read"].bytes_total == (sample.ops["read"].count_total or 0) * 10
    return sample.ops["read"].count_total


def rows(sample: LayerSample) -> dict[tuple[str, ...], int | float | None]:
    return {key: row[0] for key, row in sample.tables["process"].items()}


def test_totals_start_at_zero_and_only_active_processes_have_rows(host: Host) -> None:
    host.put(5, 100)
    fallback = SyscallFallback(SPEC, Filters(), host.root)
    first = read(fallback)
    assert (reads(first), rows(first)) == (0, {})
    host.put(5, 123)
    second = read(fallback)
    assert (reads(second), rows(second)) == (23, {("5", "app"): 23})
    values = dict(zip(COLUMNS, second.tables["process"]["5", "app"], strict=True))
    known = {name: value for name, value in values.items() if value is not None}
    assert known.pop("read_bytes_total") == 230
    assert known == {"reads_total": 23, "writes_total": 0, "write_bytes_total": 0}


def test_child_is_not_counted_again_with_its_parent(host: Host) -> None:
    host.put(4, 2, comm="sh")
    host.put(5, 50, parent=4)
    fallback = begun(host)
    host.put(5, 60, parent=4)
    read(fallback)
    host.end(5)
    host.put(4, 2 + 61 + 1, comm="sh")  # the kernel added all 61; sh itself made one call
    sample = read(fallback)
    assert (reads(sample), rows(sample)) == (10 + 1 + 1, {("4", "sh"): 2})


@pytest.mark.parametrize(("grandparent", "comm"), [(3, "make"), (1, "init")])
def test_family_that_ends_at_once_is_reaped_by_the_grandparent(
    host: Host, grandparent: int, comm: str
) -> None:
    """Or by process 1."""
    host.put(3, 0, comm="make")
    host.put(4, 2, comm="sh", parent=grandparent)
    host.put(5, 50, parent=4)
    fallback = begun(host)
    host.end(5)
    host.end(4)
    host.put(grandparent, 52 + 4, comm=comm, parent=0)
    assert reads(read(fallback)) == 4


def test_child_that_nobody_waited_for_subtracts_nothing(host: Host) -> None:
    host.put(4, 2, comm="sh")
    host.put(5, 50, parent=4)
    host.put(6, 50)
    fallback = begun(host)
    host.end(5)
    host.put(4, 5, comm="sh")
    host.put(6, 40)  # nor does a counter that runs backwards
    assert reads(read(fallback)) == 3


def test_reused_pid_is_another_process(host: Host) -> None:
    host.put(5, 50)
    fallback = begun(host)
    host.put(5, 60, start=8)
    sample = read(fallback)
    assert (reads(sample), rows(sample)) == (60, {("5", "app"): 60})


def test_exec_begins_another_row(host: Host) -> None:
    host.put(5, 50, comm="sh")
    fallback = begun(host)
    host.put(5, 51, comm="sh")
    read(fallback)
    host.put(5, 53, comm="fio\x1b")
    sample = read(fallback)
    assert (reads(sample), rows(sample)) == (3, {("5", "fio\\x1b"): 2})


def test_process_that_becomes_readable_starts_at_zero(host: Host) -> None:
    host.put(5, None)
    fallback = SyscallFallback(SPEC, Filters(), host.root)
    sample = read(fallback)
    assert sample.notes[-1] == "1 of 2 processes belong to other users: run as root"
    host.put(5, 50)
    assert reads(read(fallback)) == 0
    host.put(5, 52)
    assert reads(read(fallback)) == 2


@pytest.mark.parametrize("filters", [Filters(pid=5), Filters(comm="a b")])
def test_filters(host: Host, filters: Filters) -> None:
    host.put(5, 0, comm="a b")
    host.put(6, 0, comm="other")
    fallback = begun(host, filters)
    host.put(5, 1, comm="a b")
    host.put(6, 2, comm="other")
    sample = read(fallback)
    assert (reads(sample), set(rows(sample))) == (1, {("5", "a b")})


@pytest.mark.parametrize("group", ["user.slice/fio.scope", "user.slice"])
def test_control_group_and_those_below_it(tmp_path: Path, group: str) -> None:
    root = tmp_path / "root"
    shutil.copytree(ROOT, root, symlinks=True)
    cgroup_id = (root / "sys/fs/cgroup/unified" / group).stat().st_ino
    fallback = SyscallFallback(SPEC, Filters(cgroup_id=cgroup_id), root)
    read(fallback)
    for pid in (1, 40):
        path = root / f"proc/{pid}/io"
        path.write_text(path.read_text().replace("syscr: ", "syscr: 1"))
    assert set(rows(read(fallback))) == {("40", "fio")}


@pytest.mark.parametrize("filters", [Filters(), Filters(pid=5)])
def test_ended_processes_stay_in_the_totals(host: Host, filters: Filters) -> None:
    host.put(5, 0)
    fallback = begun(host, filters)
    host.put(5, 9)
    read(fallback)
    host.end(5)
    sample = read(fallback)
    assert (reads(sample), rows(sample)) == (9, {})


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        (Filters(device=1), "device of a call"),
        (Filters(pid=99), "no process 99"),
        (Filters(pid=6), "cannot read process 6"),
    ],
)
def test_unavailable(host: Host, filters: Filters, reason: str) -> None:
    host.put(6, None)
    sample = SyscallFallback(SPEC, filters, host.root).sample()
    assert isinstance(sample, Unavailable)
    assert reason in sample.reason
    assert sample.hint


def test_live_child_seen_alive_and_reaped_counts_once(tmp_path: Path) -> None:
    fallback = SyscallFallback(SPEC, Filters(comm="iohchild"), Path("/"))
    everything = SyscallFallback(SPEC, Filters(), Path("/"))
    script = tmp_path / "iohchild"
    script.write_text("#!/bin/sh\nprintf 0123456789\nread line\n")
    script.chmod(0o755)
    read(fallback)
    before = read(everything).ops["write"].bytes_total
    child = subprocess.Popen([script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert os.read(child.stdout.fileno(), 10) == b"0123456789"
    sample = read(fallback)
    read(everything)
    assert sample.ops["write"].bytes_total == 10
    child.communicate(b"\n")
    assert read(fallback).ops["write"].bytes_total == 10
    after = read(everything).ops["write"].bytes_total
    assert before is not None
    assert after is not None
    assert after - before >= 11
