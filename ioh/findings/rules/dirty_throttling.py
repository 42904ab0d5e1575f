"""Writers that the kernel holds up because too much is not yet written back."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, percent, rate, size
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence


@Rule(
    title="Writers are throttled",
    layer="syscall",
    watches="Dirty memory and memory under write-back, compared with the kernel's limits; pauses "
    "of buffered writes.",
    sources="/proc/vmstat: nr_dirty, nr_writeback, nr_dirty_threshold, "
    "nr_dirty_background_threshold; the probe's slowest write.",
    blind="Limits of a control group's memory or of one device (bdi) throttle earlier.",
    false_alarm="None known: both must hold, much to write back and paused writes.",
    wrong_if="Dirty and Writeback together stay far below the limit",
    check="grep -E '^(Dirty|Writeback):' /proc/meminfo; sysctl vm.dirty_bytes vm.dirty_ratio",
    thresholds=(
        Threshold("used_min_pct", 95.0, "throttling begins at the middle of the two limits"),
        Threshold("pause_min_ms", 5.0, "the kernel pauses a writer for 10 to 200 ms at a time"),
        Threshold("bytes_min_per_s", 1e6, "slower writers do not fill the cache"),
    ),
    probed=("syscall",),
    recent_s=3.0,
    may_be_short=True,
)
def dirty_throttling(recent: Stretch, limits: Limits) -> Verdicts:
    """Memory waiting for write-back beside where the kernel begins to slow writers down."""
    host = recent[-1].host
    known = (host.dirty_bytes, host.dirty_limit_bytes, host.dirty_background_bytes)
    dirty, most, background = known
    if dirty is None or not most or background is None:
        return
    # balance_dirty_pages() leaves writers alone up to the middle of the two limits.
    begins = (most + background) / 2
    waiting = dirty + (host.writeback_bytes or 0)
    if waiting < limits["used_min_pct"] / 100 * begins:
        return
    buffered = sum_op(recent, "syscall", "write_buffered")
    below = sum_op(recent, "block", "write")
    slowest = buffered.max_us or 0.0
    if buffered.bytes_per_s < limits["bytes_min_per_s"] or slowest < limits["pause_min_ms"] * 1e3:
        return
    yield Verdict(
        confidence="high",
        cause=f"{size(waiting)} wait for write-back, {percent(waiting / begins)} of where the "
        f"kernel slows writers down: writes take up to {duration(slowest)}, and the disks take "
        f"only {rate(buffered.bytes_per_s)}.",
        evidence=(
            Evidence(
                f"dirty and under write-back {size(waiting)}, throttling begins at {size(begins)}",
                "dirty_bytes",
                float(waiting),
                begins,
                "/proc/vmstat nr_dirty, nr_writeback and both thresholds",
            ),
            Evidence(
                f"slowest buffered write {duration(slowest)}, mean "
                f"{duration(buffered.latency_us or 0)}",
                "max_us",
                slowest,
                limits["pause_min_ms"] * 1e3,
            ),
            Evidence(f"the disks write {rate(below.bytes_per_s)}", "bytes_per_s"),
        ),
        advice="The cache is full of writes, so writers run at the disks' speed. Lower limits "
        "make stalls shorter; higher ones only delay them.",
        command="sysctl vm.dirty_background_bytes vm.dirty_bytes vm.dirty_background_ratio "
        "vm.dirty_ratio",
    )
