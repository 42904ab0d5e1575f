"""Layer ``db`` with a real MariaDB: it counts what was asked, and agrees with the counters."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.kernel.part import part_of
from tests.kernel.rig import Ioh, recording, run
from tests.servers.mariadb import IS_MYSQL, MariaDB
from tests.servers.test_db import wait_until_seen

ONLY = ("--layers", "db")
_STATEMENTS = re.compile(r"Com_(?!stmt_)\w+")


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    made = MariaDB()
    made.sql("create table t (id int primary key auto_increment, v int) engine=innodb")
    made.sql("create table m (i int) engine=myisam")
    run(*made.sysbench("oltp_read_write", "prepare"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def outside(server: MariaDB) -> Iterator[Ioh]:
    """The ioh that counts from outside, in all tests."""
    with recording(*ONLY) as ioh:
        wait_until_seen(ioh)
        yield ioh
    assert ioh.lost("db") == {}


@pytest.fixture
def table(server: MariaDB) -> MariaDB:
    server.sql("truncate table t")
    return server


def known(before: dict[str, int], after: dict[str, int]) -> int:
    """Statements between two readings, the first of which counts itself."""
    return 1 + sum(after[name] - before[name] for name in after if _STATEMENTS.fullmatch(name))


def asked_by_clients(sessions: int) -> int:
    """MySQL's client sends two statements of its own at its start; ``Com_…`` counts one of them."""
    return sessions + 1 if IS_MYSQL else 0


def errors(ioh: Ioh) -> int:
    return sum(ioh.errors("db", op) for op in ("statement", "commit"))


@pytest.mark.parametrize(
    ("text", "statements", "commits"),
    [
        ("insert t values (1,1); insert t values (2,2); select * from t; select 1", 4, 3),
        ("begin; insert t values (3,3); update t set v=4; delete from t; commit", 5, 1),
        ("begin; insert t values (3,3); rollback; select 1", 4, 0),
        ("insert t values (1,1); insert t values (1,1); nonsense", 3, 1),
        ("begin; insert t values (1,1); insert t values (1,1); commit", 4, 1),
        ("set autocommit=0; insert t values (1,1); commit; insert t values (2,2)", 4, 1),
        ("begin; insert t values (1,1); begin; insert t values (2,2); commit", 5, 2),
        ("xa start 'a';insert t values (); xa end 'a'; xa prepare 'a'; do sleep(1); xa commit 'a'",
         6, 1),
        ("xa start 'b'; insert t values (1,1); xa end 'b'; xa commit 'b' one phase", 4, 1),
        ("xa start 'c'; insert t values (1,1); xa end 'c'; xa prepare 'c'; xa rollback 'c'", 5, 0),
        ("set @a=1; prepare x from 'insert t values (?,?)'; execute x using @a,@a; drop prepare x",
         4, 1),
        # MariaDB reads its own tables of statistics when it opens a table for the first time.
        ("flush tables; prepare x from 'update t set v = 1'; begin; do sleep(1); rollback", 5, 0),
        ("flush tables; select * from m", 2, 0),
    ],
)  # fmt: skip
def test_statements_and_commits_are_those_requested(
    outside: Ioh, table: MariaDB, text: str, statements: int, commits: int
) -> None:
    with part_of(outside) as ioh:
        table.sql(text)
    statements += asked_by_clients(1)
    assert (ioh.total("db", "statement"), ioh.total("db", "commit")) == (statements, commits)
    assert errors(ioh) == 0
    assert not commits or ioh.latency_us("db", "commit") < 400_000


def test_counts_agree_with_the_servers_counters(outside: Ioh, table: MariaDB) -> None:
    with part_of(outside) as ioh:
        before = table.status()
        table.sql("insert t (v) values (3), (1), (2);" + 97 * "insert t (v) select max(v) from t;")
        table.sql(53 * "select * from t order by v limit 3;" + 13 * "select distinct v from t;")
        after = table.status()
    assert ioh.total("db", "statement") == known(before, after) + asked_by_clients(4)
    assert ioh.total("db", "commit") == 98 + 53 + 13
    sorts = sum(after[name] - before[name] for name in ("Sort_scan", "Sort_range"))
    assert ioh.total("db", "sort") == sorts == 53


