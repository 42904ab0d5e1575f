"""Reads served by a lower cache: page cache under a loop device, array, NFS server."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ioh.findings.devices import Device, bottom, devices, is_disk_of
from ioh.findings.format_sentence import duration, per_s, percent, rate, size
from ioh.findings.nfs import metric_mean
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import measured, sum_op
from ioh.findings.window import RecentIntervals, op_of
from ioh.model.finding import Evidence
from ioh.model.hist import LATENCY_EDGES_US, SIZE_EDGES_BYTES, SizeLatencyHist, add_hists

SPAN_S = 5.0
MODES_S = 6.0
_DISK = re.compile(r"(?:[shv]|xv)d[a-z]+\d*|(?:nvme\d+n|mmcblk)\d+(?:p\d+)?|(?:dm-|md)\d+")
_REAL_DISK = re.compile(r"[sh]d[a-z]+")  # for these, rotational is not just a driver's default


class _Modes(NamedTuple):
    """Reads of one size in two groups: ``share`` take at most ``fast_us``, the rest ``slow_us``."""

    bytes: int
    share: float
    fast_us: float
    slow_us: float
    reads: int


@Rule(
    title="Cached below",
    layer="block",
    ways=("read",),
    watches="Reads of loop devices compared with those of the disk below; rotating disks that "
    "serve random reads too fast; disk and NFS reads of one size that are either fast or slow.",
    sources="The block probe: bytes and times of each device, position of the requests; the "
    "histograms of size and latency; /sys/block/*/queue/rotational.",
    blind="A cache that serves every read of an SSD: it looks like a fast disk. Loop devices "
    "with --device, which measures only one device. Two speeds while there are writes, or reads "
    "of another size: the slow reads may have waited for those.",
    false_alarm="Two speeds: a limit that allows bursts and is not recognised on a busy machine "
    "(see device_limit), or two files on fast and slow parts of one volume. Too fast: an array "
    "or a hypervisor that reports its flash as a rotating disk (known virtual disks are "
    "excluded).",
    wrong_if="with this machine's caches dropped, reads of data that nobody has read before are "
    "as fast",
    check="sync; echo 3 > /proc/sys/vm/drop_caches",
    thresholds={
        "ops_min_per_s": (200, "about the random reads that two rotating disks can serve"),
        "cached_min_pct": (80.0, "below this, the disk still determines the mean"),
        "turning_min_us": (1000, "half a rotation of the fastest disk takes 2,000"),
        "sequential_max_pct": (30.0, "a disk reads ahead by itself when requests are sequential"),
        "mode_min_pct": (10.0, "a smaller group is only a tail (see tail_latency)"),
        "between_max_pct": (6.0, "with more in between, there are no two groups"),
        "hit_max_us": (
            600,
            "slower reads do not come from memory: they passed a queue sooner than others",
        ),
        "even_max": (
            0.3,
            "median distance of a share from the mean, in standard deviations; 0.7 by chance",
        ),
        "others_max": (0.5, "times the share of slow reads: with more other I/O, they wait for it"),
        "gap_doublings": (3, "the slow ones take at least 8 times as long"),
        "modes_ops_min": (600, "60 in the smaller group, within 6 s"),
    },
    probed=("block",),
    span_s=15.0,
)
def cache_below(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check loop devices over a cached file, rotating disks that are too fast, and two speeds."""
    for device in devices(recent, "read"):
        if device.sum.ops_per_s < limits["ops_min_per_s"] or not device.sum.bytes:
            continue
        yield from _loop(device, recent, limits)
        if _REAL_DISK.fullmatch(device.name) and device.settings.get("rotational"):
            yield from _too_fast(recent, device, limits)
    if recent.window.covers(MODES_S):
        longer = recent.window.recent(MODES_S)
        for layer, part in _apart(recent, limits):
            yield from _two_speeds(longer, layer, part, limits)


