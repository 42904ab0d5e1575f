"""Read-ahead that fetches what nobody reads."""

from __future__ import annotations

from ioh.findings.devices import PAGE_BYTES, carrier
from ioh.findings.format_sentence import percent, rate, size, times
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.read_ahead import read_ahead
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Stretch, metric_of
from ioh.model.finding import Evidence


@Rule(
    title="Read-ahead fetches too much",
    layer="syscall",
    watches="Bytes that buffered reads fetched themselves, compared with the bytes that they "
    "returned.",
    sources="The probe's count of requests of each call; read_ahead_kb from sysfs.",
    blind="Page faults of mappings, which read ahead, too, and belong to no call. Read-ahead "
    "over NFS. The read-ahead window of btrfs, which belongs to no device.",
    false_alarm="A sequential reader is one window ahead, once; file systems that compress or "
    "use large records read more than was requested.",
    wrong_if="the disk reads (rkB/s) no more than the programs do",
    check="iostat -x 1 5",
    thresholds=(
        Threshold("ratio_min", 1.5, "over 8 s read-ahead of a sequential reader adds little"),
        Threshold("bytes_min_per_s", 5e6, "smaller loads are ignored"),
    ),
    needs=("block",),
    probed=("syscall",),
    span_s=15.0,
    recent_s=8.0,
)
def read_ahead_waste(recent: Stretch, limits: Limits) -> Verdicts:
    """Bytes that readers made the page cache fetch, beside the bytes that they read."""
    charged = sum_metric(recent, "syscall", "read_lower_bytes_per_s")
    if charged / recent.seconds < limits["bytes_min_per_s"]:
        return
    buffered = sum_op(recent, "syscall", "read_buffered")
    direct = sum_op(recent, "syscall", "read_direct")
    ops = sum_metric(recent, "syscall", "read_lower_ops_per_s")
    fetched = charged - direct.bytes
    calls, cached = (
        sum_metric(recent, "syscall", f"read_calls{name}_per_s") for name in ("", "_cached")
    )
    # Whole pages are fetched: of a read that is no multiple of them one more.
    is_rounded = buffered.avg_bytes % PAGE_BYTES > 1
    wanted = buffered.bytes + is_rounded * (calls - cached) * PAGE_BYTES
    # What an NFS file's readers fetched is charged to them as well, and cannot be told apart.
    if not ops or not wanted or off_disk_bytes(recent, "read") > wanted / 10:
        return
    if fetched / buffered.seconds < limits["bytes_min_per_s"]:
        return
    ratio = fetched / wanted
    if ratio < limits["ratio_min"]:
        return
    device = carrier(recent, "read", fetched, fetched / ops)
    ahead = read_ahead(recent, device)
    if ahead.bytes is not None and ahead.bytes <= PAGE_BYTES:
        return  # nothing is read ahead: something else reads more than was asked
    random_pct = 100 - (metric_of(recent[-1], "block", "sequential_pct") or 0.0)
    window_text = ""
    if ahead.bytes:
        window_text = f" (read_ahead_kb of {ahead.device}: {size(ahead.bytes)})"
    yield Verdict(
        subject=ahead.device,
        confidence="high" if ratio >= 2 * limits["ratio_min"] else "medium",
        cause=f"Reads of {size(buffered.avg_bytes)} fetch {times(ratio)} times what they need: "
        f"{rate(fetched / buffered.seconds)} from the disk for {rate(buffered.bytes_per_s)}"
        f"{window_text}.",
        evidence=(
            Evidence(
                f"{size(fetched)} fetched in the readers' own context for {size(buffered.bytes)}, "
                f"{size(wanted)} in whole pages",
                "read_lower_bytes_per_s",
                ratio,
                limits["ratio_min"],
                "probe: requests of each call",
            ),
            Evidence(
                f"{percent(random_pct / 100)} of the requests begin elsewhere than the last ended",
                "sequential_pct",
                100 - random_pct,
            ),
        ),
        advice="Make the window small for random reads, or have the program say so "
        "(posix_fadvise POSIX_FADV_RANDOM).",
        command=ahead.set_to(_less(wanted / ops, ahead.bytes)),
    )


def _less(used: float, now: float | None) -> int:
    """The window in KB that fetches about what was used of a request, and less than ``now``."""
    most = min(used, now / 2) if now else used
    return 1 << max(2, int(most / 1024).bit_length() - 1)
