"""One reading of the server's views, and the sums over time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ioh.model.printable import printable
from ioh.model.rows import FOREVER, Rows
from ioh.model.sample import OpTotals, Row, Table, Value
from ioh.pg import queries
from ioh.pg.connection import Answer, Connection, PgError
from ioh.pg.texts import as_sent, hide_constants, name_of, on_one_line

SESSION_CHARS, STATEMENT_CHARS = 80, 160
_MAX_ROWS = 2000
_RUNNING = "CPU"  # active, without a wait event
_NOT_WAITING = ("Activity", "Client", "Extension", "Timeout")  # idle background processes
_LONGEST_SAMPLE_S = 2.0  # the longest time that one sample of a session stands for
_NOTHING = (0, 0, 0, 0)
_MAX_BLOCKERS = 4
_SHARED = "(shared)"  # objects outside of any database
_SAMPLED = "sessions and waits are sampled once a second, not counted."
_STATEMENTS_SAMPLED = (
    "statements are sampled once a second, too: this database has no pg_stat_statements."
)
_OWN_ONLY = "other users' sessions are not shown: grant pg_monitor to the role of --pg."


@dataclass(frozen=True, slots=True)
class Reading:
    """The server at one instant.

    Totals, metrics and tables as in LayerSample.  ``read_s`` by the monotonic clock.
    """

    read_s: float
    ops: Mapping[str, OpTotals]
    databases: Mapping[str, Mapping[str, OpTotals]]
    metrics: Mapping[str, Value]
    tables: Mapping[str, Table]
    notes: tuple[str, ...]


@dataclass(slots=True)
class Server:
    """The server as of the connection; ``schema`` of pg_stat_statements, "" without it."""

    block_bytes: int
    times_blocks: bool
    times_wal: bool
    sees_others: bool
    schema: str = ""
    names: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    """A session, or a background process.

    ``state`` is "" for a background process; ``wait`` is ``Type:Event`` or ""; ``statement`` is
    unescaped; everything else is printable.  ``state_us`` since the state changed;
    ``transaction_us`` since the transaction began.  ``blocked_by``: the pids of the sessions that
    have, or wait earlier for, the lock that it waits for.
    """

    pid: int
    user: str
    database: str
    state: str
    wait: str
    state_us: int
    transaction_us: int | None
    statement: str
    blocked_by: str = ""

    @property
    def spends_on(self) -> str:
        """The wait event that its time counts for; "" if it is idle."""
        if self.state == "active":
            return self.wait or _RUNNING
        return "" if self.state or self.wait.startswith(_NOT_WAITING) else self.wait


class Views:
    """Reads the views, and keeps sums and statements' texts beyond a connection.

    meet() must come before read().  ``with_parameters``: show statements with their constants.
    ``own_session``: the pid of the server's process for this connection, as the server has it, and
    the port of our end (0: a local socket).
    """

    def __init__(
        self, *, with_parameters: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._with_parameters, self._clock = with_parameters, clock
        self._last_s = clock()
        self._server: Server
        self._waits = Rows(1, _MAX_ROWS, FOREVER)
        self._statements = Rows(2, _MAX_ROWS, FOREVER, facts=1)
        self._chunks: frozenset[str] | None = None
        self._counts: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        self._texts: dict[int, str] = {}
        self._own: set[int] = set()  # queryids
        self.own_session = 0, 0

    def meet(self, connection: Connection) -> None:
        """Read the server's properties from a new connection.

        PgError: the server is too old, or refuses.
        """
        if connection.version < queries.MIN_VERSION:
            cause = f"PostgreSQL {connection.version // 10000} is too old"
            raise PgError(cause, "ioh reads views of version 12 and later")
        (row,) = connection.query(queries.SERVER)
        block_bytes, times_blocks, times_wal, sees_others, pid, port = row
        self.own_session = pid, port or 0
        schemas = connection.query(queries.STATEMENTS_SCHEMA)
        schema = name_of(schemas[0][0]) if schemas else ""
        # A name outside ASCII cannot be sent back, because text is not converted.
        schema = schema if schema.isascii() else ""
        self._server = Server(block_bytes, times_blocks, times_wal, sees_others, schema)
        self._last_s = self._clock()

    def read(self, connection: Connection) -> Reading:
        """Read the views once.  PgError: a view other than pg_stat_statements failed."""
        server = self._server
        wal = queries.wal(connection.version)
        databases = connection.query(queries.DATABASES)
        read_s = self._clock()  # not when it was asked: a stopped server counts when it goes on
        passed_s = min(read_s - self._last_s, _LONGEST_SAMPLE_S)
        self._last_s = read_s
        server.names = {row[0]: name_of(row[1]) for row in databases}
        ops, parts, metrics = _totals(server, databases, connection.query(wal)[0] if wal else None)
        sessions = _sessions_of(connection.query(queries.ACTIVITY))
        for each in sessions:
            self._sample(each, passed_s)
        notes = [_SAMPLED] if server.sees_others else [_SAMPLED, _OWN_ONLY]
        notes += self._count_statements(connection, server)
        return Reading(
            read_s,
            ops,
            parts,
            {**metrics, **_session_metrics(sessions)},
            {
                "statement": self._statements.table(),
                "session": dict(self._row(each) for each in sessions if each.state),
                "wait": self._waits.table(),
            },
            tuple(notes),
        )

    def _sample(self, session: Session, passed_s: float) -> None:
        """Add the time since the previous reading to what a session is doing now."""
        wait, spent_ns = session.spends_on, round(passed_s * 1e9)
        if not wait:
            return
        self._waits.add((wait,), (spent_ns,))
        if not self._server.schema and session.statement:
            key = (session.database, self._statement(session.statement, STATEMENT_CHARS))
            self._statements.add(key, (None, spent_ns, None, None), (None,))

    def _row(self, session: Session) -> tuple[tuple[str, ...], Row]:
        who = (str(session.pid), session.user, session.database)
        statement = self._statement(session.statement, SESSION_CHARS)
        key = (*who, session.state, session.wait, session.blocked_by, statement)
        return key, (session.state_us, session.transaction_us)

    def _statement(self, text: str, max_chars: int) -> str:
        line = on_one_line(text) if self._with_parameters else hide_constants(text)
        return printable(line, max_chars)

    def _count_statements(self, connection: Connection, server: Server) -> list[str]:
        """Add the growth of statements' counters; return notes about it."""
        if not server.schema:
            return [_STATEMENTS_SAMPLED]
        try:
            rows = connection.query(queries.statements(connection.version, server.schema))
            self._take_counts(connection, server, as_sent(rows[0][0]))
        except PgError as error:
            if error.is_lost:
                raise
            notes = [f"pg_stat_statements: {error.cause}."]
            if "canceling" not in error.cause:  # no timeout: it is not loaded, or not compatible
                server.schema = ""
                notes.append(_STATEMENTS_SAMPLED)
            return notes
        return []

    def _take_counts(self, connection: Connection, server: Server, text: str) -> None:
        """Add the growth of changed counters, for each statement since it was first seen."""
        chunks = frozenset(text.split(",")) - {""}
        is_first, fresh = self._chunks is None, chunks - (self._chunks or frozenset())
        growth: dict[tuple[int, int], tuple[int, ...]] = {}
        counts = dict(self._counts)
        for chunk in fresh:
            whose, which, calls, ms, rows, blocks = chunk.split()
            key = int(whose), int(which)
            now = int(calls), round(float(ms) * 1e6), int(rows), int(blocks)
            before = counts.get(key, _NOTHING)
            counts[key] = now
            if is_first or now == before:
                continue
            if any(a < b for a, b in zip(now, before, strict=True)):  # statistics were reset
                before = _NOTHING
            growth[key] = tuple(a - b for a, b in zip(now, before, strict=True))
        self._learn_texts(connection, server, {query for _, query in growth})
        self._counts, self._chunks = counts, chunks
        for (database, query), amounts in growth.items():
            if query in self._own:
                continue
            name = server.names.get(database, "?")
            self._statements.add((name, self._texts.get(query, f"{query}")), amounts, (query,))
        if len(counts) > 2 * len(chunks) + 1000:  # most are of statements dropped by the server
            self._counts, self._texts = {}, {}
            self._chunks = None

    def _learn_texts(self, connection: Connection, server: Server, ids: set[int]) -> None:
        new = ids - self._texts.keys() - self._own
        if not new:
            return
        names = set(self._texts.values())
        for query, text in connection.query(queries.texts(server.schema, sorted(new))):
            if as_sent(text).startswith(f"select {queries.OWN}"):
                self._own.add(query)
                continue
            name = self._statement(as_sent(text), STATEMENT_CHARS)
            if name in names:  # statements that differ only beyond the shown part
                name = f"{name[: STATEMENT_CHARS - 22]} #{query}"
            names.add(name)
            self._texts[query] = name


