"""NFS mounts that ask the server again and again whether files have changed."""

from __future__ import annotations

import shlex

from ioh.findings.format_sentence import duration, per_s, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import sum_op, sum_rows
from ioh.findings.window import RecentIntervals, number
from ioh.model.finding import Evidence
from ioh.model.io_path import META

_ASKS = ("getattr", "access", "lookup")
_ALL = ("read", "write", "commit", META)


@Rule(
    title="Attributes asked for again",
    layer="nfs_client",
    ways=(META,),
    watches="GETATTR, ACCESS and LOOKUP, as a share of the NFS client's calls and of its time, on "
    "mounts that keep attributes for a short time or not at all.",
    sources="The probe of the NFS client; mount options from /proc/self/mountstats.",
    blind="Mounts with the default cache times, where each open still asks once (see open_close).",
    false_alarm="Several clients change the same files and must notice it at once: then noac or "
    "actimeo=0 is meant.",
    wrong_if="the mount options have neither noac nor a short actimeo",
    check="nfsstat -m",
    thresholds={
        "asked_min_per_s": (100, "fewer are not worth a change"),
        "share_min": (0.5, "of all calls of the NFS client"),
        "waiting_min": (0.3, "calls in flight on average"),
        "slow_min": (0.5, "of them in flight on average; then a warning"),
        "kept_max_s": (2.0, "attributes are kept for 3 to 60 s by default"),
    },
    needs=("nfs_client",),
    hold_s=4.0,
)
def nfs_revalidation(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check the mount with most metadata calls of those that hardly keep attributes."""
    asked = [sum_op(recent, "nfs_client", op) for op in _ASKS]
    count = sum(total.count for total in asked)
    waiting = sum(total.depth for total in asked)
    every = max(count, sum(sum_op(recent, "nfs_client", op).count for op in _ALL))
    a_second = count / recent.seconds
    if a_second < limits["asked_min_per_s"] or count < limits["share_min"] * every:
        return
    if waiting < limits["waiting_min"]:
        return
    counts = sum_rows(recent, "nfs_client", "mount", ("metas_per_s",), lambda key: key)
    rows = [row for row in recent[-1].rows("nfs_client", "mount") if counts.get(row.key)]
    row = max(rows, key=lambda row: counts[row.key], default=None)
    kept_s = row.values.get("attr_cache_s") if row is not None else None
    if row is None or kept_s is None or kept_s > limits["kept_max_s"]:
        return
    point = row.key[0]
    mean_us = waiting * 1e6 / a_second
    kept = f"keeps attributes for {times(kept_s)} s" if kept_s else "keeps no attributes"
    share = percent(count / every)
    yield Verdict(
        subject=point,
        severity="warning" if waiting >= limits["slow_min"] else "info",
        confidence="high",
        cause=f"{point} {kept}, so the client asks the server {per_s(a_second)} times a second "
        f"(GETATTR, ACCESS, LOOKUP) for {duration(mean_us)} each: {share} of its calls.",
        evidence=(
            Evidence(f"{times(waiting)} such calls in flight", "", waiting, limits["waiting_min"]),
            Evidence(
                f"{point} {kept}",
                "attr_cache_s",
                number(row, "attr_cache_s"),
                limits["kept_max_s"],
                "/proc/self/mountstats, opts:",
            ),
        ),
        advice="Remove noac and actimeo in fstab, or wherever the mount is configured, then umount "
        "and mount again: a remount does not change it. Not if other clients change these files "
        "and this one must notice it at once.",
        # Not a mount command: a recording has only a few of the mount's options.
        command=f"findmnt -o SOURCE,OPTIONS {shlex.quote(point)}   # keep these, without noac",
    )
