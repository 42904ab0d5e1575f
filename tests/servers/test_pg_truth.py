"""``--pg`` when it is late, marked, or measured itself; and who blocks whom."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.rig import Ioh, ioh_ended, recording
from tests.kernel.talker import settled, wait_until
from tests.servers.postgres import Cluster
from tests.servers.test_pg import ONLY, await_sample, recorder, rows, seen, wait_for

OWN_PID = "select pid from pg_stat_activity where application_name = 'ioh'"


def commits(cluster: Cluster) -> int:
    query = "select xact_commit from pg_stat_database where datname = 'bench'"
    return settled(lambda: int(cluster.sql(query)))


def bench(ioh: Ioh, first: int = 0) -> list[tuple[float, dict[str, Any]]]:
    """Length and numbers of the database in each interval that has them."""
    layers = [x["layers"]["pg"] for x in ioh.intervals[first:] if "pg" in x["layers"]]
    parts = [(x["interval_s"], x["parts"]["database"].get("bench", {})) for x in layers]
    return [(seconds, ops["commit"]) for seconds, ops in parts if "commit" in ops]


def test_rates_after_a_late_answer_are_those_of_the_time_between_two(cluster: Cluster) -> None:
    with recording(*ONLY, "--pg", cluster.dsn, cycle_s=1.0) as ioh:
        wait_for(ioh, lambda: len(seen(ioh)) > 1)
        before = commits(cluster)
        ioh.settle()
        first = len(ioh.intervals)
        load = subprocess.Popen(
            cluster.client("pgbench", "-n", "-N", "-c", "5", "-R", "100", "-T", "12", "bench"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        pid = int(cluster.sql(OWN_PID))
        for _ in range(3):
            time.sleep(1.5)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1.2)
            os.kill(pid, signal.SIGCONT)
        assert load.wait(60) == 0
        done = commits(cluster) - before
        wait_until(lambda: sum(c["count"] or 0 for _, c in bench(ioh, first)) >= done - 5, 20)
        ioh.settle()
    layer = [x["layers"]["pg"]["ops"]["commit"]["count"] for x in ioh.intervals[first:]]
    assert None in layer
    counted = bench(ioh, first)
    assert max(c["ops_per_s"] or 0 for _, c in counted) < 160
    assert max(seconds for seconds, _ in counted) > 1.5
    found = sum(c["count"] or 0 for _, c in counted)
    assert found == pytest.approx(commits(cluster) - before, abs=20)


def set_mark(path: Path, text: str) -> None:
    assert ioh_ended("mark", "--file", str(path), text).returncode == 0


def test_marks_keep_the_layer_with_statements_and_waits(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "run.ioh"
    cluster.sql("create table big as select i, i % 1000 j from generate_series(1, 400000) i",
                "bench")  # fmt: skip
    query = "select count(*) from big where j = 7"
    with recorder(cluster, path) as process:
        try:
            await_sample(path)
            for mark in ("before", "between", "after"):
                set_mark(path, mark)
                time.sleep(0.37)  # within an interval, where the mark finds no new answer
                if mark == "between":
                    cluster.sql("create index on big (j)", "bench")
                    set_mark(path, "indexed")
                if mark != "after":
                    cluster.run_script(query + ";", "-t", "40")
                    time.sleep(1.6)
        finally:
            process.terminate()
        assert process.wait(30) == 0
    spans = ("--from", "before", "--to", "between", "--from-b", "indexed", "--to-b", "after")
    told = ioh_ended("compare", str(path), str(path), *spans).stdout
    assert "postgresql commit" in told
    found = told.partition("postgresql statements: bench  select count(*) from big where j = $1")[2]
    lines = {line.split()[0]: line.split()[1:3] for line in found.splitlines()[1:4]}
    assert float(lines["mean"][1] if lines["mean"][0] == "ms" else lines["mean"][0]) > 0
    for begin, end in (("before", "between"), ("indexed", "after")):
        report = ioh_ended("report", str(path), "--from", begin, "--to", end, "-d", "all").stdout
        assert "postgresql commit" in report
        assert "select count(*) from big where j = $1" in report


def test_ioh_does_not_measure_itself(cluster: Cluster) -> None:
    with recording("--layers", "db,pg", "--pg", cluster.dsn, cycle_s=1.0) as ioh:
        wait_for(ioh, lambda: len(seen(ioh)) > 1)
        ioh.settle()
        first = len(ioh.intervals)
        for _ in range(4):
            ioh.settle()
        during = ioh.intervals[first:]
        cluster.sql("select 17")  # another session is counted
        ioh.settle()
    assert len(during) >= 3
    counts = [x["layers"]["db"]["ops"]["statement"]["count"] for x in during]
    assert counts == [0] * len(during)
    assert ioh.total("db", "statement") >= 1
    asked = {row["statement"] for row in rows(ioh, "statement")}
    assert not any("pg_stat_" in statement for statement in asked), asked


def test_the_session_that_blocks_others_is_named(cluster: Cluster) -> None:
    cluster.sql("create table small as select 1 id, 'a' t", "bench")
    with recording(*ONLY, "--pg", cluster.dsn, cycle_s=1.0) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        holder = cluster.session("begin; update small set t = 'secret words' where id = 1")
        pid = cluster.sql("select pid from pg_stat_activity where state ~ 'idle in'")
        words = cluster.psql("-d", "bench", "-c", "update small set t = 'other words'")
        waiting = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(2)]

        def findings() -> dict[str, Any]:
            newest: list[dict[str, Any]] = ioh.intervals[-1]["findings"]
            return {finding["rule"]: finding for finding in newest}

        wait_for(ioh, lambda: "blocking_session" in findings())
        named = findings()["blocking_session"]
        blocked = {row["pid"]: row["blocked_by"] for row in rows(ioh, "session")}
        holder.tell("rollback;")
        holder.close()
        assert [each.wait(10) for each in waiting] == [0, 0]
        wait_for(ioh, lambda: "blocking_session" not in findings())
    assert named["cause"].startswith(f"2 sessions wait for a lock of session {pid} (postgres in")
    assert 'its last statement: "update small set t = ? where id = ?;")' in named["cause"]
    assert b"secret words" not in ioh.raw
    assert pid in blocked.values()
