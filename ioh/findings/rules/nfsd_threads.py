"""An NFS server all of whose threads are busy: calls wait for one."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.window import Window, duration_s, metric_of
from ioh.findings.words import percent
from ioh.model.finding import Evidence

SPAN_S = 5.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Whether nearly every look found them all busy."""
    recent = window.recent(SPAN_S)
    if not window.covers(SPAN_S):
        return
    looks = [
        (metric_of(s, "nfs_server", "busy_threads"), metric_of(s, "nfs_server", "threads"))
        for s in recent
    ]
    known = [(busy, threads) for busy, threads in looks if busy is not None and threads]
    full = sum(1 for busy, threads in known if busy >= threads)
    if not known or full / len(known) * 100 < limits["full_min_pct"]:
        return
    threads = int(known[-1][1])
    yield Verdict(
        severity="warning",
        confidence="high" if len(known) >= 5 else "medium",
        cause=f"All {threads} threads of nfsd were busy in {full} of {len(known)} looks within "
        f"{duration_s(recent):.0f} s: calls wait for a thread.",
        evidence=(
            Evidence(
                f"{percent(full / len(known))} of the looks found every thread busy",
                "busy_threads",
                float(known[-1][0]),
                float(threads),
                "probe of nfsd; /proc/net/rpc/nfsd th",
            ),
        ),
        advice="Give nfsd more threads, unless its disks are what they wait for.",
        command=f"echo {threads * 2} > /proc/fs/nfsd/threads",
    )


RULE = Rule(
    name="nfsd_threads",
    title="nfsd threads all busy",
    layer="nfs_server",
    judge=judge,
    watches="Threads serving a call at each look, beside how many there are.",
    sources="The probe of nfsd, /proc/net/rpc/nfsd.",
    blind="How long a call waited for its thread.",
    false_alarm="With one or two threads a look finds them busy soon.",
    thresholds=(Threshold("full_min_pct", 80.0, "a burst fills them for a moment only"),),
    probed=("nfs_server",),
    hold_s=3.0,
)
