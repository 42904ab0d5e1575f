"""Every program by name: what it does, which rules must report it, which others may.

Nothing is wrong with any of PROGRAMS: no rule may warn, and what is reported is information.
Some of the databases have faults, as the disks of tests/scenarios/catalogue.py do.
"""

from __future__ import annotations

from tests.programs import databases, sick_databases, tools
from tests.scenarios.catalogue import Scenario

_PROGRAMS = (
    Scenario("postgresql_reads", "pgbench -S, shared_buffers of 32 MB, tables in the page cache",
             databases.postgresql_reads, also=("caching",)),
    Scenario("postgresql_mixed", "pgbench's own mix", databases.postgresql_mixed,
             also=("sync_writes",)),
    Scenario("postgresql_checkpoint", "a CHECKPOINT in the middle of pgbench's mix",
             databases.postgresql_checkpoint, also=("sync_writes",)),
    Scenario("postgresql_restart", "pgbench -S after a restart, tables in the page cache",
             databases.postgresql_restart),
    Scenario("postgresql_cold", "pgbench -S after a restart, nothing in memory",
             databases.postgresql_cold),
    Scenario("postgresql_backup", "pg_basebackup beside pgbench",
             databases.postgresql_backup, also=("sync_writes", "consolidation")),
    Scenario("mariadb_mixed", "sysbench oltp_read_write, tables three times the buffer pool",
             databases.mariadb_mixed, also=("sync_writes",)),
    Scenario("mariadb_reads", "sysbench oltp_point_select of such tables",
             databases.mariadb_reads),
    Scenario("sqlite_rollback", "SQLite, small transactions, journal_mode=delete",
             databases.sqlite_rollback, also=("sync_writes", "caching")),
    Scenario("sqlite_wal", "SQLite, small transactions, journal_mode=wal", databases.sqlite_wal,
             also=("sync_writes", "consolidation", "caching")),
    Scenario("dd_buffered", "dd bs=1M of zeroes", tools.dd_buffered, says=("caching",)),
    Scenario("dd_direct", "dd bs=1M oflag=direct", tools.dd_direct,
             also=("fragmentation", "single_stream")),
    Scenario("dd_sync", "dd bs=64k oflag=sync", tools.dd_sync,
             also=("single_stream", "sync_writes")),
    Scenario("dd_dsync", "dd bs=64k oflag=dsync", tools.dd_dsync,
             also=("single_stream", "sync_writes")),
    Scenario("log_durable", "a log of 400 lines a second, each with fsync", tools.log_durable,
             also=("sync_writes",)),
    Scenario("log_plain", "a log of 400 lines a second without fsync", tools.log_plain),
    Scenario("tar", "tar of 1,000 files, not in memory", tools.tar,
             also=("consolidation",)),
    Scenario("rsync", "rsync -a of 1,000 files to the same disk", tools.rsync,
             also=("consolidation",)),
    Scenario("git", "git clone, status and gc of 1,000 files, not in memory", tools.git,
             also=("consolidation",)),
    Scenario("dpkg", "dpkg unpacks 1,000 files and purges them", tools.dpkg, also=("sync_writes",)),
    Scenario("gcc", "gcc of 40 files", tools.gcc),
    Scenario("lmdb", "mdb_load, mdb_dump and mdb_copy of a mapped database", tools.lmdb,
             also=("sync_writes", "consolidation")),
)  # fmt: skip

PROGRAMS = {program.name: program for program in _PROGRAMS}

DB_ANOMALIES = (
    Scenario("slow_log", "PostgreSQL on a volume of 60 writes a second, pgbench -N",
             sick_databases.slow_log, "commit_bound",
             ("sync_writes", "io_limit", "time_above_disk", "slow_disk", "tail_latency")),
    Scenario("stuck_log", "the same with 12 writes a second",
             sick_databases.stuck_log, "commit_bound",
             ("sync_writes", "io_limit", "time_above_disk", "slow_disk", "tail_latency",
              "disk_no_answer")),
    Scenario("held_row", "a session keeps a row for a minute that four others want",
             sick_databases.held_row, "lock_bound"),
    Scenario("one_row", "four sessions of PostgreSQL that change the same row",
             sick_databases.one_row, "lock_bound"),
    Scenario("log_beside_copy", "a file written as fast as can be beside PostgreSQL's log",
             sick_databases.log_beside_copy, "log_on_data_disk",
             ("sync_writes", "commit_bound", "shared_drive", "tail_latency", "saturation")),
    Scenario("cold_rows", "PostgreSQL reads rows that are nowhere in memory, after some that are",
             sick_databases.cold_rows, "cache_miss_storm"),
    Scenario("checkpoint_burst", "a CHECKPOINT of PostgreSQL on a volume of 300 writes a second",
             sick_databases.checkpoint_burst, "checkpoint_burst",
             ("sync_writes", "commit_bound", "io_limit", "time_above_disk")),
)  # fmt: skip

DB_HEALTHY = (
    Scenario("slow_log_not_awaited", "the same volume of 60 writes, synchronous_commit=off",
             sick_databases.slow_log_not_awaited),
    Scenario("log_on_a_busy_cpu", "PostgreSQL's log on an idle disk, all processors busy",
             sick_databases.log_on_a_busy_cpu, also=("commit_bound", "sync_writes", "cpu_wait")),
    Scenario("row_held_briefly", "a session keeps a row for two seconds that four others want",
             sick_databases.row_held_briefly),
    Scenario("own_rows", "four sessions of PostgreSQL, each with a row of its own",
             sick_databases.own_rows, also=("commit_bound",)),
    Scenario("log_beside_slow_copy", "8 MB/s written beside PostgreSQL's log",
             sick_databases.log_beside_slow_copy, also=("commit_bound", "sync_writes")),
    Scenario("warm_rows", "PostgreSQL reads other rows, which its cache soon holds",
             sick_databases.warm_rows),
    Scenario("checkpoint_unnoticed", "a CHECKPOINT of PostgreSQL on a disk that has room for it",
             sick_databases.checkpoint_unnoticed, also=("commit_bound", "sync_writes")),
)  # fmt: skip

DB_SCENARIOS = {scenario.name: scenario for scenario in (*DB_ANOMALIES, *DB_HEALTHY)}
