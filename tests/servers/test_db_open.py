"""Operations of a database in progress: shown while they last, their time booked as it passes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.kernel.part import part_of
from tests.kernel.rig import Ioh, run
from tests.kernel.talker import wait_until
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Cluster, inside
from tests.servers.test_db import (
    ask,
    done_by,
    measured,
    restart,
    scheduled,
    wait_until_seen,
    watched,
)

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


def op(interval: dict[str, Any], name: str, server: str = "") -> dict[str, Any]:
    """An op of all servers, or of one: others may be running on this machine."""
    layer = interval["layers"]["db"]
    ops = layer["parts"]["server"].get(server, {}) if server else layer["ops"]
    idle = {"inflight": 0, "count": 0, "avg_inflight": 0.0}
    found: dict[str, Any] = ops.get(name, idle)
    return found


def of(cluster: Cluster) -> str:
    return f"postgres {cluster.port}"


def rows(interval: dict[str, Any], table: str, server: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = interval["layers"]["db"]["top"][table]
    return [row for row in found if row["server"] == server]


def lasting(during: list[dict[str, Any]], server: str, seconds: float) -> list[dict[str, Any]]:
    """These intervals, once the age of the oldest operation in progress has grown by so much."""
    ages = [max(row["age_us"] for row in rows(x, "in_progress", server)) for x in during]
    return during if len(ages) > 1 and ages[-1] - ages[0] > 1e6 * seconds else []


def since(ioh: Ioh, first: int) -> list[dict[str, Any]]:
    """The intervals from the one with that number on; the newest one is whole."""
    ioh.settle()
    return ioh.intervals[first:]


def spent_ns(ioh: Ioh, name: str, server: str = "") -> float:
    rates = (
        x["layers"]["db"]["interval_s"] * (op(x, name, server)["avg_inflight"] or 0.0)
        for x in ioh.intervals_of("db")
    )
    return 1e9 * sum(map(float, rates))


def test_sessions_that_wait_for_a_lock_are_shown_while_they_wait(
    cluster: Cluster, outside: Ioh
) -> None:
    with part_of(outside) as ioh, ExitStack() as waiters:
        holder = cluster.session("begin; lock table pgbench_branches in access exclusive mode")
        words = cluster.psql("-d", "bench", "-c", "select count(*) from pgbench_branches")
        for _ in range(3):
            waiters.enter_context(subprocess.Popen(words, stdout=subprocess.DEVNULL))
        wait_until(lambda: cluster.sql(WAITING) == "3")
        ioh.settle()
        ioh.settle()  # the waits of statements too young for the first reading are in the second
        first = len(ioh.intervals)
        during = wait_until(lambda: lasting(since(ioh, first), of(cluster), 2.0))
        holder.tell("rollback;")
        holder.close()
        waiters.close()
    assert len(during) >= 3
    for interval in during:
        lock, statement = (op(interval, name, of(cluster)) for name in ("lock_wait", "statement"))
        assert (lock["inflight"], lock["count"]) == (3, 0)
        assert lock["avg_inflight"] == pytest.approx(3, rel=0.05)
        assert statement["inflight"] == 3
        waits = {(w["within"], w["wait"]): w for w in rows(interval, "wait", of(cluster))}
        assert waits["statement", "lock_wait"]["avg_inflight"] == pytest.approx(3, rel=0.05)
        found = rows(interval, "in_progress", of(cluster))
        asked = [row for row in found if row["op"] == "statement"]
        assert [(row["wait"], row["count"]) for row in asked] == 3 * [("lock_wait", 1)]
        assert all("postgres bench" in row["session"] for row in asked)
    # Nothing is booked twice when they end.
    each = [op(x, "lock_wait", of(cluster)) for x in ioh.intervals_of("db")]
    assert max(x["avg_inflight"] or 0 for x in each) < 3.2
    whole_ns = 1e3 * sum(x["count"] * x["latency_us"] for x in each if x["count"])
    assert spent_ns(ioh, "lock_wait", of(cluster)) == pytest.approx(whole_ns, rel=0.01)
    waited = ioh.table("db", "wait", "within", "wait", "server")[
        "statement", "lock_wait", of(cluster)
    ]
    assert waited["wait_ns"] == pytest.approx(whole_ns, rel=0.01)
    assert waited["waits"] == 3


def test_time_of_a_long_statement_that_fails_is_booked_as_it_passes(
    cluster: Cluster,
) -> None:
    with watched() as ioh:
        began_s = time.monotonic()
        failing = "set statement_timeout = 4000; select pg_sleep(60)"
        subprocess.run(cluster.psql("-c", failing), check=False, capture_output=True)
        took_s = time.monotonic() - began_s
    assert 3.9e9 < spent_ns(ioh, "statement", of(cluster)) < took_s * 1e9
    each = [op(x, "statement", of(cluster)) for x in ioh.intervals_of("db")]
    assert any(x.get("errors_per_s") for x in each)
    seconds = [x["avg_inflight"] or 0 for x in each]
    assert max(seconds) < 1.1
    assert sum(n > 0.9 for n in seconds) >= 2
    rest = ioh.table("db", "wait", "within", "wait", "server")["statement", "rest", of(cluster)]
    assert rest["wait_ns"] == pytest.approx(4e9, rel=0.05)


@pytest.mark.parametrize("is_caught", [False, True])
def test_a_wait_for_a_lock_that_fails_is_over(cluster: Cluster, is_caught: bool) -> None:
    """The server leaves it by a jump, past its end; the session stays."""
    lock = "lock table pgbench_branches in access exclusive mode"
    failing = f"do $$ begin {lock}; exception when others then null; end $$" if is_caught else lock
    with (
        watched() as ioh,
        cluster.session(f"begin; {lock}") as holder,
        cluster.session("set lock_timeout = 3000") as waiting,
    ):
        ioh.settle()
        waiting.tell(f"begin;\n{failing};\nrollback;\n\\echo done")
        assert waiting.line() == "done"
        ioh.settle()
        first = len(ioh.intervals)
        after = [*since(ioh, first), *since(ioh, first + 1)]
        holder.tell("rollback;")
    assert {op(x, "lock_wait", of(cluster))["inflight"] for x in after} == {0}
    assert not any(rows(x, "in_progress", of(cluster)) for x in after)
    assert 2.5e9 < spent_ns(ioh, "lock_wait", of(cluster)) < 3.6e9
    if not is_caught:
        waits = ioh.table("db", "wait", "within", "wait", "server")
        waited = waits["statement", "lock_wait", of(cluster)]
        assert 2.9e9 < waited["wait_ns"] < 3.6e9


def test_cpu_time_of_a_long_statement_is_booked_as_it_passes(
    cluster: Cluster, outside: Ioh
) -> None:
    """Its time on a CPU, and in the queue for one, are those of the scheduler."""
    query = "select count(*) from generate_series(1, 12000000)"
    with measured(cluster) as (session, pid), part_of(outside) as ioh:
        before = scheduled(pid)
        ask(session, f"{query};\n")
        after = scheduled(pid)
    ran_ns, waited_ns = after[0] - before[0], after[1] - before[1]
    waits = ioh.table("db", "wait", "within", "wait", "server")
    assert waits["statement", "cpu", of(cluster)]["wait_ns"] == pytest.approx(ran_ns, rel=0.05)
    queued_ns = waits.get(("statement", "cpu_wait", of(cluster)), {"wait_ns": 0})["wait_ns"]
    assert queued_ns == pytest.approx(waited_ns, rel=0.05, abs=0.02 * ran_ns)
    shown = [
        row["avg_inflight"]
        for x in ioh.intervals_of("db")
        for row in rows(x, "wait", of(cluster))
        if (row["within"], row["wait"]) == ("statement", "cpu")
    ]
    # In intervals of 0.1 s: the first also has the 0.1 s in which the statement was too young to be
    # looked at, and one whose reading is late has some of the next.  At its end it would be 20.
    assert max(shown) < 2.1
    assert len(shown) >= 2


def test_a_commit_of_mariadb_is_in_progress_only_while_it_is_asked_for(outside: Ioh) -> None:
    """Each statement of a transaction begins one that does not come to pass."""
    with closing(MariaDB()) as maria, part_of(outside) as ioh:
        wait_until_seen(outside, 2)
        maria.sql("create table t (i int) engine=innodb")
        first = len(ioh.intervals)
        session = subprocess.Popen(maria.client("bench"), stdin=subprocess.PIPE, text=True)
        assert session.stdin is not None
        session.stdin.write("begin; insert t values (1); insert t values (2);\n")
        session.stdin.flush()
        outside.wait_for_lines(len(outside.output.lines) + 3)
        during = since(ioh, first)
        session.communicate("commit;\n", timeout=20)
        ioh.settle()
    assert {op(x, "commit")["inflight"] for x in during} == {0}
    ended_ns = 1e3 * ioh.latency_us("db", "commit") * ioh.total("db", "commit")
    assert spent_ns(ioh, "commit") == pytest.approx(ended_ns, rel=0.02, abs=50e6)


def test_a_standby_that_does_not_answer_is_reported_while_commits_wait(
    cluster: Cluster, outside: Ioh
) -> None:
    """The waits of commits that a standby confirms are counted, too; without one there are none."""
    with watched() as ioh:
        cluster.pgbench("-t", "20")
    assert ioh.total("db", "standby_wait") == 0
    cluster.stop()
    with (cluster.data / "pg_hba.conf").open("a") as access:
        access.write("local replication postgres peer\n")
    cluster.start(wal_level="replica", max_wal_senders=4, wal_keep_size="64MB")
    with closing(Standby(cluster)) as standby:
        cluster.sql("alter system set synchronous_standby_names = '*'")
        cluster.sql("select pg_reload_conf()")
        wait_until(lambda: cluster.sql("select sync_state from pg_stat_replication") == "sync")
        with watched(2) as ioh:
            assert done_by(cluster.pgbench("-N", "-t", "50")) == 50
            ioh.settle()
            assert ioh.total("db", "standby_wait") == 50
            assert not any("standby_no_answer" in rules(x) for x in ioh.intervals)
            os.kill(standby.receiver, signal.SIGSTOP)
            words = cluster.psql("-d", "bench", "-c", "create table waits ()")
            with subprocess.Popen(words, stdout=subprocess.DEVNULL) as waiting:
                wait_until(lambda: "standby_no_answer" in rules(ioh.intervals[-1]), 15)
                assert waiting.poll() is None
                told = rules(ioh.intervals[-1])["standby_no_answer"]
                os.kill(standby.receiver, signal.SIGCONT)
                assert waiting.wait(20) == 0
            wait_until(lambda: "standby_no_answer" not in rules(ioh.intervals[-1]), 20)
        cluster.sql("alter system reset synchronous_standby_names")
        cluster.sql("select pg_reload_conf()")
    assert told["severity"] == "critical"
    assert "1 commit waits for a synchronous standby, the longest for" in told["cause"]
    restart(cluster, outside)  # other tests find it measured


def rules(interval: dict[str, Any]) -> dict[str, Any]:
    return {finding["rule"]: finding for finding in interval["findings"]}


class Standby:
    """A standby of a cluster on this machine, with its own data, socket and port."""

    def __init__(self, of: Cluster) -> None:
        self._of, self.home = of, of.home / "standby"
        words = ("-D", self.home, "-R", "-X", "stream", "-c", "fast")
        run(*of.client("pg_basebackup", *words))
        where = f"-c port={int(str(of.port)) + 1} -c unix_socket_directories={inside(self.home)}"
        of.as_user("pg_ctl", "-D", self.home, "-w", "-l", of.home / "log2", "-o", where, "start")

    @property
    def receiver(self) -> int:
        """The process that receives the log."""
        pid = (self.home / "postmaster.pid").read_text().split()[0]
        return int(run("pgrep", "--parent", pid, "--full", "walreceiver"))

    def close(self) -> None:
        self._of.as_user("pg_ctl", "-D", self.home, "-w", "-m", "immediate", "stop")