def _apart(recent: RecentIntervals, limits: Limits) -> Iterator[tuple[str, str]]:
    """Layer and part of each disk and mount with enough reads; their speeds may differ."""
    least = 0.8 * limits["modes_ops_min"] * SPAN_S / MODES_S
    for layer in ("block", "nfs_client"):
        if sum_op(recent, layer, "read").count < least:
            continue
        snapshot = recent[-1].layer(layer)
        names: list[str] = list(snapshot.parts) if snapshot is not None else []
        if layer == "block":
            names = [device.name for device in bottom(recent, "read")]
        for name in names or [""]:
            if sum_op(recent, layer, "read", name).count >= least:
                yield layer, name


def _loop(device: Device, recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Compare the reads of a loop device with those of the disk that holds its file."""
    kind, _, rest = device.on.partition(" ")
    file, _, place = rest.rpartition(" on ")
    if kind != "file" or not device.is_stacked:
        return
    layers = (layer for _, layer in measured(recent, "block"))
    disk = next((name for x in layers for name in x.parts if is_disk_of(name, place)), None)
    if disk is not None:
        fetched = sum_op(recent, "block", "read", disk).bytes_per_s
    elif _DISK.fullmatch(place) and sum_op(recent, "block", "read").bytes < device.sum.bytes:
        disk, fetched = place, 0.0  # that disk did no I/O
    else:  # not a disk, or not measured because of --device
        return
    share, least = 1 - fetched / device.sum.bytes_per_s, limits["cached_min_pct"]
    if share * 100 < least:
        return
    text = f"{rate(device.sum.bytes_per_s)} read from {device.name}, {rate(fetched)} from {disk}"
    source = "probe of the block layer, by device"
    yield Verdict(
        subject=f"loop {device.name}",
        severity="info",
        confidence="high",
        cause=f"At least {percent(share)} of the {rate(device.sum.bytes_per_s)} read from "
        f"{device.name} comes from this machine's page cache of {file}: "
        f"{duration(device.sum.latency_us or 0)} per read is not the speed of {disk}.",
        evidence=(Evidence(text, "read_bytes_per_s", share * 100, least, source),),
        advice="To measure the disk, make the loop device bypass the page cache.",
        command=f"losetup --direct-io=on {shlex.quote(device.node)}",
    )


def _too_fast(recent: RecentIntervals, device: Device, limits: Limits) -> Verdicts:
    """Check a rotating disk for random reads that are faster than its arm can move."""
    order = metric_mean(recent, "block", "sequential_pct", "positioned_per_s")
    service_us, most_us = device.sum.service_us, limits["turning_min_us"]
    if order is None or order > limits["sequential_max_pct"] or service_us > most_us:
        return
    took = f"{duration(service_us)} from issue to completion; "
    took += "half a rotation at 15,000 rpm takes 2 ms"
    text = f"{percent(order / 100)} of the requests began where another ended"
    yield Verdict(
        subject=f"disk {device.name}",
        severity="info",
        cause=f"{device.name} is reported as a rotating disk, but serves "
        f"{per_s(device.sum.ops_per_s)} random reads a second in {duration(service_us)} each, "
        "which no rotating disk can: a cache of its controller or array serves them, or it does "
        "not rotate.",
        evidence=(
            Evidence(took, "service_us", service_us, most_us, "probe of the block layer"),
            Evidence(text, "sequential_pct", order, limits["sequential_max_pct"]),
        ),
        advice="To measure the disk itself, read far more data than the cache holds, at random.",
        command=f"cat /sys/block/{device.name}/device/model; smartctl -i {device.node}",
    )


def _two_speeds(recent: RecentIntervals, layer: str, part: str, limits: Limits) -> Verdicts:
    """Check for reads of one size that are either fast or slow, with few in between."""
    reads = (op_of(snapshot, layer, "read", part) for snapshot in recent)
    tables = (stats.size_lat for stats in reads if stats is not None)
    hists = [table for table in tables if table is not None and table.counts]
    modes = _modes(hists, limits)
    if modes is None or modes.reads < limits["modes_ops_min"]:
        return
    others = _others_under_way(recent, layer, part, hists, modes)
    if others >= limits["others_max"] * (1 - modes.share):
        return  # the slow reads may have waited for these
    where = "the disk's, its array's or the hypervisor's" if layer == "block" else "the server's"
    of = f" of {part}" if part else ""
    fast, slow, share = duration(modes.fast_us), duration(modes.slow_us), percent(modes.share)
    text = f"{modes.reads:,} reads of up to {size(modes.bytes)}: {share} within {fast}, "
    text += f"{percent(1 - modes.share)} above {slow}"
    least, source = limits["mode_min_pct"], "probe's histogram of size and latency"
    yield Verdict(
        subject=f"{layer} two speeds {part}".rstrip(),
        layer=layer,
        severity="info",
        confidence="low",
        cause=f"{share} of the {size(modes.bytes)} reads{of} take at most {fast}, the others more "
        f"than {slow}, with few in between: a cache ({where}) serves the fast ones. The mean "
        "describes neither group.",
        evidence=(Evidence(text, "hist", modes.share * 100, least, source),),
        advice="With an uncontrolled hit rate, the mean of a test is meaningless: read far more "
        "than the cache holds, or so little that all of it fits, and use percentiles.",
        command="ioh text -d histsz",
    )


def _others_under_way(
    recent: RecentIntervals,
    layer: str,
    part: str,
    hists: Sequence[SizeLatencyHist],
    modes: _Modes,
) -> float:
    """Mean number of writes, and reads of other sizes, in flight."""
    table = add_hists(hists)
    own = table.row(SIZE_EDGES_BYTES.index(modes.bytes))
    counts = [every - its for every, its in zip(table.by_latency(), own, strict=True)]
    # The middle of a bucket, whose lower edge is half of its upper one.
    spent_us = sum(0.75 * us * n for us, n in zip(LATENCY_EDGES_US, counts, strict=False))
    writes = sum_op(recent, layer, "write", part).avg_inflight or 0.0
    return writes + spent_us / 1e6 / recent.seconds


def _modes(hists: Sequence[SizeLatencyHist], limits: Limits) -> _Modes | None:
    """The two groups of the most frequent size; None if they are not clearly apart."""
    if not hists:
        return None
    table = add_hists(hists)
    rows = [table.row(at) for at in range(len(SIZE_EDGES_BYTES))]
    row = max(rows, key=sum)
    busiest, total = rows.index(row), sum(row)
    least = limits["mode_min_pct"] / 100 * total
    below = [0, *accumulate(row)]
    gap = int(limits["gap_doublings"])
    for start in range(1, len(below) - gap - 1):
        fast, between = below[start], below[start + gap] - below[start]
        is_apart = between <= limits["between_max_pct"] / 100 * total
        if is_apart and fast >= least and total - below[start + gap] >= least:
            edges = LATENCY_EDGES_US[start - 1], LATENCY_EDGES_US[start + gap - 1]
            is_memory = edges[0] <= limits["hit_max_us"]
            modes = _Modes(SIZE_EDGES_BYTES[busiest], fast / total, *edges, total)
            is_chance = not _are_held(hists, busiest, start + gap, limits)
            return modes if is_memory and is_chance else None
    return None


def _are_held(hists: Sequence[SizeLatencyHist], size: int, slow: int, limits: Limits) -> bool:
    """Whether a limit delays the slow ones: then each interval has the same share of them.

    The share of cache misses varies by chance.  A limit delays all requests by about as much, so
    requests far faster than the median of the slow ones have another reason.
    """
    rows = [row for table in hists if any(row := table.row(size))]
    every = list(map(sum, rows))
    above = list(accumulate(map(sum, zip(*(row[::-1] for row in rows), strict=True))))[::-1]
    middle = max(at for at in range(slow, len(above)) if 2 * above[at] >= above[slow])
    return any(
        is_share_even([sum(row[at:]) for row in rows], every, limits["even_max"])
        for at in {slow, *range(max(slow, middle - 2), middle + 1)}
    )


def is_share_even(some: Sequence[int], every: Sequence[int], limit: float) -> bool:
    """Whether the share of ``some`` in each interval varies less than chance would make it.

    Most intervals must be within ``limit`` standard deviations of the mean share; by chance, two
    thirds are within 1.
    """
    share = sum(some) / max(1, sum(every))
    spreads = [count * share * (1 - share) for count in every]
    if not all(spreads):
        return False
    parts = zip(some, every, spreads, strict=True)
    off = sorted(abs(part - count * share) / math.sqrt(spread) for part, count, spread in parts)
    return off[len(off) // 2] <= limit
