"""Layer ``db`` with a real PostgreSQL: its counts from outside equal the server's own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from operator import sub
from pathlib import Path

import pytest

from tests.kernel.part import part_of
from tests.kernel.rig import Ioh, recording
from tests.kernel.talker import Talker, settled, wait_until
from tests.servers.postgres import Cluster, give_to, inside

LAYER = ("--layers", "db")
REPORT_S = 1.5
COUNTERS = {
    "commit": "select sum(xact_commit) from pg_stat_database",
    "data_read": "select sum(blks_read) from pg_stat_database",
    "log_full": "select wal_buffers_full from pg_stat_wal",
    "log_sync": "select wal_sync from pg_stat_wal",
}


def counters(cluster: Cluster) -> dict[str, int]:
    # Sessions and the log writer take a second to report.  Readings change the counters themselves,
    # so there is no moment at which two are equal.
    time.sleep(REPORT_S)
    asked = dict(COUNTERS)
    if cluster.version >= 18:
        io = "from pg_stat_io where object {} 'wal'"
        asked["log_sync"] = f"select sum(fsyncs) {io.format('=')} and context = 'normal'"
        asked |= {name: f"select sum({name}) {io.format('<>')}" for name in ("reads", "read_bytes")}
    found = cluster.sql("select " + ", ".join(f"({sql})" for sql in asked.values()))
    return dict(zip(asked, map(int, found.split("|")), strict=True))


@contextlib.contextmanager
def counted(cluster: Cluster) -> Iterator[dict[str, int]]:
    """What the server counts inside the block, without the queries that read its counters."""
    calm = counters(cluster)
    before = counters(cluster)
    server: dict[str, int] = {}
    yield server
    after = counters(cluster)
    server.update({name: after[name] - 2 * before[name] + calm[name] for name in after})


def is_seen(ioh: Ioh, count: int = 1) -> bool:
    layers = [interval["layers"] for interval in ioh.intervals[-1:]]
    return any((x.get("db", {}).get("metrics", {}).get("servers") or 0) >= count for x in layers)


def wait_until_seen(ioh: Ioh, count: int = 1) -> None:
    wait_until(lambda: is_seen(ioh, count), why=lambda: ioh.raw[-3000:])


def running_statements(ioh: Ioh) -> int | None:
    layer = ioh.intervals[-1]["layers"].get("db", {"metrics": {}})
    running: int | None = layer["metrics"].get("running_statements")
    return running


def restart(cluster: Cluster, outside: Ioh, **settings: str) -> None:
    """Restart the server, which empties its buffers, with these settings for as long as it runs."""
    cluster.stop()
    wait_until(lambda: not is_seen(outside))
    cluster.start(**settings)
    wait_until_seen(outside)


@contextlib.contextmanager
def watched(count: int = 1) -> Iterator[Ioh]:
    with recording(*LAYER) as ioh:
        wait_until_seen(ioh, count)
        yield ioh
    assert not ioh.lost("db")


def done_by(told: str) -> int:
    """Transactions, as pgbench reports them."""
    found = re.search(r"actually processed: (\d+)", told)
    assert found is not None, told
    return int(found[1])


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_statements_commits_and_log_syncs(cluster: Cluster, outside: Ioh, protocol: str) -> None:
    with counted(cluster) as server, part_of(outside) as ioh:
        assert done_by(cluster.pgbench("-c", "4", "-t", "250", "-M", protocol)) == 1000
    assert ioh.total("db", "commit") == server["commit"]
    assert ioh.total("db", "log_sync") == server["log_sync"] > 100
    # Seven in each transaction, including BEGIN and END, and pgbench's first queries.
    assert 7000 <= ioh.total("db", "statement") <= 7000 + 10
    assert ioh.errors("db", "statement") == 0
    sessions = ioh.table("db", "session", "session")
    assert sum(row["commits"] for row in sessions.values()) == server["commit"]
    assert max(row["statements"] for row in sessions.values()) >= 1750
    waits = ioh.table("db", "wait", "within", "wait")
    assert waits["statement", "rest"]["waits"] == ioh.total("db", "statement")
    assert waits["commit", "log_sync"]["waits"] <= server["log_sync"]


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_queries_inside_a_function_are_part_of_one_statement(
    cluster: Cluster, outside: Ioh, protocol: str
) -> None:
    body = "for i in 1..20 loop perform count(*) from pgbench_branches where bid = i; end loop;"
    cluster.sql(f"create or replace function f() returns int language plpgsql as "
                f"$$ begin {body} return 1; end $$", "bench")  # fmt: skip
    with part_of(outside) as ioh:
        cluster.run_script("select f();", "-t", "50", "-M", protocol)
    assert ioh.total("db", "statement") in {50, 51, 52}
    assert ioh.errors("db", "statement") == 0
    assert running_statements(ioh) == 0


def test_a_pipeline_up_to_its_sync_is_one_statement(cluster: Cluster, outside: Ioh) -> None:
    script = "\\startpipeline\nselect 1;\nselect 2;\nselect 3;\n\\endpipeline"
    with part_of(outside) as ioh:
        cluster.run_script(script, "-t", "40", "-M", "extended")
    assert ioh.total("db", "statement") in {40, 41, 42}


def test_reads_of_data_and_their_bytes(cluster: Cluster, outside: Ioh) -> None:
    restart(cluster, outside)
    counters(cluster)  # reads the catalogue into the buffers; what follows does not fill them
    with counted(cluster) as server, part_of(outside) as ioh:
        cluster.pgbench("-S", "-t", "800")
    assert ioh.total("db", "data_read", "bytes") == server["data_read"] * 8192 > 500 * 8192
    if cluster.version < 17:  # one read for each block
        assert ioh.sizes("db", "data_read") == {8192: server["data_read"]}


def test_reads_of_several_sessions_by_each_io_method(cluster: Cluster, outside: Ioh) -> None:
    """Since 18, blks_read exceeds what was read if sessions ask for the same blocks at once."""
    query = "set max_parallel_workers_per_gather = 0; select max(bid) from pgbench_accounts"
    scan = cluster.psql("-d", "bench", "-o", "/dev/null", "-c", query)
    methods = ("worker", "sync", "io_uring") if cluster.version >= 18 else ()
    for settings in [{"io_method": method} for method in methods] or [{}]:
        restart(cluster, outside, **settings)
        try:
            counters(cluster)
            with counted(cluster) as server, part_of(outside) as ioh:
                scans = [subprocess.Popen(scan) for _ in range(4)]
                assert {each.wait(60) for each in scans} == {0}
        finally:
            restart(cluster, outside)
        reads = server.get("reads", server["data_read"])
        assert ioh.total("db", "data_read") == reads > 0
        assert ioh.total("db", "data_read", "bytes") == server.get("read_bytes", 8192 * reads)
        assert ioh.total("db", "data_read", "bytes") > 3000 * 8192


def test_reads_of_a_file_that_is_copied(cluster: Cluster, outside: Ioh) -> None:
    """They bypass the buffers; no statistics view has them."""
    place = cluster.home / "place"
    place.mkdir()
    give_to("postgres", place)
    cluster.sql(f"create tablespace place location '{inside(place)}'")
    cluster.sql("create table copied as select generate_series(1, 100000)")
    size = int(cluster.sql("select pg_relation_size('copied')"))
    with part_of(outside) as ioh:
        cluster.sql("alter table copied set tablespace place")
    cluster.sql("drop table copied")
    cluster.sql("drop tablespace place")
    assert size <= ioh.total("db", "data_read", "bytes") < size + 100 * 8192


def test_time_of_reads_agrees_with_explain(cluster: Cluster, outside: Ioh) -> None:
    """EXPLAIN's interval encloses ours: it has our two traps and waits for a CPU in addition."""
    restart(cluster, outside)
    query = "select sum(abalance) from pgbench_accounts"
    with measured(cluster) as (session, pid):
        ask(session, f"set max_parallel_workers_per_gather = 0; explain {query};\n")
        with part_of(outside) as ioh:
            _, before_ns = scheduled(pid)
            told = ask(session, f"explain (analyze, buffers, format json) {query};\n")
            _, after_ns = scheduled(pid)
    plan = json.loads("".join(told))[0]["Plan"]
    read = ioh.table("db", "wait", "within", "wait")["statement", "data_read"]
    blocks, most = plan["Shared Read Blocks"], 1 if cluster.version < 17 else 16
    assert 1000 < blocks <= read["waits"] * most
    assert read["waits"] <= blocks
    says = plan.get("I/O Read Time") or plan["Shared I/O Read Time"]  # its name since 17
    around_ns = says * 1e6 - read["wait_ns"]
    assert 0 <= around_ns <= 5e3 * read["waits"] + after_ns - before_ns


