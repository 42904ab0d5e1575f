"""Databases as they are run every day: nothing is wrong with any of them.

Every ``time.sleep`` here is how long the program runs, or one of its parts.
"""

from __future__ import annotations

import time

from tests.kernel.rig import MIB
from tests.programs.servers import MariaDB, PostgreSQL
from tests.scenarios.plays import LAYERS
from tests.scenarios.stage import Stage

SECONDS = 11
_SCALE = 20  # 300 MB
_ROWS = 200_000  # of each of two tables, 45 MB


def _postgresql(stage: Stage, *settings: str) -> tuple[PostgreSQL, str]:
    """A filled database, and the name of its device."""
    volume = stage.volume(1536 * MIB)
    made = PostgreSQL(stage, volume, *settings)
    made.fill(_SCALE)
    return made, volume.loop.name


def postgresql_reads(stage: Stage) -> None:
    """More than shared_buffers holds, all of it in the page cache."""
    server, device = _postgresql(stage, "shared_buffers=32MB")
    stage.record("--device", device, *LAYERS)
    server.bench("-S")
    time.sleep(SECONDS)


def postgresql_mixed(stage: Stage) -> None:
    server, device = _postgresql(stage, "shared_buffers=128MB")
    stage.record("--device", device, *LAYERS)
    server.bench()
    time.sleep(SECONDS)


def postgresql_checkpoint(stage: Stage) -> None:
    """A checkpoint at once, which writes all that is dirty, in the middle of the load."""
    server, device = _postgresql(stage, "shared_buffers=512MB")
    stage.record("--device", device, *LAYERS)
    server.bench()
    time.sleep(SECONDS)
    server.sql("CHECKPOINT")
    time.sleep(5)


def postgresql_restart(stage: Stage) -> None:
    """shared_buffers, empty after a restart, fill from the page cache."""
    server, device = _postgresql(stage, "shared_buffers=1GB")
    server.stop()
    server.start()
    stage.record("--device", device, *LAYERS)
    server.bench("-S")
    time.sleep(SECONDS)


def postgresql_cold(stage: Stage) -> None:
    """The same with nothing in memory at all."""
    volume = stage.volume(1536 * MIB)
    server = PostgreSQL(stage, volume, "shared_buffers=1GB")
    server.fill(_SCALE)
    server.stop()
    volume.drop_caches()
    server.start()
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench("-S")
    time.sleep(SECONDS)


def postgresql_backup(stage: Stage) -> None:
    """pg_basebackup beside a load that the disk can serve."""
    server, device = _postgresql(stage, "shared_buffers=128MB")
    stage.record("--device", device, *LAYERS)
    server.bench("-R", "40")
    time.sleep(SECONDS)
    server.back_up("backup")
    time.sleep(5)


def mariadb_mixed(stage: Stage) -> None:
    """sysbench's transactions on tables larger than the buffer pool."""
    volume = stage.volume(1024 * MIB)
    server = MariaDB(stage, volume, "--innodb-buffer-pool-size=32M")
    server.fill(_ROWS)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench(_ROWS, "oltp_read_write")
    time.sleep(SECONDS)


def mariadb_reads(stage: Stage) -> None:
    """Reads of single rows from tables larger than the buffer pool."""
    volume = stage.volume(1024 * MIB)
    server = MariaDB(stage, volume, "--innodb-buffer-pool-size=32M")
    server.fill(_ROWS)
    stage.record("--device", volume.loop.name, *LAYERS)
    server.bench(_ROWS, "oltp_point_select")
    time.sleep(SECONDS)


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


def _sqlite(stage: Stage, journal: str) -> None:
    volume = stage.volume()
    stage.record("--device", volume.loop.name, *LAYERS)
    stage.python(_SQLITE, f"{volume.mount}/db", journal)
    time.sleep(SECONDS)


def sqlite_rollback(stage: Stage) -> None:
    _sqlite(stage, "delete")


def sqlite_wal(stage: Stage) -> None:
    _sqlite(stage, "wal")