def _sessions_of(rows: Answer) -> list[Session]:
    """Convert the rows of queries.ACTIVITY."""
    return [
        Session(
            pid,
            name_of(user),
            name_of(database),
            name_of(state),
            f"{name_of(kind)}:{name_of(event)}" if kind else "",
            round(max(0.0, state_s or 0.0) * 1e6),
            None if transaction_s is None else round(transaction_s * 1e6),
            as_sent(query),
            ", ".join(map(str, sorted(set(blockers or ()))[:_MAX_BLOCKERS])),
        )
        for pid, user, database, state, kind, event, state_s, transaction_s, query, blockers in rows
    ]


def _session_metrics(sessions: Sequence[Session]) -> dict[str, Value]:
    """Count the sessions by state."""
    states = Counter(each.state for each in sessions)
    ages = [each.transaction_us for each in sessions if each.state and each.transaction_us]
    return {
        "active_sessions": states["active"],
        "idle_in_transaction": sum(n for s, n in states.items() if s.startswith("idle in")),
        "waiting_for_locks": sum(each.wait.startswith("Lock:") for each in sessions),
        "oldest_transaction_us": max(ages, default=None),
    }


def _totals(
    server: Server, databases: Answer, wal: Sequence[Any] | None
) -> tuple[dict[str, OpTotals], dict[str, dict[str, OpTotals]], dict[str, Value]]:
    """The whole server's operations, those of each database, and the other totals."""
    columns = list(zip(*databases, strict=True))[2:]
    sessions, commits, rollbacks, blocks, hits, read_ms, temp_bytes, deadlocks = map(sum, columns)
    wal_bytes, full_pages, writes, syncs, write_ms, sync_ms = wal or [None] * 6
    log_write = OpTotals(writes, wal_bytes, latency_ns_total=_ns(server, write_ms))
    log_sync = OpTotals(syncs, 0, latency_ns_total=_ns(server, sync_ms))
    ops = _database_ops(server, commits, blocks, read_ms)
    metrics: dict[str, Value] = {
        "sessions": sessions,
        "hit_blocks_total": hits,
        "wanted_blocks_total": hits + blocks,
        "rollbacks_total": rollbacks,
        "temp_bytes_total": temp_bytes,
        "deadlocks_total": deadlocks,
        "full_pages_total": full_pages,
    }
    parts = {
        name_of(row[1]) or _SHARED: _database_ops(server, row[3], row[5], row[7])
        for row in databases
    }
    return {**ops, "log_write": log_write, "log_sync": log_sync}, parts, metrics


def _database_ops(server: Server, commits: int, blocks: int, read_ms: float) -> dict[str, OpTotals]:
    spent_ns = round(read_ms * 1e6) if server.times_blocks else None
    read = OpTotals(blocks, blocks * server.block_bytes, latency_ns_total=spent_ns)
    return {"commit": OpTotals(commits), "data_read": read}


def _ns(server: Server, spent_ms: float | None) -> int | None:
    return round(spent_ms * 1e6) if server.times_wal and spent_ms is not None else None
