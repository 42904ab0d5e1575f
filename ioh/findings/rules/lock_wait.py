"""Programs that wait for a lock on a file: flock, or fcntl."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.window import RecentIntervals, number
from ioh.model.finding import Evidence
from ioh.model.in_progress import IN_PROGRESS
from ioh.model.io_path import META

_OP = "lock"


@Rule(
    title="Waiting for a file lock",
    layer="syscall",
    ways=(META,),
    watches="Calls of flock and fcntl that wait until another program gives a lock back.",
    sources="The probe of calls.",
    blind="Locks within a process (mutexes), and database locks (see lock_bound).",
    false_alarm="Programs that use a lock as a queue: its workers wait because there is no work.",
    wrong_if="no lock has a blocker",
    check="lslocks --output-all",
    thresholds={
        "waiting_min": (0.5, "threads on average that wait for a lock"),
        "oldest_min_s": (2.0, "of a lock that is still waited for"),
    },
    probed=("syscall",),
    hold_s=2.0,
)
def lock_wait(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check waits that ended, and those in progress."""
    ended = sum_op(recent, "syscall", _OP)
    pending = [row for row in recent[-1].rows("syscall", IN_PROGRESS) if row.key[2] == _OP]
    oldest = max(pending, key=lambda row: number(row, "age_us"), default=None)
    oldest_us = number(oldest, "age_us") if oldest is not None else 0.0
    waiting = ended.depth + sum(number(row, "count") for row in pending)
    is_old = oldest_us >= limits["oldest_min_s"] * 1e6
    if not is_old and waiting < limits["waiting_min"]:
        return
    if oldest is not None and is_old:
        pid, comm, _, path, *_ = oldest.key
        on = f" on {path}" if path else ""
        cause = f"{comm}[{pid}] has waited {duration(oldest_us)} for a lock{on}."
    elif ended.count:
        row = recent[-1].busiest("syscall", "process", "lock_ns_per_s")
        who = f"{row.key[1]} and others" if row is not None else "Programs"
        cause = f"{who} wait {duration(ended.latency_us or 0)} for each lock on a file, "
        cause += f"{percent(min(1.0, waiting))} of the time."
    else:
        return
    text = f"{times(waiting)} threads wait for a lock on average"
    yield Verdict(
        severity="info",
        confidence="high",
        cause=cause,
        evidence=(Evidence(text, "", waiting, limits["waiting_min"], "probe of calls"),),
        advice="Look at what the lock's holder does (BLOCKER): storage is not what is waited for.",
        command="lslocks -o COMMAND,PID,TYPE,MODE,BLOCKER,PATH",
    )
