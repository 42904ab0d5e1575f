"""Which processes run a server, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.procfs.processes import ServerProcesses, server_name, session_name


def process(root: Path, pid: int, comm: str, parent: int, *words: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({comm}) S {parent}" + 18 * " 0")
    (folder / "cmdline").write_text("\0".join((*words, "")))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [100.0]
    monkeypatch.setattr("ioh.procfs.processes.time.monotonic", lambda: now_s[0])
    return now_s


def found_later(watch: ServerProcesses, clock: list[float]) -> frozenset[int]:
    clock[0] += 3.0
    return watch.pids()


def test_the_first_of_a_servers_processes_is_the_server(tmp_path: Path) -> None:
    process(tmp_path, 1, "init", 0)
    process(tmp_path, 10, "postgres", 1)
    process(tmp_path, 11, "postgres", 10)
    process(tmp_path, 12, "postgres) S 10 (x", 1)
    process(tmp_path, 20, "mariadbd", 1)
    assert ServerProcesses(["postgres", "mariadbd"], tmp_path).pids() == {10, 20}


def test_a_program_that_is_started_after_the_fork_is_found(
    tmp_path: Path, clock: list[float]
) -> None:
    process(tmp_path, 10, "sh", 1)
    watch = ServerProcesses(["postgres"], tmp_path)
    assert found_later(watch, clock) == frozenset()
    process(tmp_path, 10, "postgres", 1)
    assert found_later(watch, clock) == {10}
    (tmp_path / "proc/10/stat").unlink()
    assert found_later(watch, clock) == frozenset()


def test_it_does_not_look_all_the_time(tmp_path: Path, clock: list[float]) -> None:
    watch = ServerProcesses(["postgres"], tmp_path)
    assert watch.pids() == frozenset()
    process(tmp_path, 10, "postgres", 1)
    assert watch.pids() == frozenset()
    clock[0] += 3.0
    assert watch.pids() == {10}


def test_a_long_name_is_cut_as_the_kernel_cuts_it(tmp_path: Path) -> None:
    process(tmp_path, 10, "a_server_with_a", 1)
    assert ServerProcesses(["a_server_with_a_name"], tmp_path).pids() == {10}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (
            ("/usr/lib/postgresql/15/bin/postgres", "-D", "/var/lib/postgresql/15/main"),
            "postgres 15/main",
        ),
        (("postgres", "-D/srv/data", "-p", "5433"), "postgres 5433"),
        (("postgres", "-D", "/srv/pg-15/data", "-c", "a=b", "-c", "port=5434"), "postgres 5434"),
        (("postgres", "-c"), "postgres"),
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


def test_what_has_no_command_line_has_no_name(tmp_path: Path) -> None:
    assert server_name(10, tmp_path) is None
    process(tmp_path, 10, "kthread", 2)
    assert server_name(10, tmp_path) is None
    assert session_name(10, tmp_path) is None


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("postgres: alice shop [local] idle in transaction", "alice shop [local]"),
        ("postgres: 15/main: alice shop 10.0.0.7(41234) SELECT", "alice shop 10.0.0.7(41234)"),
        ("postgres: checkpointer ", "checkpointer"),
        ("postgres: 15/main: background writer ", "background writer"),
        ("postgres: alice shop [local]", "alice shop [local]"),
        ("/usr/sbin/mariadbd", ""),
    ],
)
def test_a_session_is_called_by_user_and_database(title: str, name: str, tmp_path: Path) -> None:
    process(tmp_path, 11, "postgres", 10, title)
    assert session_name(11, tmp_path) == name