def test_writes_of_the_log_because_its_buffers_are_full(cluster: Cluster, outside: Ioh) -> None:
    sql = "update pgbench_accounts set abalance = 1 where aid < 50000"
    with counted(cluster) as server, part_of(outside) as ioh:
        cluster.sql(sql, "bench")
    assert ioh.total("db", "log_full") == server["log_full"] > 100


def test_writes_of_a_checkpoint_agree_with_the_server(cluster: Cluster, outside: Ioh) -> None:
    cluster.pgbench("-t", "300")
    sql = "select buffers_checkpoint from pg_stat_bgwriter"
    if cluster.version >= 17:
        sql = "select buffers_written from pg_stat_checkpointer"
    before = int(cluster.sql(sql))
    with part_of(outside) as ioh:
        cluster.sql("checkpoint")
    written = settled(lambda: int(cluster.sql(sql))) - before
    assert ioh.total("db", "checkpoint") == 1
    # SLRUs (the commit log) count as buffers of the checkpoint, too, but are not data files.
    assert 0 <= written - ioh.total("db", "data_write") <= 4
    assert ioh.total("db", "data_write", "bytes") == ioh.total("db", "data_write") * 8192


def test_latency_of_statements_agrees_with_pgbench(cluster: Cluster, outside: Ioh) -> None:
    # So long that pgbench's own wait for a CPU, a millisecond beside other tests, does not matter.
    with part_of(outside) as ioh:
        told = cluster.run_script("select pg_sleep(0.2);", "-t", "12")
    latency_ms = re.search(r"latency average = ([\d.]+) ms", told)
    assert latency_ms is not None, told
    assert ioh.total("db", "statement") in {12, 13, 14}
    slept = [n for n in ioh.ops("db", "statement") if (n["count"] or 0) and n["latency_us"] > 199e3]
    assert len(slept) >= 5
    mean_us = sum(n["latency_us"] * n["count"] for n in slept) / sum(n["count"] for n in slept)
    assert mean_us == pytest.approx(float(latency_ms[1]) * 1e3, rel=0.02)
    assert mean_us <= float(latency_ms[1]) * 1e3 + 1


