"""Databases as they are run every day: nothing is wrong with any of them.

Every ``time.sleep`` here is how long the program runs, or one of its parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tests.kernel.rig import MIB, Volume
from tests.programs.servers import MariaDB, PostgreSQL
from tests.scenarios.plays import LAYERS
from tests.scenarios.stage import Stage

SECONDS = 11
_SCALE = 20  # 300 MB
_ROWS = 200_000  # of each of two tables, 45 MB


def _postgresql(
    stage: Stage,
    *options: str,
    settings: str,
    before: Callable[[PostgreSQL, Volume], object] = lambda server, volume: None,
    later: Callable[[PostgreSQL], object] | None = None,
) -> None:
    """Run pgbench on a filled database, with ``before`` ahead of it and ``later`` in its middle."""
    volume = stage.volume(1536 * MIB)
    server = PostgreSQL(stage, volume, settings)
    server.fill(_SCALE)
    before(server, volume)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench(*options)
    time.sleep(SECONDS)
    if later is not None:
        later(server)
        time.sleep(5)


def _restart(server: PostgreSQL, _: Volume) -> None:
    server.stop()
    server.start()


def _start_cold(server: PostgreSQL, volume: Volume) -> None:
    server.stop()
    volume.drop_caches()
    server.start()


def postgresql_reads(stage: Stage) -> None:
    """More than shared_buffers holds, all of it in the page cache."""
    _postgresql(stage, "-S", settings="shared_buffers=32MB")


def postgresql_mixed(stage: Stage) -> None:
    _postgresql(stage, settings="shared_buffers=128MB")


def postgresql_checkpoint(stage: Stage) -> None:
    """An immediate checkpoint, which writes all that is dirty, in the middle of the load."""
    _postgresql(
        stage, settings="shared_buffers=512MB", later=lambda server: server.sql("CHECKPOINT")
    )


def postgresql_restart(stage: Stage) -> None:
    """shared_buffers, empty after a restart, fill from the page cache."""
    _postgresql(stage, "-S", settings="shared_buffers=1GB", before=_restart)


def postgresql_cold(stage: Stage) -> None:
    """The same with nothing in memory."""
    _postgresql(stage, "-S", settings="shared_buffers=1GB", before=_start_cold)


def postgresql_backup(stage: Stage) -> None:
    """pg_basebackup beside a load that the disk can serve."""
    later = lambda server: server.back_up("backup")  # noqa: E731
    _postgresql(stage, "-R", "40", settings="shared_buffers=128MB", later=later)


def _mariadb(load: str, stage: Stage) -> None:
    """Run sysbench on tables larger than the buffer pool."""
    volume = stage.volume(1024 * MIB)
    server = MariaDB(stage, volume, "--innodb-buffer-pool-size=32M")
    server.fill(_ROWS)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench(_ROWS, load)
    time.sleep(SECONDS)


mariadb_mixed = partial(_mariadb, "oltp_read_write")
mariadb_reads = partial(_mariadb, "oltp_point_select")

# Transactions of five rows, and reads of twenty, of a database: path, how its journal is kept.
_SQLITE = """
import os, random, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode=" + sys.argv[2])
db.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB)")
key = lambda: random.randrange(100_000)
while True:
    db.execute("BEGIN")
    for _ in range(5): db.execute("REPLACE INTO t VALUES (?, ?)", (key(), os.urandom(200)))
    db.execute("COMMIT")
    for _ in range(20): db.execute("SELECT v FROM t WHERE k >= ?", (key(),)).fetchone()
"""


def _sqlite(journal: str, stage: Stage) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_SQLITE, f"{volume.mount}/db", journal)
    time.sleep(SECONDS)


sqlite_rollback, sqlite_wal = partial(_sqlite, "delete"), partial(_sqlite, "wal")
