"""Processes: names, flows, control groups, and which of them are servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ioh.procfs.processes import (
    ProcessStat,
    ServerProcesses,
    list_pids,
    read_cgroup,
    read_comm,
    read_process_io,
    read_process_stat,
    server_name,
    session_name,
)

ROOT = Path(__file__).parents[1] / "data/proc-6.18"
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\nnew: 7\n"


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("io", IO, (3, 1, 4, 2)),
        *(("io", text, None) for text in ("", IO.replace("syscw", "x"), IO.replace("4", "four"))),
        (
            "stat",
            "7 (a) (b\nc) S 3 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 99 1024\n",
            ProcessStat("a) (b\\x0ac", 3, 99),
        ),
        *(("stat", text, None) for text in ("", "7 (a)", "7 a) S", "7 (a) S " + "x " * 30)),
        ("cgroup", "1:cpu:/a\n0::/b c\n", "/b c"),
        *(("cgroup", text, None) for text in ("1:cpu:/a\n", "", "0::x")),
    ],
)
def test_what_is_malformed_is_unknown(tmp_path: Path, name: str, text: str, read: object) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7" / name).write_text(text)
    readers = {"io": read_process_io, "stat": read_process_stat, "cgroup": read_cgroup}
    assert readers[name](7, tmp_path) == read


def test_fake_root(tmp_path: Path) -> None:
    assert sorted(list_pids(ROOT)) == [1, 40, 41]
    assert read_comm(41, ROOT) == "a) b\\x1b[31m"
    assert read_process_stat(41, ROOT) == ProcessStat("a) b\\x1b[31m", 1, 501)
    assert read_cgroup(40, ROOT) == "/user.slice/fio.scope"
    assert list_pids(tmp_path) == []
    for read in (read_comm, read_process_io, read_process_stat, read_cgroup):
        assert read(1, tmp_path) is None


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


def process(root: Path, pid: int, comm: str, parent: int, *words: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({comm}) S {parent}" + 18 * " 0")
    (folder / "cmdline").write_text("\0".join((*words, "")))


def test_the_first_of_a_servers_processes_is_the_server(tmp_path: Path) -> None:
    process(tmp_path, 1, "init", 0)
    process(tmp_path, 10, "postgres", 1)
    process(tmp_path, 11, "postgres", 10)
    process(tmp_path, 12, "postgres) S 10 (x", 1)
    process(tmp_path, 20, "a_server_with_a", 1)  # which the kernel has cut
    names = ["postgres", "a_server_with_a_name"]
    assert ServerProcesses(names, tmp_path).pids() == {10, 20}
    assert server_name(1, tmp_path) is session_name(1, tmp_path) is None


def test_a_program_that_is_started_after_the_fork_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every few seconds."""
    now_s = [100.0]
    monkeypatch.setattr("ioh.procfs.processes.time.monotonic", lambda: now_s[0])
    process(tmp_path, 10, "sh", 1)
    watch = ServerProcesses(["postgres"], tmp_path)
    assert watch.pids() == frozenset()
    process(tmp_path, 10, "postgres", 1)
    assert watch.pids() == frozenset()
    now_s[0] += 3.0
    assert watch.pids() == {10}
    (tmp_path / "proc/10/stat").unlink()
    now_s[0] += 3.0
    assert watch.pids() == frozenset()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (
            ("/usr/lib/postgresql/15/bin/postgres", "-D", "/var/lib/postgresql/15/main"),
            "postgres 15/main",
        ),
        (("postgres", "-D/srv/data", "-p", "5433"), "postgres 5433"),
        (("postgres", "-D", "/srv/pg-15/data", "-c", "a=b", "-c", "port=5434"), "postgres 5434"),
        (("/usr/sbin/mariadbd", "--datadir=/srv/m", "--port=3307"), "mariadbd 3307"),
        (("mariadbd", "--port"), "mariadbd"),
        (("/opt/app",), "app"),
        (("\x1b[31mred", "-p", "\x07"), None),
    ],
)
def test_a_server_is_called_by_what_tells_it_apart(
    words: tuple[str, ...], name: str | None, tmp_path: Path
) -> None:
    process(tmp_path, 10, "x", 1, *words)
    found = server_name(10, tmp_path)
    assert found is not None
    assert found.isprintable()
    if name is not None:
        assert found == name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("postgres: alice shop [local] idle in transaction", "alice shop [local]"),
        ("postgres: 15/main: alice shop 10.0.0.7(41234) SELECT", "alice shop 10.0.0.7(41234)"),
        ("postgres: checkpointer ", "checkpointer"),
        ("postgres: 15/main: background writer ", "background writer"),
        ("/usr/sbin/mariadbd", ""),
    ],
)
def test_a_session_is_called_by_user_and_database(title: str, name: str, tmp_path: Path) -> None:
    process(tmp_path, 11, "postgres", 10, title)
    assert session_name(11, tmp_path) == name