@pytest.mark.parametrize(
    ("query", "least", "most"),
    [
        pytest.param("select count(*) from generate_series(1, 3000)", 0.7, 1.0, id="calculates"),
        pytest.param("select pg_sleep(0.02)", 0.0, 0.05, id="sleeps"),
    ],
)
def test_cpu_time_agrees_with_the_scheduler(
    cluster: Cluster, outside: Ioh, query: str, least: float, most: float
) -> None:
    """Even for statements so short that the scheduler has not read its clock meanwhile.

    The scheduler's statistics of the session say how long it was on a CPU, and how long it waited
    for one that others used.
    """
    with measured(cluster) as (session, pid), part_of(outside) as ioh:
        before = scheduled(pid)
        ask(session, 200 * f"{query};\n")
        after = scheduled(pid)
    ran_ns, waited_ns = map(sub, after, before)
    waits = ioh.table("db", "wait", "within", "wait")
    cpu, rest = waits["statement", "cpu"], waits["statement", "rest"]
    assert cpu["waits"] == 200
    assert least * ran_ns <= cpu["wait_ns"] <= most * cpu["whole_ns"]
    queued_ns = waits.get(("statement", "cpu_wait"), {"wait_ns": 0})["wait_ns"]
    assert queued_ns <= waited_ns
    waited = waited_ns / rest["whole_ns"]
    others = (rest["wait_ns"] + queued_ns) / rest["whole_ns"]
    assert 1 - most - 0.01 <= others <= 1 - least + waited


def scheduled(pid: str) -> tuple[int, int]:
    """Nanoseconds on a CPU, and waiting for one, of a process that sleeps."""
    ran, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    return ran, waited


@contextlib.contextmanager
def measured(cluster: Cluster) -> Iterator[tuple[Talker, str]]:
    """A session and its process."""
    with cluster.session("set application_name = 'measured'") as session:
        yield (
            session,
            cluster.sql("select pid from pg_stat_activity where application_name = 'measured'"),
        )


def ask(session: Talker, text: str) -> list[str]:
    """What a session prints for this text, once it is done."""
    session.tell(f"{text}\\echo done")
    return list(iter(session.line, "done"))


def test_a_statement_that_fails_and_one_that_waits_for_a_lock(
    cluster: Cluster, outside: Ioh
) -> None:
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    with part_of(outside) as ioh:
        subprocess.run(cluster.psql("-c", "select 1/0"), check=False, capture_output=True)
        holder = cluster.session("begin; lock table pgbench_branches in access exclusive mode")
        asking = cluster.psql("-d", "bench", "-c", "select count(*) from pgbench_branches")
        began_s = time.monotonic()
        with subprocess.Popen(asking, stdout=subprocess.DEVNULL):
            wait_until(lambda: cluster.sql(waiting) == "1")
            waits_s = time.monotonic()
            time.sleep(1)
            ends_s = time.monotonic()
            holder.tell("rollback;")
            holder.close()
        ended_s = time.monotonic()
    assert ioh.errors("db", "statement") == 2  # and ROLLBACK, whose transaction is aborted
    assert ioh.total("db", "lock_wait") == 1
    waited_us = ioh.latency_us("db", "lock_wait")
    assert ends_s - waits_s < waited_us / 1e6 < ended_s - began_s
    waits = ioh.table("db", "wait", "within", "wait")
    assert waits["statement", "lock_wait"]["wait_ns"] == pytest.approx(waited_us * 1e3, rel=0.01)
