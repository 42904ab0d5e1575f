"""Names and totals of processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioh.procfs.processes import (
    ProcessStat,
    list_pids,
    read_cgroup,
    read_comm,
    read_process_io,
    read_process_stat,
)

ROOT = Path(__file__).parents[1] / "data/proc-6.18"
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\nnew: 7\n"


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        (IO, (3, 1, 4, 2)),
        ("", None),
        (IO.replace("syscw", "x"), None),
        (IO.replace("4", "four"), None),
    ],
)
def test_io(tmp_path: Path, text: str, flow: tuple[int, ...] | None) -> None:
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/5/io").write_text(text)
    assert read_process_io(5, tmp_path) == flow


@pytest.mark.parametrize(
    ("text", "stat"),
    [
        (
            "7 (a) (b\nc) S 3 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 99 1024\n",
            ProcessStat("a) (b\\x0ac", 3, 99),
        ),
        *((text, None) for text in ("", "7", "7 (a", "7 (a)", "7 a) S", "7 (a) S " + "x " * 30)),
    ],
)
def test_stat(tmp_path: Path, text: str, stat: ProcessStat | None) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/stat").write_text(text)
    assert read_process_stat(7, tmp_path) == stat


@pytest.mark.parametrize(
    ("text", "path"),
    [("1:cpu:/a\n0::/b c\n", "/b c"), ("1:cpu:/a\n", None), ("", None), ("0::x", None)],
)
def test_cgroup(tmp_path: Path, text: str, path: str | None) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(text)
    assert read_cgroup(7, tmp_path) == path


def test_fake_root() -> None:
    assert sorted(list_pids(ROOT)) == [1, 40, 41]
    assert read_comm(41, ROOT) == "a) b\\x1b[31m"
    assert read_process_stat(41, ROOT) == ProcessStat("a) b\\x1b[31m", 1, 501)
    assert read_cgroup(40, ROOT) == "/user.slice/fio.scope"


def test_nothing_there(tmp_path: Path) -> None:
    assert list_pids(tmp_path) == []
    assert read_comm(1, tmp_path) is None
    assert read_process_io(1, tmp_path) is None
    assert read_process_stat(1, tmp_path) is None
    assert read_cgroup(1, tmp_path) is None


def test_this_process(tmp_path: Path) -> None:
    pid = os.getpid()
    stat = read_process_stat(pid)
    assert stat is not None
    assert stat.parent_pid == os.getppid()
    assert stat.comm == read_comm(pid)
    before = read_process_io(pid)
    file = tmp_path / "f"
    with file.open("wb", buffering=0) as stream:
        for _ in range(23):
            stream.write(b"x" * 8192)
    after = read_process_io(pid)
    assert before is not None
    assert after is not None
    assert (after[2] - before[2], after[3] - before[3]) == (23, 23 * 8192)
