"""Databases with the faults that layer db's rules report, and healthy look-alikes.

Every ``time.sleep`` here is how long the program runs, or one of its parts.
"""

from __future__ import annotations

import os
import time

from tests.kernel.rig import MIB, Volume
from tests.programs.servers import PostgreSQL
from tests.scenarios.plays import DIRECT
from tests.scenarios.stage import Stage

LAYERS = ("--layers", "db,syscall,block")
CALM_SECONDS = 14
SECONDS = 11
_SCALE = 8  # 120 MB
# So many writes a second, as a small volume in a cloud allows.
_FEW_WRITES = 60
_VERY_FEW_WRITES = 12
_SOME_WRITES = 300
_QUIET = ("checkpoint_timeout=1h", "max_wal_size=2GB", "autovacuum=off")
# One branch for all clients, or one for each.
_LOCKING = """
begin;
update pgbench_branches set bbalance = bbalance + 1 where bid = {};
select pg_sleep(0.05);
commit;
"""
_ONE_ACCOUNT = """
\\set aid random({})
select abalance from pgbench_accounts where aid = :aid;
"""


def _postgresql(stage: Stage, *settings: str) -> tuple[PostgreSQL, Volume]:
    volume = stage.volume(1536 * MIB)
    made = PostgreSQL(stage, volume, *_QUIET, *settings)
    made.fill(_SCALE)
    return made, volume


def _slow_log(
    stage: Stage, *settings: str, is_healthy: bool = False, write_ops: int = _FEW_WRITES
) -> None:
    """Run PostgreSQL on a volume of few writes a second."""
    volume = stage.volume(1536 * MIB)
    limit = stage.limit(volume.loop.number)
    server = PostgreSQL(stage, volume, *_QUIET, *settings)
    server.fill(_SCALE)
    server.enter(limit)
    limit.set(write_ops=write_ops)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench("-N")
    if not is_healthy:
        stage.begins()
    time.sleep(SECONDS)


def slow_log(stage: Stage) -> None:
    _slow_log(stage)


def stuck_log(stage: Stage) -> None:
    """A commit takes seconds: hardly any ends."""
    _slow_log(stage, write_ops=_VERY_FEW_WRITES)


def log_on_a_busy_cpu(stage: Stage) -> None:
    """Commits wait because the processors are full.

    Not on a loop device, whose requests wait for a processor, too.
    """
    server = PostgreSQL(stage, stage.folder, *_QUIET)
    server.fill(1)
    for _ in range(2 * (os.cpu_count() or 1)):
        stage.python("while True: pass")
    stage.record(*LAYERS)
    server.bench("-N", "-R", "50")
    time.sleep(SECONDS)


def slow_log_not_awaited(stage: Stage) -> None:
    """The same, but no commit waits for the log."""
    _slow_log(stage, "synchronous_commit=off", is_healthy=True)


def one_row(stage: Stage) -> None:
    """Four clients that change the same row, and keep it for 50 ms."""
    server, volume = _postgresql(stage)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench_script(_LOCKING.format("1"))
    stage.begins()
    time.sleep(SECONDS)


def _held_row(stage: Stage, hold_s: float, *, is_healthy: bool = False) -> None:
    """A session changes a row and keeps it; four others want it, once each."""
    server, volume = _postgresql(stage)
    stage.record("--device", volume.loop.name, *LAYERS)
    change = "update pgbench_branches set bbalance = bbalance + 1 where bid = 1"
    server.statements(f"begin; {change}; select pg_sleep({hold_s}); commit")
    time.sleep(0.5)
    if not is_healthy:
        stage.begins()
    for _ in range(4):
        server.statements(change)
    time.sleep(SECONDS)


def held_row(stage: Stage) -> None:
    _held_row(stage, 60)


def row_held_briefly(stage: Stage) -> None:
    _held_row(stage, 2, is_healthy=True)


def own_rows(stage: Stage) -> None:
    """The same, each client with a row of its own."""
    server, volume = _postgresql(stage)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench_script(_LOCKING.format(":client_id + 1"))
    time.sleep(SECONDS)


def _log_beside_a_copy(stage: Stage, *options: str, is_healthy: bool = False) -> None:
    """After a while, write another file to the volume that has the log and the data."""
    server, volume = _postgresql(stage)
    copy = volume.file("copy", 256 * MIB)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench("-N", "-R", "100")
    time.sleep(CALM_SECONDS)
    stage.fio(f"--filename={copy}", "--rw=write", "--bs=1M", DIRECT, "--ioengine=libaio", *options)
    if not is_healthy:
        stage.begins()
    time.sleep(SECONDS)


def log_beside_copy(stage: Stage) -> None:
    _log_beside_a_copy(stage, "--iodepth=16")


def log_beside_slow_copy(stage: Stage) -> None:
    """A copy of 8 MB/s, beside which the disk serves the log as before."""
    _log_beside_a_copy(stage, "--iodepth=1", "--rate=8m", is_healthy=True)


def _reads(stage: Stage, before: str, after: str, *, is_healthy: bool = False) -> None:
    """Read single rows of one range, drop the page cache, then read rows of another range."""
    server, volume = _postgresql(stage, "shared_buffers=64MB")
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench_script(_ONE_ACCOUNT.format(before), "-R", "300")
    time.sleep(CALM_SECONDS)
    stage.end_loads()
    volume.drop_caches()
    server.bench_script(_ONE_ACCOUNT.format(after), "-R", "300")
    if not is_healthy:
        stage.begins()
    time.sleep(SECONDS)


def cold_rows(stage: Stage) -> None:
    _reads(stage, "1, 10000", f"1, {_SCALE * 100_000}")


def warm_rows(stage: Stage) -> None:
    """The other range fits into the server's cache, which already had a third of it."""
    _reads(stage, "1, 10000", "5000, 20000", is_healthy=True)


def _checkpoint(stage: Stage, *, is_healthy: bool = False) -> None:
    """Change rows all over the table, and after a while make the checkpoint that writes them."""
    volume = stage.volume(1536 * MIB)
    limit = stage.limit(volume.loop.number)
    server = PostgreSQL(stage, volume, *_QUIET, "shared_buffers=512MB")
    server.fill(_SCALE)
    if not is_healthy:
        server.enter(limit)
        limit.set(write_ops=_SOME_WRITES)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench("-N", "-R", "100")
    time.sleep(CALM_SECONDS)
    if not is_healthy:
        stage.begins()
    server.sql("CHECKPOINT")
    time.sleep(SECONDS)


def checkpoint_burst(stage: Stage) -> None:
    """The checkpoint writes as fast as a volume of 300 writes a second lets it."""
    _checkpoint(stage)


def checkpoint_unnoticed(stage: Stage) -> None:
    """The same, but the disk serves the statements beside it."""
    _checkpoint(stage, is_healthy=True)
