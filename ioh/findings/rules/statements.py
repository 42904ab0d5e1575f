"""Statements of a database that are slow: reads of its files, checkpoints, locks."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.waits import CALM_S, PROBE, RECENT_S, SHOW, Waits, waits_by_server
from ioh.findings.window import Recall, Stretch, duration_s, number, rows_of, seconds_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot


@Rule(
    title="The server's cache misses",
    layer="db",
    watches="Reads of data pages for each statement, now and in the minute before.",
    sources="The database's own probe points.",
    blind="What the server's cache holds; a storm that had begun before ioh did.",
    false_alarm="Reports and backups that read what nobody else does.",
    wrong_if="the server's own statistics (blks_hit beside blks_read) are as before",
    check=SHOW,
    thresholds={
        "statements_min_per_s": (20, "smaller loads are ignored"),
        "reads_min": (0.5, "pages for a statement; fewer are everyday misses"),
        "ratio_min": (4.0, "times as many as before: the mix of statements changes, too"),
        "share_min": (0.3, "of the statements' time; less is not felt"),
        "cached_max_us": (50, "for one read; the kernel's page cache has them then"),
    },
    probed=("db",),
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"),),
    recent_s=RECENT_S,
)
def cache_miss_storm(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server's reads for a statement now, beside the mean of the time before."""
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
        fetched = f"{times(each)} reads for a statement"
        yield Verdict(
            subject=server,
            severity="info" if reads.mean_us < limits["cached_max_us"] else "warning",
            cause=f"{server}: a statement reads {times(each)} pages that the server's cache does "
            f"not hold, {times(usual)} before: {duration(reads.mean_us)} each, {spent}, "
            f"{per_s(reads.count / now.seconds)} a second.",
            evidence=(
                Evidence(fetched, "reads_per_statement", each, least, PROBE),
                Evidence(spent, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
            ),
            advice="Look for what began: a statement that reads a whole table (ioh --pg names it), "
            "a plan that changed, a restart after which the cache is cold (pg_prewarm fills it). "
            "Where it lasts, the data in use have outgrown shared_buffers.",
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
    blind="Its syncs at the end, when it writes no more; a checkpoint that was under way already "
    "when ioh began.",
    false_alarm="Another load that began with the checkpoint.",
    wrong_if="statements are as slow when the checkpoint is over",
    check=SHOW,
    thresholds={
        "statements_min_per_s": (20, "without it; smaller loads are ignored"),
        "writes_min_per_s": (100, "pages; a spread checkpoint of 30 MB writes fewer"),
        "ratio_min": (2.0, "statements differ by less from minute to minute"),
        "added_min_ms": (1.0, "nobody feels less"),
    },
    probed=("db",),
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"), Recall("db", "session")),
    recent_s=RECENT_S,
)
def checkpoint_burst(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server's statements while its checkpointer writes, beside those when it did not."""
    for server, now in waits_by_server(recent, "statement").items():
        # On average: where the disk cannot follow, it writes nothing for seconds.
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
        written = f"{per_s(pages)} pages a second are written by the checkpointer"
        yield Verdict(
            subject=server,
            confidence="high" if ratio >= 2 * limits["ratio_min"] else "medium",
            cause=f"{server}: statements take {duration(now.mean_us)} while a checkpoint writes "
            f"{per_s(pages)} pages a second, {duration(before.mean_us)} without it{fewer}.",
            evidence=(
                Evidence(longer, "ratio", ratio, limits["ratio_min"], PROBE),
                Evidence(written, "data_writes_per_s", pages, limits["writes_min_per_s"], PROBE),
            ),
            advice="Spread checkpoints: a larger max_wal_size, checkpoint_timeout of 15 min or "
            "more, checkpoint_completion_target = 0.9. Those that somebody asks for (CHECKPOINT, "
            "the start of a backup) write as fast as they can.",
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
    title="Sessions wait for each other",
    layer="db",
    watches="The time of statements, and how much of it their threads waited for locks.",
    sources="The database's own probe points.",
    blind="Which lock it is, and who holds it; light-weight locks without --db-all.",
    false_alarm="A queue that is built on row locks waits by design.",
    wrong_if="with fewer sessions the throughput falls as much as their number",
    check=SHOW,
    thresholds={
        "share_min": (0.5, "of the statements' time: nothing else has as much"),
        "waiting_min": (1.0, "sessions at a time; fewer hold up nobody for long"),
    },
    probed=("db",),
    hold_s=4.0,
)
def lock_bound(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server whose statements' time is mostly waits for locks."""
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
            f"that other sessions hold, {duration(locks.mean_us)} each; reads, writes "
            f"and syncs are {percent(io.spent_ns / statements.whole_ns)}. Faster storage will not "
            "help.",
            evidence=(
                Evidence(several, "avg_inflight", waiting, limits["waiting_min"], PROBE),
                Evidence(spent, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
            ),
            advice="Find who holds the lock (pg_blocking_pids(), or ioh --pg for who waits): a "
            "row that all update, a transaction left open, DDL behind a long read.",
            command=SHOW,
        )
