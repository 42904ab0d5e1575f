"""PostgreSQL, by a login: what the server's own statistics views say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.privileges import forget_capabilities
from ioh.layers.base import Layer
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.metric import LayerSpec, TableSpec, counter, gauge, mean_us, ratio
from ioh.model.sample import LayerSample, OpTotals, Unavailable
from ioh.pg.reader import CONNECTING, Reader
from ioh.pg.reading import Reading

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
    metrics=(
        counter("hit_blocks_total", "Blocks found in shared buffers.", ""),
        counter("wanted_blocks_total", "Blocks asked for: found there or read.", "blocks/s"),
        ratio(
            "cached_pct",
            "hit_blocks_total",
            "wanted_blocks_total",
            "Share of the blocks asked for that were in shared buffers.",
            scale=100.0,
            title="cached%",
        ),
        gauge("sessions", "Sessions of all databases, ioh's own among them.", "sessions"),
        gauge("active_sessions", "Sessions that execute a statement.", "active"),
        gauge("waiting_for_locks", "Sessions that wait for a lock.", "wait for locks"),
        gauge("idle_in_transaction", "Sessions idle in a transaction.", "idle in transaction"),
        gauge("oldest_transaction_us", "Age of the oldest transaction.", "oldest"),
        counter("rollbacks_total", "Transactions that were rolled back.", "rollbacks/s"),
        counter("full_pages_total", "Full pages in the log, after checkpoints.", "full pages/s"),
        counter("temp_bytes_total", "Bytes written to temporary files.", "temp B/s"),
        counter("deadlocks_total", "Deadlocks.", "deadlocks/s"),
    ),
    tables=(
        TableSpec(
            "statement",
            "statements",
            ("database", "statement"),
            (
                counter("calls_total", "Executions that ended.", "calls/s"),
                counter("elapsed_ns_total", "Time of all executions.", ""),
                ratio(
                    "avg_inflight",
                    "elapsed_ns_total",
                    "",
                    "Sessions that execute it, on average.",
                    scale=1e-9,
                    title="active",
                ),
                mean_us(
                    "latency_us", "elapsed_ns_total", "calls_total", "Mean execution.", "mean µs"
                ),
                counter("rows_total", "Rows returned or changed.", "rows/s"),
                counter("read_blocks_total", "Blocks not found in shared buffers.", "reads/s"),
                gauge("queryid", "Its number in pg_stat_statements.", ""),
            ),
            ("avg_inflight",),
        ),
        TableSpec(
            "session",
            "sessions",
            ("pid", "user", "database", "state", "wait", "statement"),
            (
                gauge("state_us", "Time in this state.", "for"),
                gauge("transaction_us", "Age of its transaction.", "xact"),
            ),
            ("state_us",),
        ),
        TableSpec(
            "wait",
            "waits",
            ("wait",),
            (
                counter("session_ns_total", "Time of all sessions seen in it.", ""),
                ratio(
                    "avg_inflight",
                    "session_ns_total",
                    "",
                    "Sessions in it, on average; sampled.",
                    scale=1e-9,
                    title="sessions",
                ),
            ),
            ("avg_inflight",),
        ),
    ),
)


class Postgres(Layer):
    """One PostgreSQL server, wherever it is."""

    spec = SPEC
    needs_login = True

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._reader: Reader | None = None
        self._last = 0

    def log_in(self, login: Login) -> None:
        """Begin to read the server's views, in the background."""
        self._reader = Reader(login, forget_capabilities)
        self._reader.start()

    def close(self) -> None:
        """Log out."""
        if self._reader is not None:
            self._reader.close()

    def read(self, maps: Maps) -> LayerSample:
        """Never called, since there is no probe.

        Raises:
            NotImplementedError: It was.
        """
        raise NotImplementedError

    def read_proc(self) -> LayerSample | Unavailable:
        """What the background thread has last read; never waits.

        Where it has read nothing since the tick before, operations and metrics are unknown: the
        same totals would look like an interval in which nothing was done.
        """
        if self._reader is None:
            return CONNECTING  # once root has been given away
        found = self._reader.latest()
        if isinstance(found, Unavailable):
            return found
        is_new, self._last = found.number != self._last, found.number
        return self._sample(found, is_new=is_new)

    def _sample(self, found: Reading, *, is_new: bool) -> LayerSample:
        notes = (*found.notes, *notes_of_unfiltered(self.filters, "all sessions"))
        ops, metrics = found.ops, found.metrics
        if not is_new:
            ops, metrics = dict.fromkeys(ops, OpTotals()), dict.fromkeys(metrics)
        # A row or a database that is missing would begin from nothing when it comes again.
        return LayerSample("pg", ops, metrics, found.tables, found.databases, notes=notes)