@pytest.mark.parametrize("prepared", ["auto", "disable"])
def test_counts_agree_with_sysbench(outside: Ioh, server: MariaDB, prepared: str) -> None:
    options = ("--threads=4", "--events=211", "--time=0", f"--db-ps-mode={prepared}")
    with part_of(outside) as ioh:
        before = server.status()
        told = run(*server.sysbench("oltp_read_write", "run", *options))
        after = server.status()
    counted = {name: int(n) for name, n in re.findall(r"(\w+):\s+(\d+)", told)}
    assert ioh.total("db", "commit") == after["Com_commit"] - before["Com_commit"]
    assert ioh.total("db", "commit") == counted["transactions"]
    statements = known(before, after) + asked_by_clients(2)
    assert ioh.total("db", "statement") == statements
    assert statements >= counted["total"] + 2
    sessions = ioh.table("db", "session", "pid")
    assert sum(row["statements"] for row in sessions.values()) == statements


@pytest.mark.parametrize(
    ("holder", "waiter", "rows", "waits"),
    [
        ("begin; update t set v = 7; do sleep(2)", "update t set v = 8", 1, 1),
        # MDL_context::acquire_lock() waits for a second at a time.
        ("begin; select * from t; do sleep(2)", "alter table t force", 0, 2),
    ],
    ids=["row", "metadata"],
)
def test_waits_for_locks(
    outside: Ioh, table: MariaDB, holder: str, waiter: str, rows: int, waits: int
) -> None:
    table.sql("insert t values (1, 1)")
    with part_of(outside) as ioh:
        before = table.status()
        with subprocess.Popen(table.client("bench", "-e", holder), stdout=subprocess.DEVNULL):
            time.sleep(0.5)
            clock = "select sysdate(6)"
            said = table.sql(f"{clock}; {waiter}; {clock}").splitlines()
        after = table.status()
    begun, ended = (datetime.fromisoformat(line) for line in said if line.startswith("20"))
    waited_us = (ended - begun) / timedelta(microseconds=1)
    assert ioh.total("db", "lock_wait") == waits  # the sleep does not count
    assert 0.8 * waited_us < waits * ioh.latency_us("db", "lock_wait") < waited_us
    assert after["Innodb_row_lock_waits"] - before["Innodb_row_lock_waits"] == rows
    told_ms = after["Innodb_row_lock_time"] - before["Innodb_row_lock_time"]
    assert not rows or ioh.latency_us("db", "lock_wait") == pytest.approx(told_ms * 1000, 0.05)
    within = ioh.table("db", "wait", "within", "wait")
    assert within["statement", "lock_wait"]["waits"] == waits


def test_operations_without_an_exported_function_are_unknown(outside: Ioh, table: MariaDB) -> None:
    with part_of(outside) as ioh:
        table.sql("insert t values (1,1)")
    ops = ioh.intervals[-1]["layers"]["db"]["ops"]
    assert ops["statement"]["count"] is not None
    for op in ("log_sync", "log_write", "data_read", "data_write"):
        assert ops.get(op, {}).get("count") is None, op


def test_a_server_is_counted_after_a_kill_and_a_restart(outside: Ioh, table: MariaDB) -> None:
    with part_of(outside) as ioh:
        table.process.kill()
        table.process.wait(10)
        (table.home / "s").unlink(missing_ok=True)
        table.start()
        table.sql("insert t values (1,1); select 1")
        wait_until_seen(outside)
    assert ioh.total("db", "statement") == 2 + asked_by_clients(1)
    assert ioh.total("db", "commit") > 1  # the server reads its own tables at its start
