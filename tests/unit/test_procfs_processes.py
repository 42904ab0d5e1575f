"""Names, command lines and totals of processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioh.procfs.processes import (
    ProcessIo,
    ProcessStat,
    list_pids,
    parse_cgroup,
    parse_cmdline,
    parse_process_io,
    parse_process_stat,
    read_all_io,
    read_cgroup,
    read_cmdline,
    read_comm,
    read_process_io,
    read_process_stat,
)

ROOT = Path(__file__).parents[1] / "data/proc-6.18"
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\nnew: 7\n"


def test_io() -> None:
    assert parse_process_io(IO) == ProcessIo(
        reads_total=3,
        read_bytes_total=1,
        writes_total=4,
        write_bytes_total=2,
        storage_read_bytes_total=5,
        storage_write_bytes_total=6,
    )


@pytest.mark.parametrize("text", ["", IO.replace("syscw", "x"), IO.replace("4", "four")])
def test_malformed_io(text: str) -> None:
    assert parse_process_io(text) is None


def test_stat_of_a_name_with_brackets() -> None:
    text = "7 (a) (b c) S 3 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 99 1024\n"
    assert parse_process_stat(text) == ProcessStat("a) (b c", 3, 99)


@pytest.mark.parametrize("text", ["", "7", "7 (a", "7 (a)", "7 a) S", "7 (a) S " + "x " * 30])
def test_malformed_stat(text: str) -> None:
    assert parse_process_stat(text) is None


@pytest.mark.parametrize(
    ("data", "cmdline"),
    [
        (b"", None),
        (b"\0\0", None),
        (b"fio\0--name=x\0", "fio --name=x"),
        (b"a\0\0b\0", "a  b"),
        (b"\x1b[31m\nx\xff", "\\x1b[31m\\x0ax\\xff"),
    ],
)
def test_cmdline(data: bytes, cmdline: str | None) -> None:
    assert parse_cmdline(data) == cmdline


@pytest.mark.parametrize(
    ("text", "path"),
    [("1:cpu:/a\n0::/b c\n", "/b c"), ("1:cpu:/a\n", None), ("", None), ("0::x", None)],
)
def test_cgroup(text: str, path: str | None) -> None:
    assert parse_cgroup(text) == path


def test_fake_root() -> None:
    assert sorted(list_pids(ROOT)) == [1, 40, 41]
    assert read_comm(41, ROOT) == "a) b\\x1b[31m"
    assert read_process_stat(41, ROOT) == ProcessStat("a) b\\x1b[31m", 1, 501)
    assert read_cmdline(40, ROOT) == "fio --name=x"
    assert read_cgroup(40, ROOT) == "/user.slice/fio.scope"
    totals, unreadable = read_all_io(ROOT)
    assert (set(totals), unreadable) == ({1, 40, 41}, 0)


def test_processes_that_may_not_be_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/stat").write_text("")
    assert read_all_io(tmp_path) == ({}, 1)


def test_nothing_there(tmp_path: Path) -> None:
    assert list_pids(tmp_path) == []
    assert read_comm(1, tmp_path) is None
    assert read_cmdline(1, tmp_path) is None
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
    assert after.writes_total - before.writes_total == 23
    assert after.write_bytes_total - before.write_bytes_total == 23 * 8192
