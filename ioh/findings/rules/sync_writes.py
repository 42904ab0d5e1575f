"""Synchronous writes, fsyncs and COMMITs that set the pace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_op
from ioh.findings.window import Window, rows_of, seconds_of
from ioh.findings.words import duration, per_s, percent, program, size, times
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

SPAN_S = 5.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Calls that wait for the disk, and COMMITs of NFS."""
    if window.covers(SPAN_S):
        yield from _calls(window, limits)
        yield from _commits(window, limits)


def _calls(window: Window, limits: Limits) -> Iterator[Verdict]:
    recent = window.recent(SPAN_S)
    synced, sync = (sum_op(recent, "syscall", op) for op in ("write_sync", "fsync"))
    count = synced.count + sync.count
    rate = count / sync.seconds
    if rate < limits["syncs_min_per_s"]:
        return
    written = sum_op(recent, "syscall", "write")
    if not written.count:
        return
    # What each wait makes durable; a group commit of a database has much in each.
    each_bytes = written.bytes / count
    waited_s = synced.count * (synced.latency_us or 0) + sync.count * (sync.latency_us or 0)
    waited_s /= 1e6
    mean_us = waited_s * 1e6 / count
    if each_bytes > limits["bytes_max"] or waited_s / sync.seconds < limits["waiting_min"]:
        return
    if mean_us < limits["latency_min_ms"] * 1e3:
        return
    is_fsync = sync.count > synced.count
    what = "fsyncs" if is_fsync else "O_SYNC writes"
    who = _busiest(recent, "sync_ns_per_s" if is_fsync else "write_ns_per_s")
    yield Verdict(
        subject="calls",
        severity="warning",
        confidence="high",
        cause=f"{who} waits for {per_s(rate)} {what} a second of {duration(mean_us)}, "
        f"{percent(min(1.0, waited_s / sync.seconds))} of the time, and each makes only "
        f"{size(each_bytes)} durable.",
        evidence=(
            Evidence(
                f"{times(waited_s / sync.seconds)} threads wait on average",
                "avg_inflight",
                waited_s / sync.seconds,
                limits["waiting_min"],
                "probe of calls",
            ),
            Evidence(f"{size(each_bytes)} written for each", "", each_bytes, limits["bytes_max"]),
        ),
        advice="Write more for each fsync (group commits), or give the log a device with a "
        "protected write cache.",
        command="ioh text -d topfile",
    )


def _busiest(recent: Sequence[Snapshot], time: str) -> str:
    """Who spends most of that time; a program that writes most need not be who waits."""
    by_process: dict[tuple[str, ...], float] = {}
    for snapshot in recent:
        seconds = seconds_of(snapshot, "syscall")
        for row in rows_of(snapshot, "syscall", "process"):
            spent = (row.values.get(time) or 0.0) * seconds
            by_process[row.key] = by_process.get(row.key, 0.0) + spent
    several = "More than one program"
    busiest = max(by_process, key=lambda key: by_process[key], default=())
    if not by_process or by_process[busiest] * 2 < sum(by_process.values()):
        return several
    return program(busiest, several)


def _commits(window: Window, limits: Limits) -> Iterator[Verdict]:
    recent = window.recent(SPAN_S)
    commit = sum_op(recent, "nfs_client", "commit")
    if commit.ops_per_s < limits["commits_min_per_s"]:
        return
    write = sum_op(recent, "nfs_client", "write")
    if not write.count:
        return
    each = write.count / commit.count
    if each > limits["writes_per_commit_max"]:
        return
    yield Verdict(
        subject="COMMIT",
        layer="nfs_client",
        severity="warning",
        confidence="high",
        cause=f"{per_s(commit.ops_per_s)} COMMITs a second, one for {times(each)} WRITEs of "
        f"{size(write.avg_bytes)}, {duration(commit.latency_us or 0)} each: the server must write "
        "to disk each time.",
        evidence=(
            Evidence(
                f"{per_s(write.ops_per_s)} WRITEs, {per_s(commit.ops_per_s)} COMMITs a second",
                "",
                each,
                limits["writes_per_commit_max"],
                "probe of the NFS client",
            ),
        ),
        advice="Fewer fsyncs and closes, or larger files; a server whose export is on a protected "
        "write cache answers at once.",
        command="ioh text -d topfile",
    )


RULE = Rule(
    name="sync_writes",
    title="Synchronous writes",
    layer="syscall",
    judge=judge,
    watches="fsyncs and O_SYNC writes that programs wait for, how much each makes durable; "
    "COMMITs beside WRITEs.",
    sources="The probes of calls and of the NFS client.",
    blind="Which transaction an fsync belongs to.",
    false_alarm="A database's log must be written so; with few bytes each and slow ones it is its "
    "limit all the same.",
    thresholds=(
        Threshold("syncs_min_per_s", 20, "fewer are no storm"),
        Threshold("latency_min_ms", 2.0, "a protected cache answers in less"),
        Threshold("waiting_min", 0.5, "somebody waits half of the time, or more"),
        Threshold("bytes_max", 65536, "with more in each, the disk's speed counts again"),
        Threshold("commits_min_per_s", 20, "fewer are no storm"),
        Threshold("writes_per_commit_max", 2.0, "a flush of a file commits many WRITEs at once"),
    ),
    probed=("syscall",),
    hold_s=4.0,
)
