"""Tables of the database layer: sessions, and what statements and commits wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.layers.db_ops import OUTERS, SESSION, SESSION_KEY, SESSION_OPS, WAIT_KEY, WAITS
from ioh.layers.per_owner_totals import Ops
from ioh.layers.rising_totals import RisingTotals
from ioh.model.in_progress import Open, in_progress_table, oldest_first
from ioh.model.metric import tables
from ioh.model.sample import Row, Table
from ioh.procfs.processes import session_name

if TYPE_CHECKING:
    from ioh.bpf.maps import Map
    from ioh.layers.db_open import OpenOp

# Server, outer op, and the counts and times of its waits that have ended.
Ended = Iterable[tuple[bytes, Sequence[int]]]

_IDLE_TICKS = 60


def _columns(op: str) -> str:
    what = op.replace("_", " ")
    return f"""
        {op}s_total | {what}/s | Number of {what}s.
        {op}_ns_total | | Time of all {what}s.
        {op}_us = 1e-3 * {op}_ns_total / {op}s_total | {what} µs | Mean time of a {what}.
        """


TABLES = tables(
    f"""
    wait | waits | within, wait, server | avg_inflight
        waits_total    | times/s | Waits.
        wait_ns_total  |         | Time of all waits.
        whole_ns_total |         | Time of all statements, commits or log syncs.
        avg_inflight = 1e-9 * wait_ns_total | active |
            Mean number of threads in it: average active sessions.
        wait_us = 1e-3 * wait_ns_total / waits_total | mean µs | Mean time of a wait.
        share_pct = 100 * wait_ns_total / whole_ns_total | share% |
            Share of the time of all statements, commits or log syncs.
    session | sessions | pid, session, server | statements_per_s, commits_per_s, log_syncs_per_s
        {"".join(map(_columns, SESSION_OPS))}
    {in_progress_table("pid, session, op, wait, server")}
    """
)


class Sessions:
    """Running totals of each session; a session that is idle for a minute leaves the table."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tick = 0
        self._last: dict[bytes, tuple[bytes, int]] = {}  # value, tick of the last change
        self._names: dict[bytes, tuple[str, str]] = {}

    def read(
        self, sessions: Map, servers: Mapping[int, str], known_ops: Mapping[int, Collection[str]]
    ) -> Table:
        """Rows by pid, session name and server; ops that are not in ``known_ops`` are unknown."""
        self._tick += 1
        rows: dict[tuple[str, ...], Row] = {}
        for key, value in sessions.items_bytes():
            before, changed = self._last.get(key, (b"", 0))
            if value != before:
                self._last[key] = value, self._tick
            elif self._tick - changed > _IDLE_TICKS:
                sessions.delete(key)
                self._last.pop(key, None)
                self._names.pop(key, None)
                continue
            words = SESSION.unpack(value)  # counts, then times
            ops = known_ops.get(SESSION_KEY.unpack(key)[0], ())
            rows[self._row_key(key, servers)] = tuple(
                words[at + of] if op in ops else None
                for at, op in enumerate(SESSION_OPS)
                for of in (0, len(SESSION_OPS))
            )
        return rows

    def is_client(self, server: int, tid: int) -> bool:
        """Whether a thread has had a statement, at the last reading."""
        value, _ = self._last.get(SESSION_KEY.pack(server, tid), (b"", 0))
        return any(value[:8])  # the count of SESSION_OPS' first

    def in_progress(
        self, open_ops: Iterable[OpenOp], servers: Mapping[int, str], now_ns: int
    ) -> Table:
        """What has begun and not ended, each with what its thread waits for now."""
        open_ops = sorted(open_ops, key=lambda each: each.start_ns)
        waits = {each.tid: each.op for each in open_ops if each.op in WAITS}

        def name(row: Open[OpenOp]) -> tuple[str, ...]:
            tid, server = row.who.tid, row.who.server
            wait = waits.get(tid, row.op)
            session = self._name(SESSION_KEY.pack(server, tid))
            now = "" if wait == row.op else wait
            return str(tid), session, row.op, now, servers.get(server, f"server {server}")

        rows = (Open(each.op, each, each.start_ns) for each in open_ops if not each.is_wait)
        return oldest_first(rows, now_ns, name)

    def _name(self, key: bytes) -> str:
        if key in self._names:
            return self._names[key][0]
        return session_name(SESSION_KEY.unpack(key)[1], self._root) or ""

    def _row_key(self, key: bytes, servers: Mapping[int, str]) -> tuple[str, str, str]:
        server, tid = SESSION_KEY.unpack(key)
        if key not in self._names:
            self._names[key] = self._name(key), servers.get(server, f"server {server}")
        name, title = self._names[key]
        return str(tid), name, title


class Waits:
    """What statements, commits and log syncs wait for, by server; what is left is the rest."""

    def __init__(self) -> None:
        self._spent_ns = RisingTotals()  # CPU time is reported late

    def read(
        self,
        sums: Ended,
        totals: Mapping[int, Ops],
        servers: Mapping[int, str],
        known_ops: Mapping[int, Collection[str]],
        so_far: Mapping[tuple[int, str], Sequence[int]],
    ) -> Table:
        """Rows by outer op, wait and server; waits that are not in ``known_ops`` are unknown.

        ``so_far``: the waits of operations in progress, by server and outer op, in ns by WAITS.
        """
        by_key = {WAIT_KEY.unpack(key): words for key, words in sums}
        rows: dict[tuple[str, ...], Row] = {}
        for server, ops in totals.items():
            known_waits = {*known_ops.get(server, ()), "cpu", "cpu_wait", "rest"}
            for at, outer in enumerate(OUTERS):
                op = ops.get(outer)
                if op is None or not op.weighted_ns_total:
                    continue
                words = by_key.get((server, at), (0,) * 2 * len(WAITS))
                spent_ns = map(add, words[len(WAITS) :], so_far.get((server, outer), repeat(0)))
                inside = {
                    wait: (times, self._spent_ns.at_least((server, outer, wait), ns))
                    for wait, times, ns in zip(WAITS, words, spent_ns, strict=False)
                    if times or ns
                }
                rest = op.weighted_ns_total - sum(ns for _, ns in inside.values())
                if outer != "log_sync":  # its rest is in the layers below
                    ends = (op.count_total or 0) + (op.errors_total or 0)
                    inside["rest"] = ends, self._spent_ns.at_least((server, outer, "rest"), rest)
                title = servers.get(server, f"server {server}")
                for wait, pair in inside.items():
                    numbers = pair if wait in known_waits else (None, None)
                    rows[outer, wait, title] = (*numbers, op.weighted_ns_total)
        return rows

    def retire(self, waits: Map, server: int) -> None:
        """Drop a server that has ended."""
        for outer in range(len(OUTERS)):
            waits.delete(WAIT_KEY.pack(server, outer))
        self._spent_ns.forget(lambda key: key[0] == server)
