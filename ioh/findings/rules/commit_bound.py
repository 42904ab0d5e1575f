"""Commits of a database that wait for its log to be safe on disk."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.findings.format_sentence import duration, per_s, percent
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.waits import Waits, waits_by_server
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

_MOST_SYNCS = 3.0  # that a commit waits for: else it is something else
_MOST_OF = 0.5  # of a log sync's time: what names where it goes


@Rule(
    title="Commits wait for the log",
    layer="db",
    watches="The time of commits, and how much of it their threads spent in syncs of the log.",
    sources="The database's own probe points; block layer and NFS client for where a sync's time "
    "goes.",
    blind="What the client does between two commits, and commits that wait for a replica.",
    false_alarm="A log must be synced; where a disk without a protected cache is all there is, "
    "this is its limit, and it says how far.",
    wrong_if="with synchronous_commit = off commits take as long as before",
    check="ioh text --layers db -d top",
    thresholds=(
        Threshold("commits_min_per_s", 20, "smaller loads are ignored"),
        Threshold("share_min", 0.5, "of the commits' time: nothing else has as much"),
        Threshold("busy_min", 0.5, "of all time a session syncs the log: others wait for it"),
        Threshold("latency_min_ms", 2.0, "a protected cache answers in less"),
        Threshold("slow_min_ms", 20.0, "a warning: two turns of a disk of 7,200 rpm take less"),
    ),
    probed=("db",),
    hold_s=4.0,
)
def commit_bound(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server whose commits' time is mostly the log's syncs, slow ones."""
    for server, commits in waits_by_server(recent, "commit").items():
        sync = commits.by_wait.get("log_sync")
        if sync is None or commits.per_s < limits["commits_min_per_s"]:
            continue
        share = (sync.spent_ns + _others_ns(commits, limits)) / commits.whole_ns
        if share < limits["share_min"] or sync.mean_us < limits["latency_min_ms"] * 1e3:
            continue
        yield _verdict(server, commits, recent, limits)


def _verdict(server: str, commits: Waits, recent: Sequence[Snapshot], limits: Limits) -> Verdict:
    sync = commits.by_wait["log_sync"]
    others_ns = _others_ns(commits, limits)
    share = (sync.spent_ns + others_ns) / commits.whole_ns
    whose = ", mostly another session's" if others_ns > sync.spent_ns else ""
    slow = limits["slow_min_ms"] * 1e3
    where = _where(recent, sync.mean_us)
    return Verdict(
        subject=server,
        severity="warning" if sync.mean_us >= slow else "info",
        confidence="high",
        cause=f"{server}: {per_s(commits.per_s)} commits a second of {duration(commits.mean_us)}; "
        f"{percent(share)} of that is the log's sync, {duration(sync.mean_us)} each{whose}{where}.",
        evidence=(
            Evidence(
                f"{percent(share)} of the commits' time is log syncs",
                "share_pct",
                share * 100,
                limits["share_min"] * 100,
                "probe of the database",
            ),
            Evidence(
                f"{duration(sync.mean_us)} for each log sync",
                "wait_us",
                sync.mean_us,
                limits["latency_min_ms"] * 1e3,
                "probe of the database",
            ),
        ),
        advice="Give the log a device that answers a sync soon (a protected write cache), commit "
        "more rows at once, or let commits share a sync (commit_delay). synchronous_commit = off "
        "is as fast, and loses the last commits in a crash.",
        command="ioh text --layers db -d top",
    )


def _others_ns(commits: Waits, limits: Limits) -> float:
    """What the commits waited for another session's sync, where the log is synced all the time.

    That is a light-weight lock, which has no probe by default: it is what nothing else explains,
    but no more than a sync that has begun already and the next one, which takes all that wait.
    """
    sync, rest = commits.by_wait["log_sync"], commits.by_wait.get("rest")
    busy = sync.spent_ns / commits.seconds / 1e9
    if rest is None or busy < limits["busy_min"] or commits.mean_us > _MOST_SYNCS * sync.mean_us:
        return 0.0
    return rest.spent_ns


def _where(recent: Sequence[Snapshot], sync_us: float) -> str:
    """Which layer below has the time, where one has most of it."""
    flushed = sum_op(recent, "nfs_client", "commit")
    if flushed.count and (flushed.latency_us or 0.0) >= _MOST_OF * sync_us:
        return f"; the NFS server's COMMIT takes {duration(flushed.latency_us or 0.0)}"
    for op, what in (("flush", "flush"), ("write", "write")):
        below = sum_op(recent, "block", op)
        took_us = below.latency_us or 0.0
        if below.count and took_us >= _MOST_OF * sync_us:
            return f"; a {what} of the disk takes {duration(took_us)}"
    return ""
