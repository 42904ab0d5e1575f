"""Slow database statements: cache misses, checkpoints, locks."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.waits import CALM_S, PROBE, RECENT_S, SHOW, Waits, waits_by_server
from ioh.findings.window import Recall, Stretch, duration_s, number, rows_of, seconds_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot


@Rule(
    title="Database cache misses",
    layer="db",
    watches="Data pages read per statement, now and in the minute before.",
    sources="The database's own probe points.",
    blind="The contents of the server's cache; misses that began before ioh started.",
    false_alarm="Reports and backups, which read data that is not in use otherwise.",
    wrong_if="the server's own statistics (blks_hit and blks_read) have not changed",
    check=SHOW,
    thresholds={
        "statements_min_per_s": (20, "smaller loads are ignored"),
        "reads_min": (0.5, "pages per statement; fewer are normal misses"),
        "ratio_min": (4.0, "times as many as before, because the mix of statements also varies"),
        "share_min": (0.3, "of the statements' time; less is not noticeable"),
        "cached_max_us": (50, "per read; faster reads come from the kernel's page cache"),
    },
    probed=("db",),
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"),),
    recent_s=RECENT_S,
)
def cache_miss_storm(recent: Stretch, limits: Limits) -> Verdicts:
    """Compare each server's reads per statement now with the mean before."""
    before = recent.window.recent(2 * RECENT_S).before
    if duration_s(before) < CALM_S:
        return
    calm = waits_by_server(before, "statement")
    for server, now in waits_by_server(recent, "statement").items():
        if server not in calm:
            continue
        reads = now.of("data_read")
        share, each = reads.spent_ns / now.whole_ns, _reads_of_one(now)
        usual = _reads_of_one(calm[server])
        least = max(limits["reads_min"], limits["ratio_min"] * usual)
        load = min(now.per_s, calm[server].per_s)
        if load < limits["statements_min_per_s"] or share < limits["share_min"] or each < least:
            continue
        spent = f"{percent(share)} of the statements' time"
        fetched = f"{times(each)} reads per statement"
        yield Verdict(
            subject=server,
            severity="info" if reads.mean_us < limits["cached_max_us"] else "warning",
            cause=f"{server}: a statement reads {times(each)} pages that are not in the server's "
            f"cache, {times(usual)} before: {per_s(reads.count / now.seconds)} reads a second, "
            f"{duration(reads.mean_us)} each, {spent}.",
            evidence=(
                Evidence(fetched, "reads_per_statement", each, least, PROBE),
                Evidence(spent, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
            ),
            advice="Find what has changed: a statement that reads a whole table (ioh --pg shows "
            "it), a changed plan, a restart with a cold cache (pg_prewarm fills it). If it lasts, "
            "the working set has outgrown shared_buffers.",
            command=SHOW,
        )


def _reads_of_one(waits: Waits) -> float:
    count = waits.per_s * waits.seconds
    return waits.of("data_read").count / count if count else 0.0


@Rule(
    title="A checkpoint slows statements",
    layer="db",
    watches="The time of statements while the checkpointer writes pages, and while it does not.",
    sources="The database's own probe points, by session.",
    blind="The syncs at the end of a checkpoint, when it no longer writes; a checkpoint that was "
    "already running when ioh started.",
    false_alarm="Another load that began with the checkpoint.",
    wrong_if="statements are as slow when the checkpoint is over",
    check=SHOW,
    thresholds={
        "statements_min_per_s": (20, "without it; smaller loads are ignored"),
        "writes_min_per_s": (100, "pages; a spread checkpoint of 30 MB writes fewer"),
        "ratio_min": (2.0, "statement times vary by less from minute to minute"),
        "added_min_ms": (1.0, "less is not noticeable"),
    },
    probed=("db",),
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"), Recall("db", "session")),
    recent_s=RECENT_S,
)
def checkpoint_burst(recent: Stretch, limits: Limits) -> Verdicts:
    """Compare each server's statements while its checkpointer writes with the time before."""
    for server, now in waits_by_server(recent, "statement").items():
        # A mean, because with a slow disk the checkpointer may write nothing for seconds.
        pages = sum(_written_per_s(s, server) * seconds_of(s, "db") for s in recent)
        pages /= recent.seconds
        if pages < limits["writes_min_per_s"]:
            continue
        calm = [s for s in recent.before if not _written_per_s(s, server)]
        before = waits_by_server(calm, "statement").get(server, Waits())
        if not before.whole_ns or duration_s(calm) < CALM_S:
            continue
        if before.per_s < limits["statements_min_per_s"]:
            continue
        added_us = now.mean_us - before.mean_us
        ratio = now.mean_us / before.mean_us
        if added_us < limits["added_min_ms"] * 1e3 or ratio < limits["ratio_min"]:
            continue
        fewer = ""
        if now.per_s * limits["ratio_min"] < before.per_s:
            fewer = f"; {per_s(now.per_s)} a second instead of {per_s(before.per_s)}"
        longer = f"{times(ratio)} times as long as without a checkpoint"
        written = f"the checkpointer writes {per_s(pages)} pages a second"
        yield Verdict(
            subject=server,
            confidence="high" if ratio >= 2 * limits["ratio_min"] else "medium",
            cause=f"{server}: statements take {duration(now.mean_us)} while a checkpoint writes "
            f"{per_s(pages)} pages a second, and {duration(before.mean_us)} without it{fewer}.",
            evidence=(
                Evidence(longer, "ratio", ratio, limits["ratio_min"], PROBE),
                Evidence(written, "data_writes_per_s", pages, limits["writes_min_per_s"], PROBE),
            ),
            advice="Spread checkpoints: raise max_wal_size, set checkpoint_timeout to 15 min or "
            "more, and checkpoint_completion_target = 0.9. Requested checkpoints (CHECKPOINT, "
            "the start of a backup) always write at full speed.",
            command=SHOW,
        )


def _written_per_s(snapshot: Snapshot, server: str) -> float:
    """Data pages that a server's checkpointer wrote in one interval."""
    return sum(
        number(row, "data_writes_per_s")
        for row in rows_of(snapshot, "db", "session")
        if row.key[1:] == ("checkpointer", server)
    )


@Rule(
    title="Sessions wait for locks",
    layer="db",
    watches="The time of statements, and how much of it their threads wait for locks.",
    sources="The database's own probe points.",
    blind="Which lock it is, and who holds it; lightweight locks without --db-all.",
    false_alarm="A job queue built on row locks waits by design.",
    wrong_if="with fewer sessions, the throughput drops in proportion to their number",
    check=SHOW,
    thresholds={
        "share_min": (0.5, "of the statements' time: nothing else takes as much"),
        "waiting_min": (1.0, "sessions at a time; with fewer, the waits are short"),
    },
    probed=("db",),
    hold_s=4.0,
)
def lock_bound(recent: Stretch, limits: Limits) -> Verdicts:
    """Check each server: do statements spend most of their time waiting for locks?"""
    for server, statements in waits_by_server(recent, "statement").items():
        locks = statements.of("lock_wait", "lwlock_wait")
        io = statements.of("log_sync", "log_write", "data_read", "data_write")
        share = locks.spent_ns / statements.whole_ns
        waiting = locks.spent_ns / statements.seconds / 1e9
        is_much = share >= limits["share_min"] and waiting >= limits["waiting_min"]
        if not locks.count or not is_much:
            continue
        several = f"{times(waiting)} sessions wait for a lock on average"
        spent = f"{percent(share)} of the statements' time"
        yield Verdict(
            subject=server,
            confidence="high",
            cause=f"{server}: statements spend {percent(share)} of their time waiting for locks "
            f"held by other sessions, {duration(locks.mean_us)} each; reads, writes and syncs take "
            f"{percent(io.spent_ns / statements.whole_ns)}. Faster storage will not help.",
            evidence=(
                Evidence(several, "avg_inflight", waiting, limits["waiting_min"], PROBE),
                Evidence(spent, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
            ),
            advice="Find the session that holds the lock (pg_blocking_pids(); ioh --pg shows who "
            "waits): a row that all sessions update, an idle open transaction, DDL behind a long "
            "read.",
            command=SHOW,
        )
