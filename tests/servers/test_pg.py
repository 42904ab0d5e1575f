"""``--pg`` with a real PostgreSQL: its counts equal those of the views, and it is no burden."""

from __future__ import annotations

import json
import pwd
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ioh.model.errors import IohError
from ioh.model.sample import LayerSample
from ioh.pg.connection import PgError, connect
from ioh.pg.login import Login
from ioh.session.reader import Session
from tests.kernel.rig import Ioh, ioh_command, ioh_ended, ioh_environment, recording
from tests.kernel.talker import settled, wait_until
from tests.servers.postgres import PASSWORD, Cluster
from tests.support.pty_screen import PtyScreen

ONLY = ("--proc", "--layers", "pg")
OWN = "select count(*) from pg_stat_activity where application_name = 'ioh'"
COUNTERS = """select (select xact_commit || ' ' || blks_read from pg_stat_database
  where datname = 'bench') || ' ' || wal_bytes || ' ' || {writes} from pg_stat_wal"""
LOG_WRITES = "wal_write || ' ' || wal_sync"
LOG_WRITES_18 = """(select sum(writes) || ' ' || sum(fsyncs) from pg_stat_io
  where object = 'wal' and context = 'normal')"""


def seen(ioh: Ioh) -> list[dict[str, Any]]:
    """The layer in each interval in which it has counts: not if the server answered late."""
    layers = (interval["layers"].get("pg", {}) for interval in ioh.intervals)
    known = [(layer, layer.get("ops", {}).get("commit", {}).get("count")) for layer in layers]
    return [layer for layer, count in known if count is not None]


def rows(ioh: Ioh, table: str) -> list[dict[str, Any]]:
    """A table's rows, also of late answers, each with its interval's length as ``seconds``."""
    return [
        row | {"seconds": interval["interval_s"]}
        for interval in ioh.intervals_of("pg")
        for row in interval["layers"]["pg"].get("top", {}).get(table, [])
    ]


def wait_for(ioh: Ioh, what: Callable[[], Any], seconds: int = 40) -> None:
    for _ in range(seconds):
        if what():
            return
        ioh.settle()
    raise AssertionError(ioh.raw[-3000:])


def samples_of(path: Path) -> list[LayerSample]:
    """Samples of the layer so far: the file may still be growing."""
    with Session(str(path)) as session:
        found = [tick.sample for tick in session.ticks(0)]
    layers = [sample.layers["pg"] for sample in found]
    return [x for x in layers if isinstance(x, LayerSample) and x.metrics["sessions"] is not None]


def await_sample(path: Path) -> None:
    """Wait until the recording has a query of the server that began after this call."""

    def count() -> int:
        with suppress(IohError, OSError):  # nothing is in it yet
            return len(samples_of(path))
        return 0

    wanted = count() + 2
    wait_until(lambda: count() >= wanted)


def recorder(cluster: Cluster, path: Path) -> subprocess.Popen[bytes]:
    command = ioh_command("record", "-o", str(path), *ONLY, "--pg", cluster.dsn)
    with (path.parent / "stderr").open("wb") as messages:
        return subprocess.Popen(command, env=ioh_environment(), stderr=messages)


def counters(cluster: Cluster) -> list[int]:
    writes = LOG_WRITES if cluster.version < 18 else LOG_WRITES_18
    query = COUNTERS.format(writes=writes)
    return settled(lambda: [int(n) for n in cluster.sql(query).split()])


