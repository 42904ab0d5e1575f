"""Reads of holes and unwritten blocks: answered with zeroes, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.devices import devices
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Stretch, Window
from ioh.findings.words import duration, percent, rate, size
from ioh.model.finding import Evidence

SPAN_S = 5.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Direct reads that reach no device; buffered ones that fill the page cache from nowhere."""
    if window.covers(SPAN_S):
        yield from _direct(window, limits)
        yield from _buffered(window, limits)


def _direct(window: Window, limits: Limits) -> Iterator[Verdict]:
    recent = window.recent(SPAN_S)
    direct = sum_op(recent, "syscall", "read_direct")
    if direct.bytes_per_s < limits["bytes_min_per_s"]:
        return
    asked = direct.bytes - off_disk_bytes(recent, "read")
    submitted = sum_metric(recent, "syscall", "read_lower_bytes_per_s") or 0.0
    below = sum_op(recent, "block", "read")
    # The sum of all disks leaves these out; what they answer from memory is on no other one.
    stacked = sum(device.sum.bytes for device in devices(recent, "read") if device.is_stacked)
    reached = max(submitted, float(below.bytes), float(stacked))
    if asked / direct.seconds < limits["bytes_min_per_s"]:
        return
    share = 1 - reached / asked
    if share * 100 < limits["direct_min_pct"]:
        return
    yield Verdict(
        subject="direct",
        severity="warning",
        confidence="high",
        cause=f"At least {percent(share)} of what is read with O_DIRECT ({rate(direct.bytes_per_s)}"
        f", {duration(direct.latency_us or 0)} each) reaches no device: holes, or blocks that "
        "were allocated and never written.",
        evidence=(
            Evidence(
                f"{size(asked)} read, {size(reached)} asked of devices",
                "read_lower_bytes_per_s",
                share * 100,
                limits["direct_min_pct"],
                "probes of both layers",
            ),
        ),
        advice="Write the whole file before you measure reads of it.",
        command="filefrag -v FILE | head; du --apparent-size FILE; du FILE",
    )


def _buffered(window: Window, limits: Limits) -> Iterator[Verdict]:
    recent = window.recent(SPAN_S)
    read = sum_op(recent, "syscall", "read_buffered")
    if read.bytes_per_s < limits["bytes_min_per_s"]:
        return
    asked = read.bytes - off_disk_bytes(recent, "read")
    fetched = sum_metric(recent, "syscall", "read_lower_bytes_per_s") or 0.0
    written = sum_op(recent, "syscall", "write").bytes
    then, now = recent[0].host.cached_bytes, recent[-1].host.cached_bytes
    if then is None or now is None or asked / read.seconds < limits["bytes_min_per_s"]:
        return
    # Pages that came into the cache and were neither read from anywhere nor written.
    came = max(fetched, _read_by_anybody(recent))
    appeared = now - then - came - written - _in_images(recent)
    seen_s = read.seconds - recent[0].interval_s
    expected = asked * seen_s / read.seconds
    if fetched > asked / 10 or appeared < limits["buffered_min_pct"] / 100 * expected:
        return
    yield Verdict(
        subject="buffered",
        severity="warning",
        confidence="medium",
        cause=f"Reads of {rate(read.bytes_per_s)} fill the page cache with {size(appeared)} that "
        "no device was asked for: holes, or blocks that were allocated and never written.",
        evidence=(
            Evidence(
                f"the page cache grew by {size(now - then)}, {size(came)} were fetched and "
                f"{size(written)} written",
                "cached_bytes",
                appeared,
                expected,
                "/proc/meminfo Cached; probe of calls",
            ),
        ),
        advice="Write the whole file before you measure reads of it.",
        command="filefrag -v FILE | head; du --apparent-size FILE; du FILE",
    )


def _read_by_anybody(recent: Stretch) -> float:
    """What disks and servers gave, to page faults of mappings, too, which no call tells of."""
    return float(sum(sum_op(recent, layer, "read").bytes for layer in ("block", "nfs_client")))


def _in_images(recent: Stretch) -> int:
    """What went through loop devices, whose files are in the page cache beside what lies on them.

    Unless they read and write past it, which nothing here tells.
    """
    found = (device for op in ("read", "write") for device in devices(recent, op))
    return sum(device.sum.bytes for device in found if device.is_stacked)


RULE = Rule(
    name="holes",
    title="Reads of nothing",
    layer="syscall",
    judge=judge,
    watches="Direct reads' bytes beside what any device was asked for; growth of the page cache "
    "beside what was fetched and written.",
    sources="The probes of both layers, /proc/meminfo.",
    blind="Which file. Thin volumes and arrays answer reads of unwritten blocks themselves.",
    false_alarm="Files in memory (tmpfs) and on network file systems are left out by their file "
    "system's type.",
    thresholds=(
        Threshold("direct_min_pct", 20.0, "a last block beyond the end of file is less"),
        Threshold("buffered_min_pct", 50.0, "other programs make the cache grow as well"),
        Threshold("bytes_min_per_s", 20e6, "less is no benchmark"),
    ),
    needs=("block",),
    probed=("syscall",),
)
