"""Slow database statements: cache misses, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.findings.format_sentence import duration, per_s, percent, times
from ioh.findings.rule import Limits, Verdict, Verdicts
from ioh.findings.waits import (
    CALM_S,
    PROBE,
    RECENT_S,
    SHOW,
    InProgress,
    Waits,
    in_progress,
    of_database,
    waits_by_server,
)
from ioh.findings.window import Recall, RecentIntervals, duration_s, number, seconds_of
from ioh.model.finding import Evidence
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.snapshot import Snapshot

_LONG_US = 1e6  # an age that is worth a clause


@of_database(
    title="Database cache misses",
    watches="Data pages read per statement, now and in the minute before.",
    sources="The database's own probe points.",
    blind="The contents of the server's cache; misses that began before ioh started.",
    false_alarm="Reports and backups, which read data that is not in use otherwise.",
    wrong_if="the server's own statistics (blks_hit and blks_read) have not changed",
    thresholds={
        "statements_min_per_s": (20, "smaller loads are ignored"),
        "reads_min": (0.5, "pages per statement; fewer are normal misses"),
        "ratio_min": (4.0, "times as many as before, because the mix of statements also varies"),
        "share_min": (0.3, "of the statements' time; less is not noticeable"),
        "cached_max_us": (50, "per read; faster reads come from the kernel's page cache"),
    },
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"),),
    recent_s=RECENT_S,
    compares=True,
)
def cache_miss_storm(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare each server's reads per statement now with the mean before."""
    before = recent.window.recent(2 * RECENT_S).usual
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
        of_time = f"{percent(share)} of the statements' time"
        fetched = f"{times(each)} reads per statement"
        yield Verdict(
            subject=server,
            severity="info" if reads.mean_us < limits["cached_max_us"] else "warning",
            cause=f"{server}: a statement reads {times(each)} pages that are not in the server's "
            f"cache, {times(usual)} before: {per_s(reads.count / now.seconds)} reads a second, "
            f"{duration(reads.mean_us)} each, {of_time}.",
            evidence=(
                Evidence(fetched, "reads_per_statement", each, least, PROBE),
                Evidence(of_time, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
            ),
            advice="Find what has changed: a statement that reads a whole table (ioh --pg shows "
            "it), a changed plan, a restart with a cold cache (pg_prewarm fills it). If it lasts, "
            "the working set has outgrown shared_buffers.",
            command=SHOW,
        )


def _reads_of_one(waits: Waits) -> float:
    count = waits.per_s * waits.seconds
    return waits.of("data_read").count / count if count else 0.0


@of_database(
    title="A checkpoint slows statements",
    watches="The time of statements while a checkpoint writes pages and syncs them, and without.",
    sources="The database's own probe points, by session.",
    blind="A checkpoint that was already running when ioh started.",
    false_alarm="Another load that began with the checkpoint.",
    wrong_if="statements are as slow when the checkpoint is over",
    thresholds={
        "statements_min_per_s": (20, "without it; smaller loads are ignored"),
        "writes_min_per_s": (100, "pages since it began; a spread one of 30 MB writes fewer"),
        "ratio_min": (2.0, "statement times vary by less from minute to minute"),
        "added_min_ms": (1.0, "less is not noticeable"),
        "critical_min_ms": (1000.0, "per statement; then critical"),
    },
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"), Recall("db", "session"), Recall("db", IN_PROGRESS)),
    recent_s=RECENT_S,
    compares=True,
)
def checkpoint_burst(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare each server's statements while its checkpointer writes with the time before."""
    for server, now in waits_by_server(recent, "statement").items():
        running = in_progress(recent[-1], server, "checkpoint")
        pages = max(_pages_per_s(recent, server), _pages_since(recent, server, running))
        if pages < limits["writes_min_per_s"]:
            continue
        calm = [s for s in recent.usual if not _is_checkpoint(s, server)]
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
        writes = f"the checkpointer writes {per_s(pages)} pages a second"
        lasts = f" for {duration(running.oldest_us)} now" if running.oldest_us > _LONG_US else ""
        yield Verdict(
            subject=server,
            severity="critical" if now.mean_us >= limits["critical_min_ms"] * 1e3 else "warning",
            confidence="high" if ratio >= 2 * limits["ratio_min"] else "medium",
            cause=f"{server}: statements take {duration(now.mean_us)} while a checkpoint writes "
            f"{per_s(pages)} pages a second{lasts}, and {duration(before.mean_us)} without "
            f"it{fewer}.",
            evidence=(
                Evidence(longer, "ratio", ratio, limits["ratio_min"], PROBE),
                Evidence(writes, "data_writes_per_s", pages, limits["writes_min_per_s"], PROBE),
            ),
            advice="Spread checkpoints: raise max_wal_size, set checkpoint_timeout to 15 min or "
            "more, and checkpoint_completion_target = 0.9. Requested checkpoints (CHECKPOINT, "
            "the start of a backup) always write at full speed.",
            command=SHOW,
        )


def _pages_per_s(recent: Sequence[Snapshot], server: str) -> float:
    """A mean, because with a slow disk the checkpointer may write nothing for seconds."""
    seconds = [seconds_of(s, "db") for s in recent]
    pages = [_written_per_s(s, server) * each for s, each in zip(recent, seconds, strict=True)]
    return sum(pages) / sum(seconds) if sum(seconds) else 0.0


def _pages_since(recent: RecentIntervals, server: str, running: InProgress) -> float:
    """The same since the running checkpoint began: at its end it only syncs what it wrote."""
    seconds = running.oldest_us / 1e6
    return _pages_per_s(recent.window.recent(seconds), server) if seconds else 0.0


def _is_checkpoint(snapshot: Snapshot, server: str) -> bool:
    rows = snapshot.rows("db", IN_PROGRESS)
    is_running = any(row.key[2] == "checkpoint" and row.key[-1] == server for row in rows)
    return is_running or _written_per_s(snapshot, server) > 0


def _written_per_s(snapshot: Snapshot, server: str) -> float:
    """Data pages that a server's checkpointer wrote in one interval."""
    return sum(
        number(row, "data_writes_per_s")
        for row in snapshot.rows("db", "session")
        if row.key[1:] == ("checkpointer", server)
    )
