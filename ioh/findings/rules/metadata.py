"""Programs that wait for metadata: open, stat, readdir, unlink, rename …, not for data."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, percent, size, times
from ioh.findings.metadata import MetadataWaits, is_over_nfs, most_waiting, times_by_kind
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence
from ioh.model.io_path import META

_SOURCE = "probe of calls"
_WAITING = (0.4, "threads on average that wait in metadata calls")
_SHARE = (0.6, "of the time of all its I/O that waits; with less, its data matters as much")
_REMOTE = (
    "Each waits for the server: run this on the server, run several at once (xargs -P), or keep "
    "many small files in one archive or image."
)
_LOCAL = (
    "Run several at once (xargs -P). If it comes back to the same files, more memory keeps their "
    "names and inodes; else a disk with lower latency helps, more throughput does not."
)


@Rule(
    title="Metadata-bound",
    layer="syscall",
    ways=(META,),
    watches="The program that waits longest in metadata calls: its time in them, compared with "
    "that of its reads, writes and syncs that wait.",
    sources="The probe of calls: those that reached a lower layer or slept.",
    blind="Calls through io_uring's workers. What a program does between its calls.",
    false_alarm="A program whose job is metadata (find, rm -r): it is not wrong, but faster "
    "throughput would not help it.",
    wrong_if="the file calls are not the largest part",
    check="timeout 5 strace -fc -p PID",
    thresholds={"waiting_min": _WAITING, "share_min": _SHARE},
    probed=("syscall",),
    yields_to=("directory_scan", "nfs_revalidation", "open_close"),
    hold_s=4.0,
)
def metadata_bound(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check the program with the longest waits."""
    waits = _long_waits(recent, limits)
    if waits is None:
        return
    kinds = times_by_kind(recent)
    most = next(iter(kinds), "")
    which = f", most of their time in {most}" if most else ""
    yield _verdict(
        waits,
        cause=f"{waits.comm} spends {percent(waits.share)} of the time of its I/O in metadata "
        f"calls: {per_s(waits.per_s)} a second wait {duration(waits.mean_us)} each{which}.",
        advice=_REMOTE if is_over_nfs(recent) else _LOCAL,
        limits=limits,
    )


@Rule(
    title="Directory scan",
    layer="syscall",
    ways=(META,),
    watches="Reads of directories, and how many stat calls follow each.",
    sources="The probe of calls.",
    blind="Which directory it is: strace -e trace=%file shows it.",
    false_alarm="A backup or an index that must look at each file.",
    wrong_if="the directories are small",
    check="timeout 5 strace -f -y -e trace=getdents64 -p PID",
    thresholds={
        "waiting_min": _WAITING,
        "share_min": _SHARE,
        "stats_min_per_s": (100, "slower scans are not limited by it"),
        "stats_per_readdir_min": (50, "with fewer, the directories are small"),
        "time_min": (0.6, "of the time of metadata calls"),
    },
    probed=("syscall",),
    yields_to=("nfs_revalidation",),
    hold_s=4.0,
)
def directory_scan(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check for readdir plus a stat of each entry."""
    stat, readdir = (sum_op(recent, "syscall", op) for op in ("stat", "readdir"))
    waits = _long_waits(recent, limits)
    if waits is None or not readdir.count or stat.ops_per_s < limits["stats_min_per_s"]:
        return
    each, kinds = stat.count / readdir.count, times_by_kind(recent)
    scanned_us = kinds.get("stat", 0.0) + kinds.get("readdir", 0.0)
    least = limits["stats_per_readdir_min"]
    if each < least or scanned_us < limits["time_min"] * sum(kinds.values()):
        return
    advice = "List without attributes: ls -f or ls -U --color=never, find without -size, -mtime or "
    advice += "-newer. Spread the files over subdirectories."
    if is_over_nfs(recent):
        advice += " Over NFS, READDIRPLUS gets them with the names: mount without nordirplus."
    yield _verdict(
        waits,
        cause=f"{waits.comm} reads large directories and asks for each entry's attributes: "
        f"{per_s(stat.ops_per_s)} stat calls a second of {duration(stat.latency_us or 0)} each, "
        f"{times(each)} for each read of a directory.",
        advice=advice,
        limits=limits,
        evidence=Evidence(f"{times(each)} stat calls per readdir", "", each, least, _SOURCE),
    )


@Rule(
    title="Files opened for one small read",
    layer="syscall",
    ways=(META,),
    watches="The time of open and close, compared with that of the reads and writes of the opened "
    "files, and how many bytes each open file moves.",
    sources="The probe of calls.",
    blind="Which files are opened: strace -e trace=openat shows it.",
    false_alarm="Programs that are made of many small files: compilers, mail servers, git.",
    wrong_if="the same file is not opened again and again, and the files cannot be larger",
    check="timeout 5 strace -f -e trace=openat -p PID",
    thresholds={
        "waiting_min": _WAITING,
        "share_min": _SHARE,
        "opens_min_per_s": (50, "fewer are not worth a change"),
        "bytes_per_open_max": (65536, "with more, the data matters"),
        "time_min": (0.6, "of the time of metadata calls"),
    },
    probed=("syscall",),
    yields_to=("nfs_revalidation",),
    hold_s=4.0,
)
def open_close(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check whether opening and closing files takes the time."""
    waits, kinds = _long_waits(recent, limits), times_by_kind(recent)
    opened = [sum_op(recent, "syscall", op) for op in ("open", "create")]
    opens = sum(total.count for total in opened)
    if waits is None or opens < limits["opens_min_per_s"] * recent.seconds:
        return
    moved = sum(sum_op(recent, "syscall", op).bytes for op in ("read", "write"))
    spent_us = sum(kinds.get(kind, 0.0) for kind in ("open", "create", "close"))
    most = limits["bytes_per_open_max"]
    if moved > most * opens or spent_us < limits["time_min"] * sum(kinds.values()):
        return
    if not moved:  # opened to be created or locked
        return
    each = moved / opens
    advice = "Keep files open, or put many small ones into one (an archive, a database)."
    if is_over_nfs(recent):
        advice += " Over NFS, an open asks the server each time: nocto spares that for files that "
        advice += "no other client changes."
    yield _verdict(
        waits,
        cause=f"{waits.comm} opens {per_s(opens / recent.seconds)} files a second for "
        f"{size(each)} each: open and close take {duration(spent_us / opens)} per file, and "
        f"{percent(waits.share)} of the time of its I/O that waits is metadata.",
        advice=advice,
        limits=limits,
        evidence=Evidence(f"{size(each)} per open file", "", each, most, _SOURCE),
    )


def _long_waits(recent: RecentIntervals, limits: Limits) -> MetadataWaits | None:
    """The program that waits longest in metadata calls, if it waits long, and most of all there."""
    waits = most_waiting(recent, recent.seconds)
    if waits is None or waits.waiting < limits["waiting_min"]:
        return None
    return waits if waits.share >= limits["share_min"] else None


def _verdict(
    waits: MetadataWaits,
    *,
    cause: str,
    advice: str,
    limits: Limits,
    evidence: Evidence | None = None,
) -> Verdict:
    least = limits["waiting_min"]
    text = f"{times(waits.waiting)} threads of {waits.comm} wait in metadata calls on average"
    mine = Evidence(text, "meta_waited_ns_per_s", waits.waiting, least, _SOURCE)
    return Verdict(
        subject=waits.comm,
        severity="info",
        confidence="high",
        cause=cause,
        evidence=(mine,) if evidence is None else (mine, evidence),
        advice=advice,
    )
