"""Reads that come from this machine's memory and say nothing about the storage."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.nfs import metric_mean, off_disk_bytes
from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Window, rows_of
from ioh.findings.words import duration, per_s, percent, program, rate
from ioh.model.finding import Evidence

SPAN_S = 5.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Local files by calls, NFS files by bytes."""
    recent = window.recent(SPAN_S)
    read = sum_op(recent, "syscall", "read_buffered")
    fast = read.bytes_per_s >= limits["bytes_min_per_s"]
    if not window.covers(SPAN_S) or not (fast or read.ops_per_s >= limits["calls_min_per_s"]):
        return
    yield from _local(window, limits)
    yield from _nfs(window, limits)


def _local(window: Window, limits: Limits) -> Iterator[Verdict]:
    recent = window.recent(SPAN_S)
    read = sum_op(recent, "syscall", "read_buffered")
    calls = sum_metric(recent, "syscall", "read_calls_per_s") or 0.0
    cached = sum_metric(recent, "syscall", "read_calls_cached_per_s") or 0.0
    fetched = sum_metric(recent, "syscall", "read_lower_bytes_per_s") or 0.0
    elsewhere = off_disk_bytes(recent, "read")
    if not calls or elsewhere > read.bytes / 2:
        return
    # What read-ahead fetched was read from the disk all the same: bytes decide, not calls alone.
    spared = 1 - min(1.0, (fetched + elsewhere) / read.bytes) if read.bytes else 0.0
    at_end = sum_metric(recent, "syscall", "read_calls_at_end_per_s") or 0.0
    # Of others (FUSE, CIFS …, a worker thread's) nobody knows whether they were cached.
    share = cached / max(calls, read.count - at_end)
    if share * 100 < limits["cached_min_pct"] or spared * 100 < limits["cached_min_pct"]:
        return
    top = next(iter(rows_of(window.newest, "syscall", "process")), None)
    who = f", most of them by {program(top.key, 'many programs')}" if top is not None else ""
    yield Verdict(
        subject="page cache",
        severity="info",
        confidence="high",
        cause=f"{percent(share)} of {per_s(read.ops_per_s)} reads a second "
        f"({rate(read.bytes_per_s)}) come from the page cache{who}: "
        f"{duration(read.latency_us or 0)} each is the speed of memory, not of the storage.",
        evidence=(
            Evidence(
                f"{percent(share)} of the read calls submitted nothing below",
                "cached_pct",
                share * 100,
                limits["cached_min_pct"],
                "probe: requests charged to the call",
            ),
            Evidence(
                f"{rate(read.bytes_per_s)} read, {rate(fetched / read.seconds)} of it fetched",
                "read_lower_bytes_per_s",
                fetched / read.seconds,
            ),
        ),
        advice="Nothing is wrong, unless you mean to test the storage: then use O_DIRECT, drop the "
        "cache before, or read far more than there is memory.",
        command="echo 3 > /proc/sys/vm/drop_caches   # before each run; or: fio --direct=1 ...",
    )


def _nfs(window: Window, limits: Limits) -> Iterator[Verdict]:
    recent = window.recent(SPAN_S)
    app = sum_metric(recent, "nfs_client", "app_read_bytes_per_s") or 0.0
    share = metric_mean(recent, "nfs_client", "cached_pct", "app_read_bytes_per_s")
    if share is None or share < limits["cached_min_pct"]:
        return
    if app / SPAN_S < limits["bytes_min_per_s"]:
        return
    yield Verdict(
        subject="NFS client",
        layer="nfs_client",
        severity="info",
        confidence="high",
        cause=f"{percent(share / 100)} of the {rate(app / SPAN_S)} that programs read of NFS files "
        "come from this client's page cache: neither the network nor the server is measured.",
        evidence=(
            Evidence(
                f"{percent(share / 100)} of the bytes were fetched by no READ",
                "cached_pct",
                share,
                limits["cached_min_pct"],
                "/proc/self/mountstats, bytes:",
            ),
            *_beyond_links(window, app / SPAN_S),
        ),
        advice="To test the server, read with O_DIRECT or drop this client's cache before.",
        command="fio --direct=1 ...",
    )


def _beyond_links(window: Window, bytes_per_s: float) -> Iterator[Evidence]:
    """That no link of this machine could have carried so much, where their speeds are known."""
    links = [
        (row.values.get("speed_bits_per_s"), row.key[0])
        for row in rows_of(window.newest, "tcp", "interface")
        if row.values.get("in_packets_per_s")
    ]
    # One that moves packets and does not tell its speed (lo, a bridge) may be the fast one.
    speed = sum(each for each, _ in links if each)
    if all(each for each, _ in links) and speed and bytes_per_s > speed / 8:
        names = " and ".join(name for _, name in links)
        yield Evidence(
            f"faster than the network: {names} can carry {rate(speed / 8)} at most",
            "speed_bits_per_s",
            bytes_per_s,
            speed / 8,
            "/sys/class/net/*/speed",
        )


RULE = Rule(
    name="caching",
    title="Cached reads",
    layer="syscall",
    judge=judge,
    watches="The share of reads that touched no lower layer, where there are many of them, and of "
    "bytes of NFS files that no READ fetched.",
    sources="The probes charge each request to the call that submitted it; mountstats' bytes.",
    blind="Caches inside the disk, the array or the NFS server (see server_cache); mappings.",
    false_alarm="A machine that works from its memory is a good machine; this matters to who "
    "benchmarks. Holes of sparse files look cached too (see holes).",
    thresholds=(
        Threshold("cached_min_pct", 80.0, "below, the disk still sets the mean"),
        Threshold("bytes_min_per_s", 200e6, "slower reading is no benchmark of a cache"),
        Threshold("calls_min_per_s", 20000, "as many small reads as a fast disk can serve"),
    ),
    probed=("syscall",),
    hold_s=2.0,
    span_s=10.0,
)