def test_its_counts_are_those_of_the_views(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "run.ioh"
    cluster.sql("vacuum")  # with checksums, 18's default, the first read of a row may write log
    before = counters(cluster)
    process = recorder(cluster, path)
    await_sample(path)
    cluster.pgbench("-c", "4", "-t", "101")
    after = counters(cluster)
    await_sample(path)
    process.terminate()
    assert process.wait(30) == 0
    readings = samples_of(path)

    def told(sample: LayerSample) -> list[int | float | None]:
        bench = sample.parts["bench"]
        log, sync = sample.ops["log_write"], sample.ops["log_sync"]
        read = bench["data_read"].count_total
        return [
            bench["commit"].count_total, read, log.bytes_total, log.count_total, sync.count_total,
        ]  # fmt: skip

    assert told(readings[0]) == before
    assert told(readings[-1]) == after
    assert after[0] - before[0] >= 404
    assert all(late > early for early, late in zip(before[2:], after[2:], strict=True))


def test_statements_sessions_and_waits(cluster: Cluster) -> None:
    with recording(*ONLY, "--pg", cluster.dsn, cycle_s=1.0) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        holder = cluster.session("begin; lock table pgbench_history in access exclusive mode")
        query = "select count(*) from pgbench_history where filler = 'private words'"
        words = cluster.psql("-d", "bench", "-c", query)
        waiting = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        ioh.settle()
        cluster.pgbench("-S", "-t", "211")
        ioh.settle()
        ioh.settle()
        holder.tell("rollback;")
        holder.close()
        waiting.wait(10)
    calls = ioh.table("pg", "statement", "database", "statement")
    select = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
    assert calls["bench", select]["calls"] == 211
    assert calls["bench", select]["rows"] == 211
    found = [row for row in rows(ioh, "session") if row["wait"] == "Lock:relation"]
    assert found
    assert found[0]["user"] == "postgres"
    assert found[0]["database"] == "bench"
    assert found[0]["statement"] == "select count(*) from pgbench_history where filler = ?"
    assert max(layer["metrics"]["waiting_for_locks"] for layer in seen(ioh)) == 1
    waits = ioh.table("pg", "wait", "wait")
    assert ("Lock:relation",) in waits
    assert b"private words" not in ioh.raw
    assert all("statements, too" not in note for layer in seen(ioh) for note in layer["notes"])


def test_parameters_when_asked_for_and_samples_without_the_extension(cluster: Cluster) -> None:
    dsn = cluster.dsn.replace("dbname=postgres", "dbname=bench")
    with recording(*ONLY, "--pg", dsn, "--pg-parameters", cycle_s=1.0) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        cluster.sql("select pg_sleep(3), 'public words'")
    assert b"select pg_sleep(3), 'public words'" in ioh.raw
    notes = [note for layer in seen(ioh) for note in layer["notes"]]
    assert any("this database has no pg_stat_statements" in note for note in notes)
    slept = [row for row in rows(ioh, "statement") if "pg_sleep" in row["statement"]]
    assert 1.5 < sum(row["avg_inflight"] * row["seconds"] for row in slept) < 4.5, slept


def test_one_connection_which_can_neither_write_nor_wait(cluster: Cluster) -> None:
    counts = set()
    with recording(*ONLY, "--pg", cluster.dsn, cycle_s=0.2) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        for _ in range(20):
            counts.add(cluster.sql(OWN))
            time.sleep(0.05)
    assert counts == {"1"}
    assert cluster.sql(OWN) == "0"
    with connect(Login(cluster.dsn)) as connection:
        for statement, why in (
            ("create table t()", "read-only transaction"),
            ("select pg_sleep(5)", "statement timeout"),
        ):
            with pytest.raises(PgError, match=why) as told:
                connection.query(statement)
            assert not told.value.is_lost
        assert connection.query("select 1") == [(1,)]


@pytest.mark.parametrize("table", ["pgbench_accounts", "pg_database"])
def test_a_locked_table_delays_no_interval(cluster: Cluster, table: str) -> None:
    """Not even a table of the catalogue with which the views are joined."""
    with recording("--proc", "--layers", "pg,block", "--pg", cluster.dsn, cycle_s=0.5) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        first = len(ioh.intervals)
        with cluster.session(f"begin; lock table {table} in access exclusive mode"):
            for _ in range(5):
                ioh.settle()
            last = len(ioh.intervals)
        wait_for(ioh, lambda: len(seen(ioh)) > last, 20) if table == "pg_database" else None
    during = ioh.intervals[first:last]
    assert len(during) >= 9
    # If ticks waited for the server, each would be late; on a busy machine some are.
    assert median(interval["interval_s"] for interval in during) < 0.75
    known = [
        i["layers"].get("pg", {}).get("ops", {}).get("commit", {}).get("count") for i in during
    ]
    # On a busy machine an answer can come late without a lock.
    assert (2 * known.count(None) > len(known)) == (table == "pg_database"), known
    is_told = "lock timeout" in json.dumps(during)
    assert is_told == (table == "pg_database")


def test_a_server_that_stops_and_comes_again(cluster: Cluster) -> None:
    with recording("--proc", "--layers", "pg,block", "--pg", cluster.dsn, cycle_s=0.5) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        cluster.stop()
        wait_for(ioh, lambda: "Connection refused" in json.dumps(ioh.intervals[-1]), 20)
        assert "ioh tries again" in json.dumps(ioh.intervals[-1])
        cluster.start()
        known = len(seen(ioh))
        wait_for(ioh, lambda: len(seen(ioh)) > known, 40)


def test_the_password_is_nowhere(cluster: Cluster, tmp_path: Path) -> None:
    cluster.sql(f"select 'password={PASSWORD}'")
    with recording(*ONLY, "--pg", cluster.dsn, cycle_s=0.5) as ioh:
        wait_for(ioh, lambda: seen(ioh))
    assert PASSWORD.encode() not in ioh.raw + b"".join(ioh.messages.lines)
    path = tmp_path / "run.ioh"
    process = recorder(cluster, path)
    await_sample(path)
    process.terminate()
    assert process.wait(30) == 0
    assert PASSWORD.encode() not in (tmp_path / "stderr").read_bytes()
    shown = ioh_ended("json", str(path))
    assert shown.returncode == 0
    assert PASSWORD.encode() not in path.read_bytes() + shown.stdout.encode()
    command = ioh_command("--proc", "--pg", cluster.dsn)
    with PtyScreen(command, cwd=Path("/"), env={"PYTHONPATH": ""}) as screen:
        screen.wait_for("postgresql", "sessions wait")
        screen.press("?")
        screen.press("q")
        screen.press("q")
    assert PASSWORD not in screen.text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"password={PASSWORD}x", "password authentication failed"),
        ("user=nobody", "pg_hba.conf"),
        ("port=1", "Connection refused"),
        ("host=/nowhere", "No such file"),
    ],
)
def test_a_refusal_is_one_line_with_a_next_step(cluster: Cluster, change: str, said: str) -> None:
    with recording(*ONLY, "--pg", f"{cluster.dsn} {change}", cycle_s=0.5) as ioh:
        wait_for(ioh, lambda: said in json.dumps(ioh.intervals[-1]), 20)
    told = next(iter(ioh.intervals[-1]["unavailable"].values()))
    assert told["hint"]
    assert PASSWORD.encode() not in ioh.raw


def test_the_caller_of_sudo_logs_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peer authentication asks the kernel for the user; the thread has no capability left."""
    dsn = f"host={cluster.home} port={cluster.port} user=postgres dbname=postgres"
    with recording(*ONLY, "--pg", dsn, cycle_s=0.5) as ioh:
        wait_for(ioh, lambda: "Peer authentication failed" in json.dumps(ioh.intervals[-1]), 20)
    monkeypatch.setenv("SUDO_UID", str(pwd.getpwnam("postgres").pw_uid))
    with recording(*ONLY, "--pg", dsn, cycle_s=0.5) as ioh:
        wait_for(ioh, lambda: seen(ioh))
        tasks = Path(f"/proc/{ioh.process.pid}/task").glob("*/status")
        held = {t.read_text().partition("CapEff:\t")[2].split()[0] for t in tasks}
    assert held == {"0000000000000000", "0000000000080004"}


def test_an_invalid_dsn_is_refused_without_showing_it() -> None:
    done = ioh_ended("text", "--pg", f"host=x {PASSWORD}")
    assert done.returncode == 2
    assert done.stderr.startswith("ioh: --pg is not a connection string of PostgreSQL. Examples:")
    assert PASSWORD not in done.stderr
