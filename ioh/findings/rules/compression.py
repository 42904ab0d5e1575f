"""Programs move more bytes than the disks: the data is compressed or deduplicated."""

from __future__ import annotations

from operator import itemgetter

from ioh.findings.format_sentence import rate, size, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import increases, sum_op, sum_rows
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence

_CAN = frozenset({"btrfs", "zfs", "f2fs", "bcachefs", "ubifs"})
_PURE = 0.9
_ADVICE = (
    "A test with such data measures the CPU: use data that cannot be compressed "
    "(fio --refill_buffers)."
)


@Rule(
    title="Compressed or deduplicated",
    layer="block",
    watches="Bytes that programs wrote and synced on file systems that can compress, compared "
    "with bytes that the disks wrote; compressed bytes that buffered btrfs reads fetched, "
    "compared with their uncompressed size.",
    sources="The probes of both layers, the type of each mount.",
    blind="Compression in an array or a disk; whether it is compression or deduplication; reads "
    "of other file systems than btrfs (before Linux 6.4, of btrfs too), and reads by io_uring, "
    "libaio, O_DIRECT or page faults.",
    false_alarm="Blocks that are overwritten before their first write-back.",
    wrong_if="none of these file systems is mounted with compression, and none is on a volume "
    "that compresses or deduplicates",
    check="findmnt -t btrfs,f2fs,bcachefs,zfs -o TARGET,OPTIONS",
    thresholds={
        "ratio_min": (1.5, "a smaller ratio may be delayed write-back"),
        "bytes_min_per_s": (5e6, "smaller loads are ignored"),
    },
    needs=("block",),
    probed=("syscall",),
    span_s=15.0,
    recent_s=6.0,
)
def compression(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check reads and writes separately."""
    yield from _reads(recent, limits)
    yield from _writes(recent, limits)


def _reads(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare compressed with uncompressed bytes, where the file system counts them."""
    packed, unpacked = increases(recent, "syscall", "read_packed_bytes", "read_unpacked_bytes")
    if not packed or unpacked / recent.seconds < limits["bytes_min_per_s"]:
        return
    ratio, least = unpacked / packed, limits["ratio_min"]
    if ratio < least:
        return
    text = f"{size(packed)} fetched, {size(unpacked)} unpacked"
    source = "probe: compressed bios of btrfs"
    yield Verdict(
        subject="read",
        ways=("read",),
        severity="info",
        confidence="high",
        cause=f"Programs read compressed files: {rate(packed / recent.seconds)} from the disks "
        f"becomes {rate(unpacked / recent.seconds)} ({times(ratio)} to 1).",
        evidence=(Evidence(text, "read_unpacked_bytes_per_s", ratio, least, source),),
        advice=_ADVICE,
    )


def _writes(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare programs' writes to such file systems with the disks' writes."""
    by_type = sum_rows(recent, "syscall", "mount", ("write_bytes_per_s",), itemgetter(-1))
    kinds = [name for name in by_type if name in _CAN and by_type[name]]
    wrote = sum(by_type[name] for name in kinds)
    if not kinds or wrote < _PURE * sum(by_type.values()):
        return
    below = sum_op(recent, "block", "write")
    hosts = recent[0].host, recent[-1].host
    then, now = ((h.dirty_bytes or 0) + (h.writeback_bytes or 0) for h in hosts)
    syncs = sum(sum_op(recent, "syscall", op).count for op in ("fsync", "write_sync"))
    reached = below.bytes + max(0, now - then)
    if wrote / below.seconds < limits["bytes_min_per_s"] or not syncs or not reached:
        return
    ratio, least = wrote / reached, limits["ratio_min"]
    if ratio < least:
        return
    text = f"{size(wrote)} written and synced, {size(reached)} reached the disks or is still dirty"
    source = "probes of both layers; /proc/vmstat nr_dirty"
    yield Verdict(
        severity="info",
        ways=("write",),
        cause=f"Programs write {rate(wrote / below.seconds)} to {', '.join(kinds)}, the disks only "
        f"{rate(below.bytes_per_s)} ({times(ratio)} to 1): the data is compressed or deduplicated.",
        evidence=(Evidence(text, "bytes_per_s", ratio, least, source),),
        advice=_ADVICE,
    )
