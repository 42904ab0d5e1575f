"""Statements of a database that wait for each other, not for I/O."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, percent, times
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.waits import waits_by_server
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence

_LOCKS = ("lock_wait", "lwlock_wait")
_IO = ("log_sync", "log_write", "data_read", "data_write")


@Rule(
    title="Sessions wait for each other",
    layer="db",
    watches="The time of statements, and how much of it their threads waited for locks.",
    sources="The database's own probe points.",
    blind="Which lock it is, and who holds it; light-weight locks without --db-all.",
    false_alarm="A queue that is built on row locks waits by design.",
    wrong_if="with fewer sessions the throughput falls as much as their number",
    check="ioh text --layers db -d top",
    thresholds=(
        Threshold("share_min", 0.5, "of the statements' time: nothing else has as much"),
        Threshold("waiting_min", 1.0, "sessions at a time; fewer hold up nobody for long"),
    ),
    probed=("db",),
    hold_s=4.0,
)
def lock_bound(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server whose statements' time is mostly waits for locks."""
    for server, statements in waits_by_server(recent, "statement").items():
        locks = [w for name, w in statements.by_wait.items() if name in _LOCKS]
        waited_ns = sum(wait.spent_ns for wait in locks)
        count = sum(wait.count for wait in locks)
        if not count:
            continue
        share, waiting = waited_ns / statements.whole_ns, waited_ns / statements.seconds / 1e9
        if share < limits["share_min"] or waiting < limits["waiting_min"]:
            continue
        io = sum(w.spent_ns for name, w in statements.by_wait.items() if name in _IO)
        yield Verdict(
            subject=server,
            confidence="high",
            cause=f"{server}: statements spend {percent(share)} of their time waiting for locks "
            f"that other sessions hold, {duration(waited_ns / count / 1e3)} each; reads, writes "
            f"and syncs are {percent(io / statements.whole_ns)}. Faster storage will not help.",
            evidence=(
                Evidence(
                    f"{times(waiting)} sessions wait for a lock on average",
                    "avg_inflight",
                    waiting,
                    limits["waiting_min"],
                    "probe of the database",
                ),
                Evidence(
                    f"{percent(share)} of the statements' time",
                    "share_pct",
                    share * 100,
                    limits["share_min"] * 100,
                    "probe of the database",
                ),
            ),
            advice="Find who holds the lock (pg_blocking_pids(), or ioh --pg for who waits): a "
            "row that all update, a transaction left open, DDL behind a long read.",
            command="ioh text --layers db -d top",
        )
