"""Database log: commits that wait for its syncs, and data written to the same disk."""

from __future__ import annotations

from typing import NamedTuple

from ioh.findings.devices import Device, bottom
from ioh.findings.format_sentence import duration, per_s, percent, rate, times
from ioh.findings.rule import Limits, Verdict, Verdicts
from ioh.findings.storage_time import reached_write_limit
from ioh.findings.sums import cpu_pct, sum_op
from ioh.findings.waits import (
    CALM_S,
    PROBE,
    RECENT_S,
    SHOW,
    Waits,
    in_progress,
    of_database,
    waits_by_server,
)
from ioh.findings.window import Recall, RecentIntervals, duration_s, number
from ioh.model.finding import Evidence, Severity
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.snapshot import Snapshot

_MOST_SYNCS = 3.0  # a commit waits for fewer syncs; above this it waits for something else
_MOST_OF = 0.5  # share of a log sync's time that a lower layer must have to be named
_ALWAYS = 0.9  # mean number of sessions: nearly always one
_LONG_US = 1e6  # an age that is worth a sentence
_NOTABLE = 0.2  # share of a log sync's time
_FULL_PCT = 90.0  # of all CPUs' time


@of_database(
    title="Commits wait for the log",
    watches="The time of commits, and how much of it their threads spend in log syncs.",
    sources="The database's own probe points; the block layer and the NFS client for where a "
    "sync spends its time; the scheduler's time in the queue for a CPU.",
    blind="What the client does between two commits, and commits that wait for a replica.",
    false_alarm="A log must be synced. If you only have a disk without a protected write cache, "
    "the finding shows that disk's limit.",
    wrong_if="with synchronous_commit = off commits take as long as before",
    thresholds={
        "commits_min_per_s": (20, "smaller loads are ignored"),
        "commits_min": (0.5, "at a time, if they are fewer per second: they are slow"),
        "share_min": (0.5, "of the commits' time: nothing else takes as much"),
        "busy_min": (0.5, "of the time a session syncs the log: others wait for it"),
        "latency_min_ms": (2.0, "a sync to a protected cache takes less"),
        "slow_min_ms": (20.0, "then a warning: two rotations of a 7,200 rpm disk take less"),
        "critical_min_ms": (100.0, "then critical, if a session always waits for a commit"),
    },
    hold_s=4.0,
)
def commit_bound(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each server: are slow log syncs most of the commits' time?"""
    syncs = waits_by_server(recent, "log_sync")
    for server, commits in waits_by_server(recent, "commit").items():
        sync, others_ns = commits.of("log_sync"), _others_ns(commits, limits)
        share = (sync.spent_ns + others_ns) / commits.whole_ns
        least_us = limits["latency_min_ms"] * 1e3
        is_load = commits.per_s >= limits["commits_min_per_s"]
        if not is_load and commits.at_a_time < limits["commits_min"]:
            continue
        if share < limits["share_min"] or sync.mean_us < least_us:
            continue
        whose = ", mostly another session's" if others_ns > sync.spent_ns else ""
        where = _where(recent, sync.mean_us, syncs.get(server, Waits()))
        of_time = f"{percent(share)} of the commits' time is log syncs"
        each = f"{duration(sync.mean_us)} per log sync"
        yield Verdict(
            title=where.title,
            subject=server,
            severity=_severity(sync.mean_us, commits, limits) if where.is_below else "info",
            confidence="high" if where.is_below else "medium",
            cause=f"{server}: {per_s(commits.per_s)} commits a second take "
            f"{duration(commits.mean_us)} each; {percent(share)} of that is the log sync, "
            f"{duration(sync.mean_us)} each{whose}{where.clause}.{_pending(recent, server)}",
            evidence=(
                Evidence(of_time, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
                Evidence(each, "wait_us", sync.mean_us, least_us, PROBE),
            ),
            advice=_FASTER_LOG if where.is_below else _MORE_CPU,
            command=SHOW,
        )


_FASTER_LOG = (
    "Give the log a device that syncs fast (with a protected write cache), commit "
    "more rows at a time, or let commits share a sync (commit_delay). "
    "synchronous_commit = off is also fast, but a crash loses the last commits."
)
_MORE_CPU = (
    "A faster disk will not help: most of a sync's time is neither the disk's nor the network's. "
    "Give the server more CPU time: less work beside it, or more CPUs. Or commit more rows at a "
    "time."
)


def _severity(sync_us: float, commits: Waits, limits: Limits) -> Severity:
    if sync_us >= limits["critical_min_ms"] * 1e3 and commits.at_a_time >= _ALWAYS:
        return "critical"
    return "warning" if sync_us >= limits["slow_min_ms"] * 1e3 else "info"


def _pending(recent: RecentIntervals, server: str) -> str:
    """Sentence about commits that have not ended for long; "" if there are none."""
    now = in_progress(recent[-1], server, "commit")
    if now.oldest_us < _LONG_US:
        return ""
    return f" {now.number} in progress, the oldest for {duration(now.oldest_us)}."


def _others_ns(commits: Waits, limits: Limits) -> float:
    """Time that commits waited for another session's log sync, if the log is synced all the time.

    They wait on a lightweight lock, which has no probe by default, so this is the unexplained rest.
    A commit waits at most for the running sync and the next one, which covers all that wait.
    """
    sync = commits.of("log_sync")
    busy = sync.spent_ns / commits.seconds / 1e9
    if busy < limits["busy_min"] or commits.mean_us > _MOST_SYNCS * sync.mean_us:
        return 0.0
    return commits.of("rest").spent_ns


class _SyncPlace(NamedTuple):
    """Where a log sync spends its time: a clause, and whether that is the disk or the network."""

    clause: str = ""
    is_below: bool = True
    title: str = ""


def _where(recent: RecentIntervals, sync_us: float, syncs: Waits) -> _SyncPlace:
    """The lower layer with most of a sync's time; or that they have less than half of it.

    A sync is at least a write and a flush.  Without any, it is not known where it spends its time.
    """
    spent_us: dict[str, float] = {}
    for layer, op, whose, what in (
        ("nfs_client", "commit", "the NFS server", "the NFS server's COMMIT"),
        ("nfs_client", "write", "the NFS server", "the NFS server's WRITE"),
        ("block", "flush", "the disk", "a disk flush"),
        ("block", "write", "the disk", "a disk write"),
    ):
        below = sum_op(recent, layer, op)
        took_us = below.latency_us or 0.0
        if not below.count:
            continue
        if took_us >= _MOST_OF * sync_us:
            return _SyncPlace(f"; {what} takes {duration(took_us)}")
        spent_us[whose] = spent_us.get(whose, 0.0) + took_us
    if not spent_us or max(spent_us.values()) >= _MOST_OF * sync_us:
        return _SyncPlace()
    clauses = [f"{whose} takes {duration(took_us)} of it" for whose, took_us in spent_us.items()]
    for_cpu = syncs.of("cpu", "cpu_wait").spent_ns / syncs.whole_ns if syncs.whole_ns else 0.0
    if for_cpu >= _NOTABLE:
        clauses.append(f"{percent(for_cpu)} is CPU time and waiting for a CPU")
    busy_pct, limit = cpu_pct(recent), reached_write_limit(recent)
    if limit is not None:
        group, device = limit.row.key[:2]
        clauses.append(f"control group {group} limits the writes of {device} (see io_limit)")
    elif busy_pct is not None and busy_pct >= _FULL_PCT:
        clauses.append(f"the CPUs are {percent(busy_pct / 100)} busy")
    return _SyncPlace(
        f"; {', '.join(clauses)}", is_below=False, title="Log syncs are slow, not the disk"
    )


@of_database(
    title="Log and data share a disk",
    watches="The time of log syncs while much is written to the disk, and while little is.",
    sources="The database's own probe points; the block layer's devices.",
    blind="Hosts that write to more than one device: ioh does not know which one has the log.",
    false_alarm="A device that is slow at that time for another reason, such as its own garbage "
    "collection.",
    wrong_if="the log is on another device (df of pg_wal)",
    check="ioh text --layers db,block -d top",
    thresholds={
        "syncs_min": (40, "in each of the two spans; fewer are too few to compare"),
        "busy_min": (0.5, "of the time the log is synced, if they are fewer: they are slow"),
        "ratio_min": (2.0, "times as long; syncs differ by less on a calm disk"),
        "added_min_ms": (1.0, "less is not noticeable"),
        "write_min_mb_per_s": (5.0, "written to the device; a log alone writes less"),
        "writes_ratio_min": (3.0, "times as much as in the calm intervals"),
        "same_min": (0.95, "of all writes go to one device, and so both log and data"),
        "critical_min_ms": (100.0, "then critical, if a session always waits for a commit"),
    },
    needs=("db", "block"),
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"), Recall("block", "device")),
    recent_s=RECENT_S,
    compares=True,
)
def log_on_data_disk(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare each server's log syncs while much is written with those while little is."""
    disk = next(iter(bottom(recent, "write")), None)
    if disk is None or not disk.sum.bytes:
        return
    device, busy = disk.name, disk.sum.bytes_per_s
    share = disk.sum.bytes / max(disk.sum.bytes, sum_op(recent, "block", "write").bytes)
    if share < limits["same_min"]:
        return
    times_less = limits["writes_ratio_min"]
    calm = [s for s in recent.usual if _written_per_s(s, device) * times_less <= busy]
    if busy < limits["write_min_mb_per_s"] * 1e6 or duration_s(calm) < CALM_S:
        return
    before = waits_by_server(calm, "commit")
    for server, commits in waits_by_server(recent, "commit").items():
        sync, usual = commits.of("log_sync"), before.get(server, Waits()).of("log_sync")
        if not usual.spent_ns or usual.count < limits["syncs_min"]:
            continue
        is_busy = sync.spent_ns / commits.seconds / 1e9 >= limits["busy_min"]
        if (sync.count < limits["syncs_min"] and not is_busy) or not _is_of(disk, sync.mean_us):
            continue
        ratio, added_us = sync.mean_us / usual.mean_us, sync.mean_us - usual.mean_us
        if ratio < limits["ratio_min"] or added_us < limits["added_min_ms"] * 1e3:
            continue
        longer = f"{times(ratio)} times as long as while little is written"
        same = f"{percent(share)} of all writes go to {device}"
        is_critical = sync.mean_us >= limits["critical_min_ms"] * 1e3
        yield Verdict(
            subject=server,
            severity="critical" if is_critical and commits.at_a_time >= _ALWAYS else "warning",
            cause=f"{server}: a log sync takes {duration(sync.mean_us)} while {rate(busy)} is "
            f"written to {device}, and {duration(usual.mean_us)} while little is written: log and "
            "data share that device.",
            evidence=(
                Evidence(longer, "ratio", ratio, limits["ratio_min"], PROBE),
                Evidence(same, "share_pct", share * 100, limits["same_min"] * 100, "block layer"),
            ),
            advice="Put the log (pg_wal) on a separate device, or write less at a time: spread "
            "checkpoints, limit the write rate of a backup or copy.",
            command="ioh text --layers db,block -d top",
        )


def _is_of(disk: Device, sync_us: float) -> bool:
    """Whether the disk takes much of a log sync's time; otherwise the disk is not the cause."""
    return (disk.sum.latency_us or 0.0) >= _MOST_OF * sync_us


def _written_per_s(snapshot: Snapshot, device: str) -> float:
    rows = [row for row in snapshot.rows("block", "device") if row.key[0] == device]
    return sum(number(row, "write_bytes_per_s") for row in rows)


@of_database(
    title="A standby does not answer",
    watches="Commits that wait for a synchronous standby to confirm them.",
    sources="The database's own functions.",
    blind="Standbys whose commits nobody waits for.",
    false_alarm="A standby that is restarted, or replays a lot with synchronous_commit = "
    "remote_apply.",
    wrong_if="pg_stat_replication shows flush_lsn of all synchronous standbys advancing",
    thresholds={"silent_min_s": (3.0, "for the oldest commit; a standby far away takes 0.3 s")},
    recent_s=1.0,
    hold_s=1.0,
    may_be_short=True,
)
def standby_no_answer(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each server: does a commit wait long for a standby?"""
    servers = {row.key[-1] for row in recent[-1].rows("db", IN_PROGRESS)}
    for server in sorted(servers):
        now = in_progress(recent[-1], server, "standby_wait")
        if now.oldest_us < limits["silent_min_s"] * 1e6:
            continue
        longest = f"the oldest waits for {duration(now.oldest_us)}"
        waiting = "1 commit waits" if now.number == 1 else f"{now.number} commits wait"
        yield Verdict(
            subject=server,
            severity="critical",
            confidence="high",
            cause=f"{server}: {waiting} for a synchronous standby, the longest for "
            f"{duration(now.oldest_us)}. They are durable here; their clients wait.",
            evidence=(
                Evidence(longest, "age_us", now.oldest_us, limits["silent_min_s"] * 1e6, PROBE),
            ),
            advice="Check the standby and the way to it: select * from pg_stat_replication here, "
            "pg_stat_wal_receiver there. If it is lost, take it out of "
            "synchronous_standby_names and reload; the commits then end.",
            command=SHOW,
        )
