"""Reads and writes served from this machine's memory, which do not measure the storage."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.format_sentence import duration, per_s, percent, program, rate, size
from ioh.findings.nfs import metric_mean, off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import OpSum, increase, increases, sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence


@Rule(
    title="Cached reads",
    layer="syscall",
    ways=("read",),
    watches="The share of reads that reached no lower layer, if there are many reads; the share "
    "of NFS bytes that no READ fetched; fast buffered writes compared with the disks' writes.",
    sources="The probes count each request for the call that submitted it; bytes from mountstats.",
    blind="Caches inside the disk, the array or the NFS server (see server_cache); mmap.",
    false_alarm="Serving I/O from memory is good; it matters only to a benchmark of the storage. "
    "Holes of sparse files also look cached (see holes).",
    wrong_if="column bi (KB read from disks per second) is as much as the programs read",
    check="vmstat 1 5",
    thresholds={
        "cached_min_pct": (80.0, "below this, the disk still determines the mean"),
        "bytes_min_per_s": (200e6, "slower I/O is not worth reporting"),
        "unwritten_min_pct": (50.0, "above this, most of it is only in memory"),
        "calls_min_per_s": (20000, "about the small reads that a fast disk can serve"),
    },
    probed=("syscall",),
    yields_to=("holes",),
    hold_s=2.0,
)
def caching(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check local files by calls, NFS files by bytes, writes by the disks' writes."""
    read = sum_op(recent, "syscall", "read_buffered")
    is_fast = read.bytes_per_s >= limits["bytes_min_per_s"]
    if is_fast or read.ops_per_s >= limits["calls_min_per_s"]:
        yield from _local(recent, read, limits)
        yield from _nfs(recent, limits)
    yield from _writes(recent, limits)


def _local(recent: RecentIntervals, read: OpSum, limits: Limits) -> Verdicts:
    calls, cached = increases(recent, "syscall", "read_calls", "read_calls_cached")
    at_end, fetched = increases(recent, "syscall", "read_calls_at_end", "read_lower_bytes")
    packed, unpacked = increases(recent, "syscall", "read_packed_bytes", "read_unpacked_bytes")
    elsewhere = off_disk_bytes(recent, "read")
    if not calls or elsewhere > read.bytes / 2:
        return
    # Read-ahead also reads from the disk, so bytes must agree with the calls.
    brought = fetched + unpacked - packed + elsewhere
    spared = 1 - min(1.0, brought / read.bytes) if read.bytes else 0.0
    # Calls of FUSE, CIFS …, or by worker threads, may or may not have been cached.
    share, least = cached / max(calls, read.count - at_end), limits["cached_min_pct"]
    if min(share, spared) * 100 < least:
        return
    # A recording that does not tell the kinds apart has the mean of all.
    each_us = sum_op(recent, "syscall", "read_cached").latency_us or read.latency_us or 0
    top = next(iter(recent[-1].rows("syscall", "process")), None)
    who = f", most of them by {program(top.key, 'many programs')}" if top is not None else ""
    text = f"{percent(share)} of the read calls submitted no I/O below"
    source = "probe: requests of each call"
    parts = f"{rate(read.bytes_per_s)} read, {rate(fetched / read.seconds)} of it fetched"
    yield Verdict(
        subject="page cache",
        severity="info",
        confidence="high",
        cause=f"{percent(spared)} of the {rate(read.bytes_per_s)} that {per_s(read.ops_per_s)} "
        f"reads a second get come from the page cache{who}: "
        f"{duration(each_us)} each is the speed of memory, not of the storage.",
        evidence=(
            Evidence(parts, "cached_pct", spared * 100, least, source),
            Evidence(text, "cached_calls_pct", share * 100, least, source),
        ),
        advice="This is fine unless you want to test the storage: then use O_DIRECT, drop the "
        "cache first, or read far more data than there is memory.",
        command="sync; echo 3 > /proc/sys/vm/drop_caches   # before each run",
    )


def _writes(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check for buffered writes by a program that never waits for a disk."""
    wrote = sum_op(recent, "syscall", "write_buffered")
    local = wrote.bytes - off_disk_bytes(recent, "write")
    a_second, least = local / wrote.seconds, limits["bytes_min_per_s"]
    if a_second < least or local <= 0:
        return
    top = recent[-1].busiest("syscall", "process", "write_bytes_per_s")
    if top is None or top.values.get("syncs_per_s"):
        return
    reached = sum_op(recent, "block", "write").bytes
    if (1 - reached / local) * 100 < limits["unwritten_min_pct"]:
        return
    text = f"{size(local)} written without O_DIRECT and fsync, {size(reached)} reached a disk"
    yield Verdict(
        subject="written",
        ways=("write",),
        title="Cached writes",
        severity="info",
        confidence="high",
        cause=f"{program(top.key, 'Many programs')} writes {rate(a_second)} to the "
        f"page cache, and only {rate(reached / wrote.seconds)} reaches the disks: "
        f"{duration(wrote.latency_us or 0)} per write is the speed of memory, not of the storage.",
        evidence=(Evidence(text, "write_bytes_per_s", a_second, least, "probes of both layers"),),
        advice="The kernel writes the rest back later. To test the storage, write with O_DIRECT, "
        "or include a final fsync in the time (dd conv=fsync, fio --end_fsync=1).",
        command="grep -E '^(Dirty|Writeback):' /proc/meminfo",
    )


def _nfs(recent: RecentIntervals, limits: Limits) -> Verdicts:
    a_second = increase(recent, "nfs_client", "app_read_bytes") / caching.recent_s
    share = metric_mean(recent, "nfs_client", "cached_pct", "app_read_bytes_per_s")
    least = limits["cached_min_pct"]
    if share is None or share < least or a_second < limits["bytes_min_per_s"]:
        return
    text = f"{percent(share / 100)} of the bytes were fetched by no READ"
    source = "/proc/self/mountstats, bytes:"
    yield Verdict(
        subject="NFS client",
        layer="nfs_client",
        severity="info",
        confidence="high",
        cause=f"{percent(share / 100)} of the {rate(a_second)} that programs read from NFS files "
        "comes from this client's page cache: this measures neither the network nor the server.",
        evidence=(
            Evidence(text, "cached_pct", share, least, source),
            *_beyond_links(recent, a_second),
        ),
        advice="To test the server, read with O_DIRECT, or drop this client's cache first.",
        command="echo 3 > /proc/sys/vm/drop_caches   # before each run",
    )


def _beyond_links(recent: RecentIntervals, bytes_per_s: float) -> Iterator[Evidence]:
    """Evidence that this machine's links could not carry so much, if their speeds are known."""
    links = [
        (row.values.get("speed_bits_per_s"), row.key[0])
        for row in recent[-1].rows("tcp", "interface")
        if row.values.get("in_packets_per_s")
    ]
    # An active interface without a known speed (lo, a bridge) may be the fast one.
    speed = sum(each for each, _ in links if each) / 8
    if all(each for each, _ in links) and speed and bytes_per_s > speed:
        names = " and ".join(name for _, name in links)
        text = f"faster than the network: {names} can carry at most {rate(speed)}"
        source = "/sys/class/net/*/speed"
        yield Evidence(text, "speed_bits_per_s", bytes_per_s, speed, source)
