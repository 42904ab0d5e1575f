"""Layer ``db``: servers that come and go, several at once, and several ``ioh`` on one of them."""

from __future__ import annotations

import os
import struct
import subprocess
from contextlib import closing
from pathlib import Path

from ioh.bpf.server_files import read_servers
from ioh.bpf.sites import find_sites
from tests.kernel.rig import Ioh, recording
from tests.kernel.talker import wait_until
from tests.kernel.test_lifecycle import children
from tests.servers.postgres import Cluster
from tests.servers.test_db import (
    LAYER,
    counted,
    done_by,
    running_statements,
    wait_until_seen,
    watched,
)


def test_two_clusters_are_two_servers(cluster: Cluster) -> None:
    with closing(Cluster()) as other, watched(2) as ioh:
        cluster.pgbench("-t", "100")
        other.pgbench("-t", "30")
    commits = {f"postgres {c.port}": 0 for c in (cluster, other)}
    for interval in ioh.intervals_of("db"):
        for name, ops in interval["layers"]["db"]["parts"]["server"].items():
            commits[name] += ops["commit"]["count"] or 0
    assert 100 <= commits[f"postgres {cluster.port}"] <= 105
    assert 30 <= commits[f"postgres {other.port}"] <= 35
    assert len(commits) == 2


def test_a_server_that_starts_late_and_crashes_is_counted(cluster: Cluster) -> None:
    cluster.stop()
    with recording(*LAYER) as ioh:
        cluster.start()
        wait_until_seen(ioh)
        told = done_by(cluster.pgbench("-t", "40"))
        with subprocess.Popen(cluster.psql("-c", "select pg_sleep(60)")):
            wait_until(lambda: running_statements(ioh) == 1)
            pid = cluster.sql("select pid from pg_stat_activity where query ~ '^select pg_sleep'")
            subprocess.run(["kill", "-KILL", pid], check=True)
        wait_until(lambda: running_statements(ioh) == 0)
        wait_until(cluster.is_ready)
        told += done_by(cluster.pgbench("-t", "50"))
        cluster.kill()
        cluster.start()
        # Its program file still has the probes: nothing is missed, however soon work resumes.
        told += done_by(cluster.pgbench("-t", "60"))
        wait_until_seen(ioh)
        told += done_by(cluster.pgbench("-t", "70"))
    assert told == 220
    assert 220 <= ioh.total("db", "commit") <= 220 + 60
    updates = ioh.total("db", "statement")
    assert updates >= 220 * 7


def test_two_iohs_count_the_same_on_one_server(cluster: Cluster) -> None:
    """Each raises the semaphores; when one ends, they stay raised for the other."""
    load, shared = ("-c", "2", "-t", "100"), ("commit", "log_sync")
    with counted(cluster) as server, watched() as outer:
        with counted(cluster) as of_short, watched() as short:
            assert done_by(cluster.pgbench(*load)) == 200
        assert done_by(cluster.pgbench(*load)) == 200
    assert {op: short.total("db", op) for op in shared} == {op: of_short[op] for op in shared}
    assert {op: outer.total("db", op) for op in shared} == {op: server[op] for op in shared}
    assert set(semaphores(cluster.pid)) == {0}


def test_semaphores_are_released_when_ioh_is_killed(cluster: Cluster) -> None:
    assert set(semaphores(cluster.pid)) == {0}
    with Ioh(*LAYER) as ioh:
        wait_until_seen(ioh)
        assert min(semaphores(cluster.pid)) >= 1  # one for each probe point
        family = (ioh.process.pid, *children(ioh.process.pid))
        subprocess.run(["kill", "-KILL", *map(str, family)], check=True)
        wait_until(lambda: set(semaphores(cluster.pid)) == {0}, 5)


def semaphores(pid: int) -> list[int]:
    """Values of the semaphores that ioh uses, read from the server's memory."""
    (server,) = [s for s in read_servers() if s.title == "PostgreSQL"]
    exe = Path(f"/proc/{pid}/exe")
    with exe.open("rb") as file:
        offsets = {
            site.semaphore for site in find_sites(file, server, os.uname().machine).sites
        } - {0}
    name = str(exe.readlink())
    values = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if not line.endswith(name) or " rw" not in line:
                continue
            where, _, from_offset, *_ = line.split()
            first, last = (int(word, 16) for word in where.split("-"))
            begin = int(from_offset, 16)
            for offset in offsets:
                if begin <= offset < begin + last - first:
                    memory.seek(first + offset - begin)
                    values.append(struct.unpack("=H", memory.read(2))[0])
    assert len(values) >= 10
    return values
