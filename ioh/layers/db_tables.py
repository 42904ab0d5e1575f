"""Tables of the database layer: sessions, and what statements and commits wait for."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.layers.per_owner_totals import Ops
from ioh.model.metric import tables
from ioh.model.sample import Row, Table
from ioh.procfs.processes import session_name

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

# The ops in a session's row, in the order of the probe's indices.
SESSION_OPS = (
    "statement",
    "commit",
    "log_sync",
    "log_write",
    "data_read",
    "data_write",
    "lock_wait",
)
_OUTERS = SESSION_OPS[:2]
# In the order of struct wait of probes/db.c; none includes another.
WAITS = (*SESSION_OPS[2:], "lwlock_wait", "cpu")
_SESSION_KEY = struct.Struct("=II")
_WAIT_KEY = struct.Struct("=II")
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
        whole_ns_total |         | Time of all statements, or all commits.
        avg_inflight = 1e-9 * wait_ns_total | active |
            Mean number of threads in it: average active sessions.
        wait_us = 1e-3 * wait_ns_total / waits_total | mean µs | Mean time of a wait.
        share_pct = 100 * wait_ns_total / whole_ns_total | share% |
            Share of the time of all statements, or all commits.
    session | sessions | pid, session, server | statements_per_s, commits_per_s, log_syncs_per_s
        {"".join(map(_columns, SESSION_OPS))}
    """
)


class Sessions:
    """Running totals of each session; a session that is idle for a minute leaves the table."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tick = 0
        self._last: dict[bytes, tuple[bytes, int]] = {}  # value, tick of the last change
        self._names: dict[bytes, tuple[str, str]] = {}

    def read(self, sessions: Map, servers: Mapping[int, str], seen: Collection[str]) -> Table:
        """Rows by pid, session name and server; ops that are not in ``seen`` are unknown."""
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
            words = struct.unpack(f"={2 * len(SESSION_OPS)}Q", value)  # counts, then times
            rows[self._row_key(key, servers)] = tuple(
                words[at + of] if op in seen else None
                for at, op in enumerate(SESSION_OPS)
                for of in (0, len(SESSION_OPS))
            )
        return rows

    def _row_key(self, key: bytes, servers: Mapping[int, str]) -> tuple[str, str, str]:
        server, tid = _SESSION_KEY.unpack(key)
        if key not in self._names:
            name = session_name(tid, self._root)
            self._names[key] = name or "", servers.get(server, f"server {server}")
        name, title = self._names[key]
        return str(tid), name, title


class Waits:
    """What statements and commits wait for, by server; the unexplained time is the rest."""

    def __init__(self) -> None:
        self._rest: dict[tuple[int, str], int] = {}

    def read(
        self,
        waits: Map,
        totals: Mapping[int, Ops],
        servers: Mapping[int, str],
        seen: Collection[str],
    ) -> Table:
        """Rows by outer op, wait and server; waits that are not in ``seen`` are unknown."""
        found: dict[tuple[int, str], dict[str, tuple[int, int]]] = {}
        for key, words in waits.sums(2 * len(WAITS)):
            server, outer = _WAIT_KEY.unpack(key)
            named = zip(WAITS, words, words[len(WAITS) :], strict=False)
            found[server, _OUTERS[outer]] = {w: (times, ns) for w, times, ns in named if times}
        known = {*seen, "cpu", "rest"}
        rows: dict[tuple[str, ...], Row] = {}
        for server, ops in totals.items():
            for outer in _OUTERS:
                op = ops.get(outer)
                if op is None or not op.count_total:
                    continue
                whole = op.latency_ns_total or 0
                inside = found.get((server, outer), {})
                inside["rest"] = op.count_total, self._rest_ns(server, outer, whole, inside)
                title = servers.get(server, f"server {server}")
                for wait, pair in inside.items():
                    shown = pair if wait in known else (None, None)
                    rows[outer, wait, title] = (*shown, whole)
        return rows

    def retire(self, waits: Map, server: int) -> None:
        """Drop a server that has ended."""
        for outer, name in enumerate(_OUTERS):
            waits.delete(_WAIT_KEY.pack(server, outer))
            self._rest.pop((server, name), None)

    def _rest_ns(
        self, server: int, outer: str, whole: int, inside: Mapping[str, tuple[int, int]]
    ) -> int:
        """Never less than before, although CPU time is reported late."""
        rest = max(0, whole - sum(spent for _, spent in inside.values()))
        self._rest[server, outer] = max(self._rest.get((server, outer), 0), rest)
        return self._rest[server, outer]
