"""More bytes written than the disks get: the file system compresses, or drops copies."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_op
from ioh.findings.window import Window, rows_of, seconds_of
from ioh.findings.words import rate, size, times
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

SPAN_S = 6.0
_CAN = frozenset({"btrfs", "zfs", "f2fs", "bcachefs", "ubifs"})
_PURE = 0.9


def _is_written(snapshot: Snapshot) -> bool:
    """Whether programs wrote to any such file system."""
    return any(
        row.key[-1] in _CAN and row.values.get("write_bytes_per_s")
        for row in rows_of(snapshot, "syscall", "mount")
    )


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """What programs wrote to such file systems beside what reached the disks."""
    recent = window.recent(SPAN_S)
    if not window.covers(SPAN_S):
        return
    if not any(recent.each(_is_written)):
        return
    by_type: dict[str, float] = {}
    for snapshot in recent:
        seconds = seconds_of(snapshot, "syscall")
        for row in rows_of(snapshot, "syscall", "mount"):
            moved = (row.values.get("write_bytes_per_s") or 0.0) * seconds
            by_type[row.key[-1]] = by_type.get(row.key[-1], 0.0) + moved
    kinds = [name for name in by_type if name in _CAN and by_type[name]]
    wrote = sum(by_type[name] for name in kinds)
    if not kinds or wrote < _PURE * sum(by_type.values()):
        return
    below = sum_op(recent, "block", "write")
    hosts = recent[0].host, recent[-1].host
    then, now = ((h.dirty_bytes or 0) + (h.writeback_bytes or 0) for h in hosts)
    syncs = sum_op(recent, "syscall", "fsync").count + sum_op(recent, "syscall", "write_sync").count
    reached = below.bytes + max(0, now - then)
    if wrote / below.seconds < limits["bytes_min_per_s"] or not syncs or not reached:
        return
    ratio = wrote / reached
    if ratio < limits["ratio_min"]:
        return
    yield Verdict(
        severity="info",
        confidence="medium",
        cause=f"Programs write {rate(wrote / below.seconds)} to {', '.join(kinds)}, the disks only "
        f"{rate(below.bytes_per_s)} ({times(ratio)} to 1): compressed, or the same data again.",
        evidence=(
            Evidence(
                f"{size(wrote)} written and synced, {size(reached)} reached the disks or wait",
                "bytes_per_s",
                ratio,
                limits["ratio_min"],
                "probes of both layers; /proc/vmstat nr_dirty",
            ),
        ),
        advice="A test with such data measures the CPU: use data that does not compress.",
        command="fio --refill_buffers --buffer_compress_percentage=0 ...",
    )


RULE = Rule(
    name="compression",
    title="Compressed or deduplicated",
    layer="block",
    judge=judge,
    watches="Bytes that programs wrote and synced on file systems that can compress, beside bytes "
    "that the disks wrote.",
    sources="The probes of both layers, the type of each mount.",
    blind="Compression in an array or a disk; whether it is compression or deduplication; reads.",
    false_alarm="The same blocks written again before they are written back once.",
    thresholds=(
        Threshold("ratio_min", 1.5, "less is within what write-back puts off"),
        Threshold("bytes_min_per_s", 5e6, "less is no benchmark"),
    ),
    needs=("block",),
    probed=("syscall",),
    span_s=15.0,
)
