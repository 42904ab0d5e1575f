"""READs that the NFS server answers from its memory."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, percent
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence


@Rule(
    title="Cached by the NFS server",
    layer="nfs_server",
    watches="The share of READs whose nfsd thread submitted nothing to a block device.",
    sources="The probe of nfsd.",
    blind="A server on another machine. Caches of its disks or of an array: a disk that claims "
    "to rotate and answers in 0.1 ms may as well be a virtual one.",
    false_alarm="A READ that an earlier one's read-ahead was fetching looks cached.",
    wrong_if="the server's disks read (rkB/s) as much as its clients do",
    check="iostat -x 1 5",
    thresholds=(
        Threshold("cached_min_pct", 80.0, "below, the disks still set the mean"),
        Threshold("reads_min_per_s", 100, "a rotating disk could serve fewer"),
    ),
    probed=("nfs_server",),
    may_be_short=True,
)
def server_cache(recent: Stretch, limits: Limits) -> Verdicts:
    """The server on this machine, counted READ by READ."""
    cached = sum_op(recent, "nfs_server", "read_cached")
    disk = sum_op(recent, "nfs_server", "read_disk")
    total = cached.count + disk.count
    if not total or (cached.ops_per_s + disk.ops_per_s) < limits["reads_min_per_s"]:
        return
    share = cached.count / total
    if share * 100 < limits["cached_min_pct"]:
        return
    slow = f", {duration(disk.latency_us)} from disk" if disk.latency_us else ""
    yield Verdict(
        severity="info",
        confidence="high",
        cause=f"{percent(share)} of {per_s(total / cached.seconds)} READs a second are answered "
        f"from this server's memory: {duration(cached.latency_us or 0)} each{slow}.",
        evidence=(
            Evidence(
                f"{percent(share)} of the READs submitted nothing to a block device",
                "",
                share * 100,
                limits["cached_min_pct"],
                "probe of nfsd",
            ),
        ),
        advice="Clients that test this server test its memory: use more data than it has, or drop "
        "its cache before each run.",
        command="echo 3 > /proc/sys/vm/drop_caches",
    )
