"""Synchronous writes, fsyncs and COMMITs that limit the speed."""

from __future__ import annotations

from operator import itemgetter

from ioh.findings.format_sentence import duration, per_s, percent, program, size, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.storage_time import above_storage, storage_us, what_is_above
from ioh.findings.sums import sum_op, sum_rows
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence


@Rule(
    title="Synchronous writes",
    layer="syscall",
    watches="fsyncs and O_SYNC writes that programs wait for, and how much data each makes "
    "durable; how long other programs' reads take during thousands of fsyncs; COMMITs compared "
    "with WRITEs.",
    sources="The probes of calls, of the block layer and of the NFS client.",
    blind="Which transaction an fsync belongs to.",
    false_alarm="A database log must be written this way. Still, slow fsyncs of few bytes are its "
    "limit.",
    wrong_if="there are few flushes and small writes (f/s, wareq-sz), or a thread other than the "
    "named one waits",
    check="iostat -x 1 5",
    thresholds={
        "syncs_min_per_s": (20, "smaller loads are ignored"),
        "latency_min_ms": (2.0, "a sync to a protected cache takes less"),
        "slow_min_ms": (
            20.0,
            (
                "then a warning: two rotations of a 7,200 rpm disk, for data and journal, take "
                "less; shorter waits are normal for a database"
            ),
        ),
        "waiting_min": (0.5, "a thread waits half of the time, or more"),
        "bytes_max": (65536, "with more bytes each, the disk's throughput matters again"),
        "storm_min_per_s": (1000, "fast disks serve hundreds without harm to other programs"),
        "storm_share_min": (0.8, "of the disks' requests are writes and flushes"),
        "storm_tail_min": (10.0, "times the median: some reads are delayed"),
        "storm_own_max": (0.2, "of the reads are its own; most are other programs'"),
        "commits_min_per_s": (20, "smaller loads are ignored"),
        "writes_per_commit_max": (2.0, "flushing a file commits many WRITEs at once"),
    },
    probed=("syscall",),
    hold_s=4.0,
)
def sync_writes(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check calls that wait for the disk, reads during fsyncs, and COMMITs of NFS."""
    yield from _calls(recent, limits)
    yield from _storm(recent, limits)
    yield from _commits(recent, limits)


def _calls(recent: RecentIntervals, limits: Limits) -> Verdicts:
    synced, sync = (sum_op(recent, "syscall", op) for op in ("write_sync", "fsync"))
    writes = sum_op(recent, "syscall", "write")
    count = synced.count + sync.count
    a_second = count / sync.seconds
    if a_second < limits["syncs_min_per_s"] or not (count and writes.count):
        return
    # Bytes that each wait makes durable; a database's group commit has many.
    each_bytes = writes.bytes / count
    waited_s = synced.count * (synced.latency_us or 0) + sync.count * (sync.latency_us or 0)
    waited_s /= 1e6
    mean_us, waiting = waited_s * 1e6 / count, waited_s / sync.seconds
    if each_bytes > limits["bytes_max"] or waiting < limits["waiting_min"]:
        return
    if mean_us < limits["latency_min_ms"] * 1e3:
        return
    what, time = "O_SYNC writes", "write_ns_per_s"
    if sync.count > synced.count:
        what, time = "fsyncs", "sync_ns_per_s"
    threads = f"{times(waiting)} threads wait on average"
    below_us = storage_us(recent, lambda total: total.latency_us)
    is_above = below_us is not None and below_us < mean_us / 2
    share = f"; the storage takes only {duration(below_us or 0)} of it" if is_above else ""
    advice = "Write more data per fsync (group commits)"
    advice += (
        "." if below_us is None else ", or give the log a device with a protected write cache."
    )
    command = "ioh text -d topfile"
    if is_above:
        advice, command = what_is_above(recent)
    yield Verdict(
        subject="calls",
        ways=tuple(way for way, x in (("write", synced), ("sync", sync)) if x.count),
        severity="warning" if mean_us >= limits["slow_min_ms"] * 1e3 else "info",
        confidence="high",
        cause=f"{_busiest(recent, time)} waits {percent(min(1.0, waiting))} of the time for "
        f"{per_s(a_second)} {what} a second of {duration(mean_us)} each, and each makes only "
        f"{size(each_bytes)} durable{share}.",
        evidence=(
            Evidence(threads, "avg_inflight", waiting, limits["waiting_min"], "probe of calls"),
            Evidence(f"{size(each_bytes)} written for each", "", each_bytes, limits["bytes_max"]),
            *(above_storage(recent, count) if is_above else ()),
        ),
        advice=advice,
        command=command,
    )


def _storm(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check whether many short fsyncs delay other programs' reads of the same disks."""
    sync = sum_op(recent, "syscall", "fsync")
    calls = sum_op(recent, "syscall", "write")
    if not sync.count or sync.ops_per_s < limits["storm_min_per_s"]:
        return
    if (
        calls.bytes / sync.count > limits["bytes_max"]
        or (sync.latency_us or 0.0) >= limits["latency_min_ms"] * 1e3  # _calls() reports these
    ):
        return
    reads, writes, flushes = (sum_op(recent, "block", op) for op in ("read", "write", "flush"))
    own = writes.count + flushes.count
    share = own / max(1, reads.count + own)
    who = _busiest(recent, "sync_ns_per_s")
    p50_us, p99_us = reads.p50_p99_us
    if p50_us is None or p99_us is None or share < limits["storm_share_min"]:
        return
    slow_us = max(limits["latency_min_ms"] * 1e3, limits["storm_tail_min"] * p50_us)
    if p99_us < slow_us or _reads_of(who, recent) > limits["storm_own_max"] * reads.count:
        return
    text = f"{per_s(reads.ops_per_s)} reads a second: "
    text += f"p50 {duration(p50_us)}, p99 {duration(p99_us)}"
    yield Verdict(
        subject="reads beside fsyncs",
        ways=("read", "sync"),
        severity="info",
        cause=f"{who} makes {per_s(sync.ops_per_s)} fsyncs a second: {per_s(writes.ops_per_s)} "
        f"writes and {per_s(flushes.ops_per_s)} flushes, {percent(share)} of the disks' requests. "
        f"Other programs' reads wait behind them: 1 in 100 takes more than {duration(p99_us)}.",
        evidence=(
            Evidence(text, "p99_us", p99_us, slow_us, "probe of the block layer"),
            Evidence(f"{times(own / sync.count)} requests per fsync", "ops_per_s"),
        ),
        advice="Give the log a separate disk, or write more data per fsync (group commits).",
        command="ioh text -d top,histsz",
    )


def _reads_of(who: str, recent: RecentIntervals) -> float:
    """Disk reads submitted by processes of that name."""
    by_name = sum_rows(recent, "block", "process", ("reads_per_s",), itemgetter(1))
    return sum(by_name[name] for name in by_name if who.startswith((f"{name}[", f"{name} ")))


def _busiest(recent: RecentIntervals, time: str) -> str:
    """The program that spends most of the time in column ``time``, as text."""
    by_process = sum_rows(recent, "syscall", "process", (time,), tuple)
    by_name = sum_rows(recent, "syscall", "process", (time,), itemgetter(1))
    half, several = sum(by_process.values()) / 2, "More than one program"
    for key, ns in by_process.items():
        if ns >= half:
            return program(key, several)
    name = next((name for name, ns in by_name.items() if name and ns >= half), "")
    return f"{name} (more than one process)" if name else several


def _commits(recent: RecentIntervals, limits: Limits) -> Verdicts:
    commit, write = (sum_op(recent, "nfs_client", op) for op in ("commit", "write"))
    if commit.ops_per_s < limits["commits_min_per_s"] or not (write.count and commit.count):
        return
    each, most = write.count / commit.count, limits["writes_per_commit_max"]
    if each > most:
        return
    text = f"{per_s(write.ops_per_s)} WRITEs, {per_s(commit.ops_per_s)} COMMITs a second"
    yield Verdict(
        subject="COMMIT",
        ways=ways_of("commit"),
        layer="nfs_client",
        confidence="high",
        cause=f"There are {per_s(commit.ops_per_s)} COMMITs a second, one per {times(each)} WRITEs "
        f"of {size(write.avg_bytes)}. Each takes {duration(commit.latency_us or 0)}, because the "
        "server must write to disk.",
        evidence=(Evidence(text, "", each, most, "probe of the NFS client"),),
        advice="Use fewer fsyncs and closes, or larger files, or give the server's export a "
        "protected write cache.",
        command="ioh text -d topfile",
    )
