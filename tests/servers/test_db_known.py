"""What layer ``db`` knows of each server: what cannot be counted is unknown, never 0."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tests.kernel.part import part_of
from tests.kernel.rig import Ioh, recording
from tests.kernel.talker import wait_until
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Cluster, program
from tests.servers.test_db import LAYER, counted, wait_until_seen, watched


@contextlib.contextmanager
def configured(cluster: Cluster, setting: str) -> Iterator[None]:
    """The server runs with this setting, read while it runs."""
    name, _, value = setting.partition("=")
    cluster.sql(f"alter system set {name} = '{value}'")
    cluster.sql("select pg_reload_conf()")
    wait_until(lambda: cluster.sql(f"show {name}") == value)
    yield
    cluster.sql(f"alter system reset {name}")
    cluster.sql("select pg_reload_conf()")


def parts(ioh: Ioh, server: str) -> list[dict[str, Any]]:
    """The numbers of a server's ops, in each interval that has them."""
    found = [x["layers"]["db"]["parts"].get("server", {}) for x in ioh.intervals_of("db")]
    return [ops[server] for ops in found if server in ops]


def test_log_syncs_by_fsync(cluster: Cluster, outside: Ioh) -> None:
    """Syncs of data files, in a checkpoint, are no log syncs with either method."""
    setting = configured(cluster, "wal_sync_method=fsync")
    with setting, counted(cluster) as server, part_of(outside) as ioh:
        cluster.pgbench("-t", "100")
        cluster.sql("checkpoint")
    assert ioh.total("db", "log_sync") == server["log_sync"] > 50
    assert ioh.table("db", "wait", "within", "wait")["commit", "log_sync"]["wait_ns"]


def test_log_syncs_that_writes_do_are_unknown_while_they_do(cluster: Cluster, outside: Ioh) -> None:
    with part_of(outside) as ioh:
        with configured(cluster, "wal_sync_method=open_datasync"):
            cluster.pgbench("-t", "50")
            ioh.settle()
            layer = ioh.intervals[-1]["layers"]["db"]
            server = f"postgres {cluster.port}"
            reason = "log_sync is not counted: wal_sync_method is open_sync or open_datasync."
            assert layer["notes"] == [f"{server}: {reason}"]
            assert layer["ops"]["log_sync"]["count"] is None
            assert layer["ops"]["commit"]["count"] is not None
            before = len(ioh.intervals)
        cluster.pgbench("-t", "50")
        ioh.settle()
    assert ioh.intervals[-1]["layers"]["db"]["notes"] == []
    assert ioh.intervals[-1]["layers"]["db"]["ops"]["log_sync"]["count"] is not None
    assert len(ioh.intervals) > before


def test_commits_of_parallel_workers_are_the_leaders(cluster: Cluster, outside: Ioh) -> None:
    cluster.sql("create table big as select generate_series(1, 20000) i", "bench")
    parallel = "set parallel_setup_cost = 0; set parallel_tuple_cost = 0;"
    parallel += "set min_parallel_table_scan_size = 0; set max_parallel_workers_per_gather = 2;"
    query = "select count(*) from big;"
    assert "Workers" in cluster.sql(f"{parallel} explain {query}", "bench")
    with counted(cluster) as server, part_of(outside) as ioh:
        cluster.run_script(f"{parallel}{40 * query}", "-t", "1")
    assert ioh.total("db", "commit") == server["commit"] >= 44


def test_a_named_function_is_counted_beside_the_known_operations(cluster: Cluster) -> None:
    function = f"flush={program('postgres')}:XLogFlush"
    with counted(cluster) as server, recording(*LAYER, "--function", function) as ioh:
        wait_until_seen(ioh)
        cluster.pgbench("-t", "50")
    assert ioh.total("db", "commit") == server["commit"] >= 50
    assert ioh.total("db", "log_sync") == server["log_sync"] >= 50
    assert ioh.total("db", "flush") >= 50


def test_a_server_without_some_probes_beside_one_that_has_them(cluster: Cluster) -> None:
    with closing(MariaDB()) as maria, watched(2) as ioh:
        maria.sql("create table t (i int); insert t values (1); nonsense")
        cluster.pgbench("-t", "50")
        ioh.settle()
    rows = [row for x in ioh.intervals_of("db") for row in x["layers"]["db"]["top"]["session"]]
    known = {row["server"].split()[0]: row["log_syncs_per_s"] is not None for row in rows}
    assert known == {"postgres": True, "mariadbd": False}
    (mariadb,) = {row["server"] for row in rows if row["server"].startswith("mariadbd")}
    assert not any("log_sync" in ops for ops in parts(ioh, mariadb))
    assert {ops["statement"]["errors_per_s"] for ops in parts(ioh, mariadb)} == {None}
    counted_there = parts(ioh, f"postgres {cluster.port}")
    errors = [x["statement"]["errors_per_s"] for x in counted_there if "statement" in x]
    assert 0 in errors
    waits = ioh.table("db", "wait", "server", "wait")
    assert (mariadb, "log_sync") not in waits
