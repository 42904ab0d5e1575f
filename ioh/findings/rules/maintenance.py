"""Maintenance of the storage: resync, check, balance, scrub, trim."""

from __future__ import annotations

import re
import shlex
from operator import itemgetter

from ioh.findings.format_sentence import percent, rate
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import sum_op, sum_rows
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence

# Names (at most 15 bytes) of programs and kernel threads whose I/O is maintenance.
_UPKEEP = re.compile(
    r"md\d+_(resync|reshape|recovery)|fstrim|btrfs|btrfs-scrub.*|e2scrub.*|xfs_scrub.*|xfs_fsr|"
    r"fsck.*|e2fsck|xfs_repair|badblocks|e4defrag|duperemove|mdadm|lvconvert|pvmove|zpool|updatedb.*"
)
_SOURCE = "/proc/mdstat, /sys/fs/btrfs/*/exclusive_operation, /proc/net/unix"
# btrfs addresses a scrub by a device of the file system, a balance by its mount point.
_BTRFS = {
    "scrub": "btrfs scrub status {0}; btrfs scrub cancel {0}   # continue later: scrub resume",
    "balance": 'btrfs balance pause "$(findmnt -n -f -o TARGET -S {0})"',
}
_BTRFS_OTHER = "btrfs filesystem show"


@Rule(
    title="Storage maintenance",
    layer="block",
    watches="md resync, check and reshape; btrfs scrub, balance and replace; I/O submitted by "
    "maintenance programs such as scrubs and checks; discards.",
    sources="/proc/mdstat, /sys/fs/btrfs/*/exclusive_operation, the socket of a btrfs scrub in "
    "/proc/net/unix, the probe's submitters by name, discards.",
    blind="Maintenance inside an array, a disk or a hypervisor; ZFS. A btrfs scrub started by "
    "a program other than btrfs-progs in another network namespace.",
    false_alarm="A program with one of these names that does real work.",
    wrong_if="no such job and no such program is running",
    check="cat /proc/mdstat; ps -eo pid,etime,args --sort=-etime",
    thresholds={
        "share_min_pct": (20.0, "less hardly changes a measurement"),
        "bytes_min_per_s": (10e6, "smaller loads are ignored"),
        "discard_bytes_min_per_s": (200e6, "file systems discard a little all the time"),
        "discard_lasting_min_pct": (80.0, "of the intervals; deleting one file shows in only one"),
    },
    needs=("block",),
    may_be_short=True,
)
def maintenance(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check jobs that the kernel reports, maintenance programs' share of the I/O, and discards."""
    jobs = recent[-1].rows("block", "job")
    read, write = (sum_op(recent, "block", op).bytes_per_s for op in ("read", "write"))
    for row in jobs:
        device, job = row.key[:2]
        done, speed = row.values.get("done_pct"), row.values.get("speed_bytes_per_s")
        progress = f", {done:.1f} % done" if done is not None else ""
        fast = f" at {rate(speed)}" if speed else ""
        text = f"{job} running{progress}"
        yield Verdict(
            subject=f"{device} {job}",
            confidence="high",
            cause=f"{device} is busy with {job}{progress}{fast}, which takes a share of every "
            f"disk below. All disks read {rate(read)} and write {rate(write)}.",
            evidence=(Evidence(text, "done_pct", done, None, _SOURCE),),
            advice="Measure again when it has finished, or slow it down until then.",
            command=_command(device, job),
        )
    if not jobs:  # otherwise these programs are the job
        yield from _upkeep(recent, limits)
    yield from _discards(recent, limits)


def _command(device: str, job: str) -> str:
    if not device.startswith("btrfs "):
        return "sysctl dev.raid.speed_limit_max=20000   # KB/s; default 200000"
    _, is_known, names = device.partition(" on ")
    node = shlex.quote(f"/dev/{names.partition(',')[0]}")
    return _BTRFS.get(job, _BTRFS_OTHER).format(node) if is_known else _BTRFS_OTHER


def _upkeep(recent: RecentIntervals, limits: Limits) -> Verdicts:
    names = {row.key[1] for s in recent for row in s.rows("block", "process")}
    if not any(map(_UPKEEP.fullmatch, names)):  # the usual case, decided early
        return
    columns = ("read_bytes_per_s", "write_bytes_per_s")
    moved_by = sum_rows(recent, "block", "process", columns, itemgetter(1))
    by_name = {name: bytes_ for name, bytes_ in moved_by.items() if _UPKEEP.fullmatch(name)}
    upkeep, total = sum(by_name.values()), sum(moved_by.values())
    if not by_name or not total or upkeep / recent.seconds < limits["bytes_min_per_s"]:
        return
    share, least = upkeep / total, limits["share_min_pct"]
    if share * 100 < least:
        return
    # Reads of a loop device count again on the disk below: use only the share, not the sum.
    bytes_ = sum(sum_op(recent, "block", op).bytes_per_s for op in ("read", "write"))
    text = f"{rate(upkeep / recent.seconds)} of {rate(total / recent.seconds)} submitted"
    source = "probe of the block layer: who submitted"
    yield Verdict(
        subject="upkeep",
        confidence="high",
        cause=f"{', '.join(sorted(by_name))} does {percent(share)} of the disks' I/O "
        f"({rate(share * bytes_)}): this is maintenance.",
        evidence=(Evidence(text, "read_bytes_per_s", share * 100, least, source),),
        advice="Measure again when it has finished, or run it at another time or at low priority.",
        command=f"ps -C {shlex.quote(min(by_name))} -o pid,etime,args",
    )


def _discards(recent: RecentIntervals, limits: Limits) -> Verdicts:
    discard, least = sum_op(recent, "block", "discard"), limits["discard_bytes_min_per_s"]
    if discard.bytes_per_s < least:
        return
    # Deleting a large file discards it in one interval; a trim of a disk takes several.
    busy = [stats for _, stats in discard.intervals if stats.count]
    if len(busy) * 100 < limits["discard_lasting_min_pct"] * len(recent):
        return
    text = f"{discard.count:,} discards in {discard.seconds:.0f} s"
    source = "probe of the block layer"
    yield Verdict(
        subject="discard",
        confidence="high",
        cause=f"{rate(discard.bytes_per_s)} is being discarded (trim): many disks serve no other "
        "requests during a discard.",
        evidence=(Evidence(text, "bytes_per_s", discard.bytes_per_s, least, source),),
        advice="Measure again when fstrim has finished, or mount without the option discard.",
        command="systemctl list-timers fstrim.timer; findmnt -O discard",
    )
