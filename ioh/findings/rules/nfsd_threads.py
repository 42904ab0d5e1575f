"""An NFS server all of whose threads are busy: calls wait for one."""

from __future__ import annotations

from ioh.findings.nfs import threads_of
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence

SPAN_S = 5.0


@Rule(
    title="nfsd threads all busy",
    layer="nfs_server",
    watches="Requests that find no idle thread; where the server does not count them, how many "
    "of its threads are busy at each sample.",
    sources="/proc/fs/nfsd/pool_stats, /proc/net/rpc/nfsd, the probe of nfsd.",
    blind="How long a call waited for its thread.",
    false_alarm="One connection that sends many calls at once finds few threads idle for a moment.",
    wrong_if="column packets-deferred stands still and threads are idle",
    check="cat /proc/fs/nfsd/pool_stats",
    thresholds=(
        Threshold("waiting_min_pct", 50.0, "of the requests: then most calls wait"),
        Threshold("requests_min_per_s", 10.0, "fewer only if the samples agree"),
        Threshold("busy_min_pct", 85.0, "of all threads; each is idle briefly between two calls"),
    ),
    needs=("nfs_server",),
)
def nfsd_threads(recent: Stretch, limits: Limits) -> Verdicts:
    """Whether most of the requests of the last seconds found no idle thread."""
    threads = threads_of(recent)
    if threads is None:
        return
    is_few = threads.requests / recent.seconds < limits["requests_min_per_s"]
    if threads.requests and is_few and threads.full_share <= 0.5:
        return
    if not threads.are_all_busy(limits["waiting_min_pct"], limits["busy_min_pct"]):
        return
    yield Verdict(
        confidence="high" if threads.waiting_share is not None else "medium",
        cause=f"All {threads.count} threads of nfsd are busy: within {recent.seconds:.0f} s "
        f"{threads.said}, and calls wait for one.",
        evidence=(
            Evidence(
                threads.said,
                "at_once_pct",
                None if threads.waiting_share is None else (1 - threads.waiting_share) * 100,
                100 - limits["waiting_min_pct"],
                "/proc/fs/nfsd/pool_stats; the probe of nfsd",
            ),
        ),
        advice="Give nfsd more threads, unless its disks are what they wait for.",
        command=f"echo {threads.count * 2} > /proc/fs/nfsd/threads",
    )
