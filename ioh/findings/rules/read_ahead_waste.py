"""Read-ahead that fetches what nobody reads."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.devices import carrier
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.read_ahead import read_ahead
from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Window, duration_s, metric_of
from ioh.findings.words import percent, rate, size, times
from ioh.model.finding import Evidence

SPAN_S = 8.0  # found within 10 s of its begin, wherever in an interval that lies


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Bytes that readers made the page cache fetch, beside the bytes that they read."""
    recent = window.recent(SPAN_S)
    if not window.covers(SPAN_S):
        return
    charged = sum_metric(recent, "syscall", "read_lower_bytes_per_s") or 0.0
    if charged / duration_s(recent) < limits["bytes_min_per_s"]:
        return
    buffered = sum_op(recent, "syscall", "read_buffered")
    direct = sum_op(recent, "syscall", "read_direct")
    ops = sum_metric(recent, "syscall", "read_lower_ops_per_s") or 0.0
    fetched = charged - direct.bytes
    wanted = buffered.bytes
    # What an NFS file's readers fetched is charged to them as well, and cannot be told apart.
    if not ops or not wanted or off_disk_bytes(recent, "read") > wanted / 10:
        return
    if fetched / buffered.seconds < limits["bytes_min_per_s"]:
        return
    ratio = fetched / wanted
    if ratio < limits["ratio_min"]:
        return
    size_below = fetched / ops
    device = carrier(recent, "read", fetched, size_below)
    ahead = read_ahead(recent, device)
    random_pct = 100 - (metric_of(window.newest, "block", "sequential_pct") or 0.0)
    window_text = ""
    if ahead.bytes:
        window_text = f" (read_ahead_kb of {ahead.device}: {size(ahead.bytes)})"
    yield Verdict(
        subject=ahead.device,
        severity="warning",
        confidence="high" if ratio >= 2 * limits["ratio_min"] else "medium",
        cause=f"Reads of {size(buffered.avg_bytes)} fetch {times(ratio)} times what they want: "
        f"{rate(fetched / buffered.seconds)} from the disk for {rate(wanted / buffered.seconds)}"
        f"{window_text}.",
        evidence=(
            Evidence(
                f"{size(fetched)} fetched in the readers' own context, {size(wanted)} read",
                "read_lower_bytes_per_s",
                ratio,
                limits["ratio_min"],
                "probe: requests charged to the call",
            ),
            Evidence(
                f"{percent(random_pct / 100)} of the requests begin elsewhere than the last ended",
                "sequential_pct",
                100 - random_pct,
            ),
        ),
        advice="Make the window small for random reads, or have the program say so "
        "(posix_fadvise POSIX_FADV_RANDOM).",
        command=ahead.set_to(16),
    )


RULE = Rule(
    name="read_ahead_waste",
    title="Read-ahead fetches too much",
    layer="syscall",
    judge=judge,
    watches="Bytes that buffered reads submitted themselves, beside the bytes that they returned.",
    sources="The probe's charge of requests to calls; read_ahead_kb from sysfs.",
    blind="Faults of mappings fetch ahead, too, and belong to no call. Read-ahead over NFS. "
    "How large the window of btrfs is, which is no device's.",
    false_alarm="A sequential reader is ahead by one window, once; file systems that compress or "
    "use large records read more than was asked.",
    thresholds=(
        Threshold("ratio_min", 1.5, "over 8 s read-ahead of a sequential reader adds little"),
        Threshold("bytes_min_per_s", 5e6, "less hurts no disk"),
    ),
    needs=("block",),
    probed=("syscall",),
    hold_s=3.0,
    span_s=15.0,
)
