"""Reads of holes and unwritten blocks: answered with zeroes, without any I/O."""

from __future__ import annotations

from ioh.findings.devices import devices
from ioh.findings.format_sentence import duration, percent, rate, size
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Stretch, busiest_file
from ioh.model.finding import Evidence


@Rule(
    title="Reads of holes",
    layer="syscall",
    watches="Bytes of direct reads compared with bytes requested from devices; for buffered reads, "
    "the pages in memory compared with the blocks of the file.",
    sources="The probes of both layers; of the buffered reads, one per millisecond and CPU.",
    blind="Thin volumes and arrays answer reads of unwritten blocks themselves. Buffered reads of "
    "blocks that were allocated and never written, of other file systems than ext4, btrfs and XFS "
    "(XFS since Linux 5.13), and by io_uring or libaio.",
    false_alarm="A file whose holes were read before and that is now read elsewhere. Files in "
    "memory (tmpfs) and on network file systems are left out by their file system's type.",
    wrong_if="the disks read (rkB/s) as much as the program does once this machine's caches are "
    "dropped",
    check="sync; echo 3 > /proc/sys/vm/drop_caches; iostat -x 1 5",
    thresholds=(
        Threshold("direct_min_pct", 20.0, "the last block of a file, beyond its end, is less"),
        Threshold("buffered_min_pct", 50.0, "most of what is read"),
        Threshold("bytes_min_per_s", 20e6, "smaller loads are ignored"),
    ),
    needs=("block",),
    probed=("syscall",),
)
def holes(recent: Stretch, limits: Limits) -> Verdicts:
    """Direct reads that reach no device; buffered ones of what is in no block of its file."""
    yield from _direct(recent, limits)
    yield from _buffered(recent, limits)


def _direct(recent: Stretch, limits: Limits) -> Verdicts:
    direct = sum_op(recent, "syscall", "read_direct")
    if direct.bytes_per_s < limits["bytes_min_per_s"]:
        return
    asked = direct.bytes - off_disk_bytes(recent, "read")
    submitted = sum_metric(recent, "syscall", "read_lower_bytes_per_s")
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
        command=_show_files(recent),
    )


def _buffered(recent: Stretch, limits: Limits) -> Verdicts:
    read = sum_op(recent, "syscall", "read_buffered")
    looked, holes = (
        sum_metric(recent, "syscall", f"read_{name}_bytes_per_s") for name in ("looked", "hole")
    )
    if read.bytes_per_s < limits["bytes_min_per_s"] or not looked:
        return
    share = holes / looked
    if share * 100 < limits["buffered_min_pct"]:
        return
    yield Verdict(
        subject="buffered",
        confidence="high",
        cause=f"About {percent(share)} of what is read through the page cache "
        f"({rate(read.bytes_per_s)}) is in no block of its file: holes.",
        evidence=(
            Evidence(
                f"of {size(looked)} looked at, {size(holes)} made no request, and memory holds "
                "more than twice as much of their files as these have blocks",
                "read_hole_bytes_per_s",
                share * 100,
                limits["buffered_min_pct"],
                "probe of calls: pages in memory beside i_blocks",
            ),
        ),
        advice="Write the whole file before you measure reads of it.",
        command=_show_files(recent),
    )


def _show_files(recent: Stretch) -> str:
    """The command that shows the blocks of the file that is read most; "" without its path."""
    name = busiest_file(recent)
    return f"du --apparent-size -k {name}; du -k {name}; filefrag {name}" if name else ""
