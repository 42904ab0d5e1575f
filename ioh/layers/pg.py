"""PostgreSQL through a login: the server's own statistics views."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.privileges import forget_capabilities
from ioh.layers.base import Layer
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.sample import LayerSample, Unavailable
from ioh.pg.reader import CONNECTING, Reader
from ioh.procfs.processes import session_name

if TYPE_CHECKING:
    from ioh.bpf.maps import Maps
    from ioh.pg.login import Login

SPEC = LayerSpec(
    name="pg",
    title="postgresql",
    rank=2,
    ops=("commit", "data_read", "log_write", "log_sync"),
    groups={},
    part="database",
    metrics=numbers(
        """
        hit_blocks_total      |                     | Blocks found in shared buffers.
        wanted_blocks_total   | blocks/s            | Blocks requested: found there or read.
        cached_pct = 100 * hit_blocks_total / wanted_blocks_total | cached% |
            Share of the requested blocks that were in shared buffers.
        sessions | sessions | Sessions of all databases, including ioh's own.
        active_sessions       | active              | Sessions executing a statement.
        waiting_for_locks     | wait for locks      | Sessions waiting for a lock.
        idle_in_transaction   | idle in transaction | Sessions idle in a transaction.
        oldest_transaction_us | oldest              | Age of the oldest transaction.
        rollbacks_total       | rollbacks/s         | Transactions rolled back.
        full_pages_total      | full pages/s        | Full page images in WAL, after checkpoints.
        temp_bytes_total      | temp B/s            | Bytes written to temporary files.
        deadlocks_total       | deadlocks/s         | Deadlocks.
        """
    ),
    tables=tables(
        """
        statement | statements | database, statement | avg_inflight
            calls_total       | calls/s | Executions that have ended.
            elapsed_ns_total  |         | Time of all executions.
            avg_inflight = 1e-9 * elapsed_ns_total | active | Mean number of sessions executing it.
            latency_us = 1e-3 * elapsed_ns_total / calls_total | mean µs | Mean execution time.
            rows_total        | rows/s  | Rows returned or changed.
            read_blocks_total | reads/s | Blocks not found in shared buffers.
            queryid           |         | Its queryid in pg_stat_statements.
        session | sessions | pid, user, database, state, wait, blocked_by, statement | state_us
            state_us       | for  | Time in this state.
            transaction_us | xact | Age of its transaction.
        wait | waits | wait | avg_inflight
            session_ns_total | | Time of all sessions seen waiting for it.
            avg_inflight = 1e-9 * session_ns_total | sessions | Mean sessions in it; sampled.
        """
    ),
    lost=(),
)


class Postgres(Layer):
    """One PostgreSQL server, local or remote."""

    spec = SPEC
    needs_login = True

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._reader: Reader | None = None

    def log_in(self, login: Login) -> None:
        """Start to read the server's views, in a background thread."""
        self._reader = Reader(login, forget_capabilities)
        self._reader.start()

    def close(self) -> None:
        """Log out."""
        if self._reader is not None:
            self._reader.close()

    def read(self, maps: Maps) -> LayerSample:
        """Never called: there is no probe."""
        raise NotImplementedError

    def read_proc(self) -> LayerSample | Unavailable:
        """Return what the background thread read last, and how long ago; never waits."""
        if self._reader is None:
            return CONNECTING  # the login follows once privileges are dropped
        reading = self._reader.latest()
        if isinstance(reading, Unavailable):
            return reading
        return LayerSample(
            "pg",
            reading.ops,
            reading.metrics,
            reading.tables,
            reading.databases,
            notes=(*reading.notes, *notes_of_unfiltered(self.filters, "all sessions")),
            read_after_us=round((reading.read_s - time.monotonic()) * 1e6),
        )

    def own_session(self) -> int:
        """The process of a local server that serves this login; its title has our port."""
        pid, port = (0, 0) if self._reader is None else self._reader.own_session
        ending = f"({port})" if port else "[local]"
        return pid if pid and (session_name(pid, self.root) or "").endswith(ending) else 0
