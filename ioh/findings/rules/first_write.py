"""Writes to blocks that were never written: each costs more than the ones that come later."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.devices import carrier
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.window import Window, sum_op
from ioh.findings.words import duration, rate, size, times
from ioh.model.finding import Evidence

SPAN_S = 5.0
_PURE = 0.9


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Zeroes written before the data, and direct writes that cost more bytes than they have."""
    recent = window.recent(SPAN_S)
    if not window.covers(SPAN_S):
        return
    zeroes = sum_op(recent, "block", "write_zeroes")
    if zeroes.bytes_per_s >= limits["zeroes_min_per_s"]:
        yield Verdict(
            subject="zeroes",
            severity="warning",
            confidence="medium",
            cause=f"{rate(zeroes.bytes_per_s)} of zeroes are written first: blocks are being "
            "prepared that were never written.",
            evidence=(
                Evidence(
                    f"{zeroes.count:,} write-zeroes requests",
                    "bytes_per_s",
                    zeroes.bytes_per_s,
                    limits["zeroes_min_per_s"],
                    "probe of the block layer",
                ),
            ),
            advice=_ADVICE,
            command=_COMMAND,
        )
    direct, every = sum_op(recent, "syscall", "write_direct"), sum_op(recent, "syscall", "write")
    syncs = sum_op(recent, "syscall", "fsync").count
    if direct.bytes_per_s < limits["bytes_min_per_s"] or direct.bytes < _PURE * every.bytes:
        return
    if syncs > direct.count / 20 or off_disk_bytes(recent, "write") > direct.bytes / 10:
        return
    device = carrier(recent, "write", direct.bytes, direct.avg_bytes)
    if device is None or device.sum.bytes < limits["ratio_min"] * direct.bytes:
        return
    if device.sum.count < direct.count:
        return
    ratio = device.sum.bytes / direct.bytes
    yield Verdict(
        subject=device.name,
        severity="warning",
        confidence="medium",
        cause=f"Direct writes of {size(direct.avg_bytes)} cost {device.name} {times(ratio)} times "
        f"their bytes ({rate(device.sum.bytes_per_s)} for {rate(direct.bytes_per_s)}), "
        f"{duration(direct.latency_us or 0)} each: blocks are allocated as they are first written.",
        evidence=(
            Evidence(
                f"{rate(direct.bytes_per_s)} written by programs, {rate(device.sum.bytes_per_s)} "
                f"by {device.name}, without fsync or O_SYNC",
                "bytes_per_s",
                ratio,
                limits["ratio_min"],
                "probes of both layers",
            ),
        ),
        advice=_ADVICE,
        command=_COMMAND,
    )


_ADVICE = (
    "Write all of the file or device once before a test (fallocate is not enough: it leaves blocks "
    "unwritten); a second run shows the difference."
)
_COMMAND = "fio --rw=write --bs=1M --direct=1 ...   (once, before the test)"

RULE = Rule(
    name="first_write",
    title="First write",
    layer="block",
    judge=judge,
    watches="Write-zeroes requests, and how many bytes direct writes cost the device: writing over "
    "what is there costs one for one, allocating costs the file system's journal, too.",
    sources="The probes of both layers over 5 s.",
    blind="Thin provisioning below the device: only a second pass tells.",
    false_alarm="Other writers on the same file system; copy on write (btrfs, zfs) allocates each "
    "time.",
    thresholds=(
        Threshold("ratio_min", 1.3, "writing over what is there costs 1.0"),
        Threshold("bytes_min_per_s", 1e6, "else a journal's own writes decide"),
        Threshold("zeroes_min_per_s", 20e6, "file systems zero a little all the time"),
    ),
    needs=("block",),
    probed=("syscall", "block"),
)
