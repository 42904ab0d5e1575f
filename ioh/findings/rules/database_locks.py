"""Database locks: sessions that wait for them, and the session that holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ioh.findings.format_sentence import duration, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.waits import (
    PROBE,
    SHOW,
    InProgress,
    Wait,
    Waits,
    in_progress,
    of_database,
    waits_by_server,
)
from ioh.findings.window import RecentIntervals, number
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

_SHOW_PG = "ioh text --pg DSN --layers pg -d top"


@of_database(
    title="Sessions wait for locks",
    watches="The time of statements, and how much of it their threads wait for locks.",
    sources="The database's own probe points.",
    blind="Which lock it is, and who holds it (--pg knows); lightweight locks without --db-all.",
    false_alarm="A job queue built on row locks waits by design.",
    wrong_if="with fewer sessions, the throughput drops in proportion to their number",
    thresholds={
        "share_min": (0.5, "of the statements' time: nothing else takes as much"),
        "waiting_min": (0.9, "sessions at a time; with fewer, the waits are short"),
        "stuck_min_s": (4.0, "for the oldest wait; then whatever else takes the time"),
        "critical_min_s": (10.0, "then critical: clients begin to give up"),
    },
    hold_s=3.0,
)
def lock_bound(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each server: do statements spend most of their time waiting for locks?"""
    newest = waits_by_server(recent[-1:], "statement")
    for server, statements in waits_by_server(recent, "statement").items():
        if not newest.get(server, Waits()).of("lock_wait", "lwlock_wait").spent_ns:
            continue  # it is over
        locks = statements.of("lock_wait", "lwlock_wait")
        now = in_progress(recent[-1], server, "lock_wait")
        share = locks.spent_ns / statements.whole_ns
        waiting = locks.spent_ns / statements.seconds / 1e9
        is_much = share >= limits["share_min"] and waiting >= limits["waiting_min"]
        is_stuck = now.oldest_us >= limits["stuck_min_s"] * 1e6
        if not is_much and not is_stuck:
            continue
        several = f"{times(waiting)} sessions wait for a lock on average"
        of_time = f"{percent(share)} of the statements' time"
        yield Verdict(
            subject=server,
            severity="critical" if now.oldest_us >= limits["critical_min_s"] * 1e6 else "warning",
            confidence="high",
            cause=f"{server}: {_stuck(statements, locks, now) if is_stuck else _usual(statements)} "
            "Faster storage will not help.",
            evidence=(
                Evidence(several, "avg_inflight", waiting, limits["waiting_min"], PROBE),
                Evidence(of_time, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
            ),
            advice="Find the session that holds the lock (ioh --pg shows who blocks whom): a row "
            "that all sessions update, an idle open transaction, DDL behind a long read.",
            command=SHOW,
        )


def _usual(statements: Waits) -> str:
    """Sentence about many waits for locks, each of them short."""
    locks = statements.of("lock_wait", "lwlock_wait")
    io = statements.of("log_sync", "log_write", "data_read", "data_write")
    return (
        f"statements spend {percent(locks.spent_ns / statements.whole_ns)} of their time waiting "
        f"for locks held by other sessions, {duration(locks.mean_us)} each; reads, writes and "
        f"syncs take {percent(io.spent_ns / statements.whole_ns)}."
    )


def _stuck(statements: Waits, locks: Wait, now: InProgress) -> str:
    """Sentence about waits that do not end."""
    who = "1 session waits" if now.number == 1 else f"{now.number} sessions wait"
    share = percent(locks.spent_ns / statements.whole_ns)
    return (
        f"{who} for a lock held by another session, the longest for {duration(now.oldest_us)}; "
        f"that is {share} of the statements' time."
    )


@Rule(
    title="A session blocks others",
    layer="pg",
    watches="Sessions that wait for a lock, and the session that holds it.",
    sources="pg_stat_activity and pg_blocking_pids(), once a second.",
    blind="Waits that end within a second; lightweight locks.",
    false_alarm="A job queue built on row locks waits by design.",
    wrong_if="the wait ends although that session goes on",
    check=_SHOW_PG,
    thresholds={
        "stuck_min_s": (4.0, "for the longest wait"),
        "critical_min_s": (10.0, "then critical: clients begin to give up"),
    },
    needs=("pg",),
    recent_s=12.0,
    hold_s=1.0,
    may_be_short=True,
)
def blocking_session(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each session that waits for no other one: how many wait for it, and how long?"""
    sessions = _sessions(recent[-1])
    blocked: dict[str, list[str]] = defaultdict(list)
    for pid, each in sessions.items():
        if each.blocked_by:
            blocked[_root_of(each, sessions)].append(pid)
    waited_us = _waited_us(recent)
    for pid, waiting in blocked.items():
        longest = max(waiting, key=lambda each: waited_us[each])
        least_us = limits["stuck_min_s"] * 1e6
        if waited_us[longest] < least_us:
            continue
        who = "1 session waits" if len(waiting) == 1 else f"{len(waiting)} sessions wait"
        since = f"the longest for {duration(waited_us[longest])}"
        is_critical = waited_us[longest] >= limits["critical_min_s"] * 1e6
        yield Verdict(
            subject=pid,
            severity="critical" if is_critical else "warning",
            confidence="high",
            cause=f"{who} for a lock of {_name_of(pid, sessions)}; {since}: "
            f'"{sessions[longest].statement}".',
            evidence=(
                Evidence(since, "waited_us", waited_us[longest], least_us, "pg_stat_activity"),
            ),
            advice="Let that session commit or roll back, or end it with "
            f"pg_terminate_backend({pid}). If it is idle in a transaction, its client has "
            "forgotten it: idle_in_transaction_session_timeout ends such sessions.",
            command=_SHOW_PG,
        )


class _Session(NamedTuple):
    """A row of pg's sessions."""

    state_us: float
    user: str
    database: str
    state: str
    statement: str
    blocked_by: str


def _waited_us(recent: RecentIntervals) -> dict[str, float]:
    """How long each session has been seen waiting without a break, in its present statement."""
    waited_us: dict[str, float] = {}
    pids: set[str] | None = None
    for snapshot in reversed(recent):
        sessions = _sessions(snapshot)
        waiting = {pid for pid, each in sessions.items() if each.blocked_by}
        pids = waiting if pids is None else pids & waiting
        for pid in pids:
            waited_us[pid] = waited_us.get(pid, 0.0) + snapshot.interval_s * 1e6
    newest = _sessions(recent[-1])
    return {pid: min(us, newest[pid].state_us) for pid, us in waited_us.items()}


def _sessions(snapshot: Snapshot) -> dict[str, _Session]:
    """The sessions by pid; none of a recording that does not know who blocks whom."""
    layer = snapshot.layer("pg")
    keys = next((t.keys for t in layer.spec.tables if t.name == "session"), ()) if layer else ()
    if "blocked_by" not in keys:
        return {}
    by_pid: dict[str, _Session] = {}
    for row in snapshot.rows("pg", "session"):
        fields = dict(zip(keys, row.key, strict=True))
        texts = [fields.get(name, "") for name in _Session._fields[1:]]
        by_pid[fields["pid"]] = _Session(number(row, "state_us"), *texts)
    return by_pid


def _root_of(waiting: _Session, sessions: Mapping[str, _Session]) -> str:
    """The pid of the session that it waits for in the end."""
    pids: set[str] = set()
    blockers = waiting.blocked_by
    while (pid := blockers.split(",")[0]) not in pids and pid in sessions:
        pids.add(pid)
        blockers = sessions[pid].blocked_by or pid
    return pid


def _name_of(pid: str, sessions: Mapping[str, _Session]) -> str:
    """Process, user, database, state and statement of a session."""
    if pid not in sessions:  # an idle session holds no lock
        return "a prepared transaction" if pid == "0" else f"session {pid}"
    it = sessions[pid]
    last = "its last statement" if it.state.startswith("idle") else "its statement"
    state = f"{it.state or 'background'} for {duration(it.state_us)}"
    return f'session {pid} ({it.user} in {it.database}, {state}; {last}: "{it.statement}")'
