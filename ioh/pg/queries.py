"""The SQL by the server's version: it reads statistics views only, whose columns differ."""

from __future__ import annotations

MIN_VERSION = 120000
_WAL_VIEW, _WAL_WRITES_MOVED = 140000, 180000
_EXEC_TIME = 130000
MAX_SESSIONS = 1000
STATEMENT_BYTES = 400  # read of a statement, including its constants

# In every statement; pg_stat_statements keeps comments.
OWN = "/* ioh */"

# Read once for each connection.  Texts are read as bytes: see connection.py.
SERVER = """\
select current_setting('block_size')::int,
  current_setting('track_io_timing') = 'on',
  coalesce(current_setting('track_wal_io_timing', true), 'off') = 'on',
  pg_has_role(current_user, 'pg_read_all_stats', 'usage'), pg_backend_pid(), inet_client_port()"""

# The schema of the extension's view; no row if the database does not have it.
STATEMENTS_SCHEMA = """\
select quote_ident(n.nspname::text) from pg_catalog.pg_extension e
  join pg_catalog.pg_namespace n on n.oid = e.extnamespace
  where e.extname = 'pg_stat_statements'"""

DATABASES = """\
select datid::bigint, coalesce(datname, ''), coalesce(numbackends, 0), xact_commit, xact_rollback,
  blks_read, blks_hit, blk_read_time, temp_bytes, deadlocks from pg_catalog.pg_stat_database"""

ACTIVITY = f"""\
select pid, usename, datname, state, wait_event_type, wait_event,
  extract(epoch from clock_timestamp() - coalesce(state_change, backend_start))::float8,
  extract(epoch from clock_timestamp() - xact_start)::float8,
  substr(textsend(query), 1, {STATEMENT_BYTES}),
  case when wait_event_type = 'Lock' then pg_blocking_pids(pid) end
  from pg_catalog.pg_stat_activity
  where pid <> pg_backend_pid() and state is distinct from 'idle'
  order by state = 'active' desc nulls last, state_change limit {MAX_SESSIONS}"""  # noqa: S608


def wal(version: int) -> str:
    """Bytes, full pages, writes, syncs, and ms of both; "" if there is no such view."""
    if version < _WAL_VIEW:
        return ""
    if version < _WAL_WRITES_MOVED:
        return """\
select wal_bytes::bigint, wal_fpi, wal_write, wal_sync, wal_write_time, wal_sync_time
  from pg_catalog.pg_stat_wal"""
    return """\
select wal_bytes::bigint, wal_fpi, io.* from pg_catalog.pg_stat_wal, (
  select sum(writes)::bigint, sum(fsyncs)::bigint, sum(write_time), sum(fsync_time)
  from pg_catalog.pg_stat_io where object = 'wal' and context = 'normal') io"""


def statements(version: int, schema: str) -> str:
    """All counters of all statements as one text: ``database id calls ms rows blocks,…``.

    One value instead of one row each: there are up to 5,000 by default, and few change.
    """
    time = "total_exec_time" if version >= _EXEC_TIME else "total_time"
    return f"""\
select string_agg(concat_ws(' ', d, q, c, t, r, b), ',') from (
  select dbid::bigint d, queryid q, sum(calls)::bigint c, sum({time}) t, sum(rows)::bigint r,
    sum(shared_blks_read)::bigint b
  from {schema}.pg_stat_statements(false) where queryid is not null group by 1, 2) s"""  # noqa: S608


def texts(schema: str, ids: list[int]) -> str:
    """The texts of these statements."""
    numbers = ", ".join(str(int(each)) for each in ids)
    return f"""\
select distinct on (queryid) queryid, substr(textsend(query), 1, {STATEMENT_BYTES})
  from {schema}.pg_stat_statements(true) where queryid in ({numbers})"""  # noqa: S608
