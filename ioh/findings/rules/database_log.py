"""Database log: commits that wait for its syncs, and data written to the same disk."""

from __future__ import annotations

from ioh.findings.devices import bottom
from ioh.findings.format_sentence import duration, per_s, percent, rate, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.waits import CALM_S, PROBE, RECENT_S, SHOW, Waits, waits_by_server
from ioh.findings.window import Recall, Stretch, duration_s, number, rows_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

_MOST_SYNCS = 3.0  # a commit waits for fewer syncs; above this it waits for something else
_MOST_OF = 0.5  # share of a log sync's time that a lower layer must have to be named


@Rule(
    title="Commits wait for the log",
    layer="db",
    watches="The time of commits, and how much of it their threads spend in log syncs.",
    sources="The database's own probe points; the block layer and the NFS client for where a "
    "sync spends its time.",
    blind="What the client does between two commits, and commits that wait for a replica.",
    false_alarm="A log must be synced. If you only have a disk without a protected write cache, "
    "the finding shows that disk's limit.",
    wrong_if="with synchronous_commit = off commits take as long as before",
    check=SHOW,
    thresholds={
        "commits_min_per_s": (20, "smaller loads are ignored"),
        "share_min": (0.5, "of the commits' time: nothing else takes as much"),
        "busy_min": (0.5, "of the time a session syncs the log: others wait for it"),
        "latency_min_ms": (2.0, "a sync to a protected cache takes less"),
        "slow_min_ms": (20.0, "then a warning: two rotations of a 7,200 rpm disk take less"),
    },
    probed=("db",),
    hold_s=4.0,
)
def commit_bound(recent: Stretch, limits: Limits) -> Verdicts:
    """Check each server: are slow log syncs most of the commits' time?"""
    for server, commits in waits_by_server(recent, "commit").items():
        sync, others_ns = commits.of("log_sync"), _others_ns(commits, limits)
        share = (sync.spent_ns + others_ns) / commits.whole_ns
        least_us = limits["latency_min_ms"] * 1e3
        if commits.per_s < limits["commits_min_per_s"] or share < limits["share_min"]:
            continue
        if not sync.count or sync.mean_us < least_us:
            continue
        whose = ", mostly another session's" if others_ns > sync.spent_ns else ""
        spent = f"{percent(share)} of the commits' time is log syncs"
        each = f"{duration(sync.mean_us)} per log sync"
        yield Verdict(
            subject=server,
            severity="warning" if sync.mean_us >= limits["slow_min_ms"] * 1e3 else "info",
            confidence="high",
            cause=f"{server}: {per_s(commits.per_s)} commits a second take "
            f"{duration(commits.mean_us)} each; {percent(share)} of that is the log sync, "
            f"{duration(sync.mean_us)} each{whose}{_where(recent, sync.mean_us)}.",
            evidence=(
                Evidence(spent, "share_pct", share * 100, limits["share_min"] * 100, PROBE),
                Evidence(each, "wait_us", sync.mean_us, least_us, PROBE),
            ),
            advice="Give the log a device that syncs fast (with a protected write cache), commit "
            "more rows at a time, or let commits share a sync (commit_delay). "
            "synchronous_commit = off is also fast, but a crash loses the last commits.",
            command=SHOW,
        )


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


def _where(recent: Stretch, sync_us: float) -> str:
    """Clause that names the lower layer with most of a sync's time; "" if there is none."""
    for layer, op, what in (
        ("nfs_client", "commit", "the NFS server's COMMIT"),
        ("block", "flush", "a disk flush"),
        ("block", "write", "a disk write"),
    ):
        below = sum_op(recent, layer, op)
        took_us = below.latency_us or 0.0
        if below.count and took_us >= _MOST_OF * sync_us:
            return f"; {what} takes {duration(took_us)}"
    return ""


@Rule(
    title="Log and data share a disk",
    layer="db",
    watches="The time of log syncs while much is written to the disk, and while little is.",
    sources="The database's own probe points; the block layer's devices.",
    blind="Hosts that write to more than one device: ioh does not know which one has the log.",
    false_alarm="A device that is slow at that time for another reason, such as its own garbage "
    "collection.",
    wrong_if="the log is on another device (df of pg_wal)",
    check="ioh text --layers db,block -d top",
    thresholds={
        "syncs_min": (40, "in each of the two spans; fewer are too few to compare"),
        "ratio_min": (2.0, "times as long; syncs differ by less on a calm disk"),
        "added_min_ms": (1.0, "less is not noticeable"),
        "write_min_mb_per_s": (5.0, "written to the device; a log alone writes less"),
        "writes_ratio_min": (3.0, "times as much as in the calm intervals"),
        "same_min": (0.95, "of all writes go to one device, and so both log and data"),
    },
    needs=("db", "block"),
    probed=("db",),
    hold_s=2.0,
    span_s=90.0,
    recalls=(Recall("db", "wait"), Recall("block", "device")),
    recent_s=RECENT_S,
)
def log_on_data_disk(recent: Stretch, limits: Limits) -> Verdicts:
    """Compare each server's log syncs while much is written with those while little is."""
    disk = next(iter(bottom(recent, "write")), None)
    if disk is None or not disk.sum.bytes:
        return
    device, busy = disk.name, disk.sum.bytes_per_s
    share = disk.sum.bytes / max(disk.sum.bytes, sum_op(recent, "block", "write").bytes)
    if share < limits["same_min"]:
        return
    times_less = limits["writes_ratio_min"]
    calm = [s for s in recent.window if _written_per_s(s, device) * times_less <= busy]
    if busy < limits["write_min_mb_per_s"] * 1e6 or duration_s(calm) < CALM_S:
        return
    before = waits_by_server(calm, "commit")
    for server, commits in waits_by_server(recent, "commit").items():
        sync, usual = commits.of("log_sync"), before.get(server, Waits()).of("log_sync")
        if not usual.spent_ns or min(sync.count, usual.count) < limits["syncs_min"]:
            continue
        ratio, added_us = sync.mean_us / usual.mean_us, sync.mean_us - usual.mean_us
        if ratio < limits["ratio_min"] or added_us < limits["added_min_ms"] * 1e3:
            continue
        longer = f"{times(ratio)} times as long as while little is written"
        same = f"{percent(share)} of all writes go to {device}"
        yield Verdict(
            subject=server,
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


def _written_per_s(snapshot: Snapshot, device: str) -> float:
    rows = [row for row in rows_of(snapshot, "block", "device") if row.key[0] == device]
    return sum(number(row, "write_bytes_per_s") for row in rows)
