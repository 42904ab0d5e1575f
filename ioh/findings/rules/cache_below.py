"""Reads that a cache below answers: of a loop device's file, of an array, of a server."""

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
from ioh.findings.window import Stretch, layer_of, op_of
from ioh.model.finding import Evidence
from ioh.model.hist import (
    LATENCY_EDGES_US,
    SIZE_BUCKETS,
    SIZE_EDGES_BYTES,
    SizeLatencyHist,
)
from ioh.model.snapshot import Snapshot

SPAN_S = 5.0
MODES_S = 6.0
_DISK = re.compile(r"(?:[shv]|xv)d[a-z]+\d*|(?:nvme\d+n|mmcblk)\d+(?:p\d+)?|(?:dm-|md)\d+")
_REAL_DISK = re.compile(r"[sh]d[a-z]+")  # whose word on turning is no driver's default


class _Modes(NamedTuple):
    """Operations of one size in two heaps: how long each takes at most and at least (us)."""

    bytes: int
    share: float
    fast_us: float
    slow_us: float
    reads: int


@Rule(
    title="Cached below",
    layer="block",
    watches="Reads of loop devices compared with those of the disk below; rotating disks that "
    "answer random reads too fast; reads of one size, of disks and of NFS, that are either fast "
    "or slow.",
    sources="The block probe: bytes and times of each device, position of the requests; the "
    "histograms of size and latency; /sys/block/*/queue/rotational.",
    blind="A cache that answers every read of an SSD: it looks like a fast disk. Loop devices "
    "with --device, which measures only one. Two speeds while there are writes or reads of "
    "another size, for which the slow ones may have waited.",
    false_alarm="Two speeds: a limit that allows bursts and is not recognised on a busy machine "
    "(see device_limit), or two files on fast and slow parts of one volume. Too fast: an array "
    "or a hypervisor that reports its flash as a rotating disk (known virtual disks are left "
    "out).",
    wrong_if="the reads stay as fast once the caches of this machine are dropped, at places that "
    "nobody has read before",
    check="sync; echo 3 > /proc/sys/vm/drop_caches",
    thresholds={
        "ops_min_per_s": (200, "what two rotating disks serve at random"),
        "cached_min_pct": (80.0, "below, the disk still sets the mean"),
        "turning_min_us": (1000, "half a rotation of the fastest disk takes 2,000"),
        "sequential_max_pct": (30.0, "a disk reads ahead by itself when requests are sequential"),
        "mode_min_pct": (10.0, "fewer are a tail (see tail_latency)"),
        "between_max_pct": (6.0, "with more in between, there are no two groups"),
        "hit_max_us": (
            600,
            "slower reads do not come from memory, but from a queue that lets some pass",
        ),
        "even_max": (0.3, "standard deviations from the mean share; chance rarely stays so close"),
        "others_max": (0.5, "times the share of slow reads: other I/O that they may wait for"),
        "gap_doublings": (3, "the slow ones take at least 8 times as long"),
        "modes_ops_min": (600, "60 in the smaller group, within 6 s"),
    },
    probed=("block",),
    span_s=15.0,
)
def cache_below(recent: Stretch, limits: Limits) -> Verdicts:
    """Loop devices over a cached file, disks too fast for what they are, and two speeds."""
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


def _apart(recent: Stretch, limits: Limits) -> Iterator[tuple[str, str]]:
    """Each disk and each mount that is read enough: two of them may well differ in speed."""
    least = 0.8 * limits["modes_ops_min"] * SPAN_S / MODES_S
    for layer in ("block", "nfs_client"):
        if sum_op(recent, layer, "read").count < least:
            continue
        found = layer_of(recent[-1], layer)
        names: list[str] = list(found.parts) if found is not None else []
        if layer == "block":
            names = [device.name for device in bottom(recent, "read")]
        for name in names or [""]:
            if sum_op(recent, layer, "read", name).count >= least:
                yield layer, name


def _loop(device: Device, recent: Stretch, limits: Limits) -> Verdicts:
    """What is read of a loop device beside what is read of the disk that its file lies on."""
    kind, _, rest = device.on.partition(" ")
    file, _, place = rest.rpartition(" on ")
    if kind != "file" or not device.is_stacked:
        return
    layers = (layer for _, layer in measured(recent, "block"))
    disk = next((name for x in layers for name in x.parts if is_disk_of(name, place)), None)
    if disk is not None:
        fetched = sum_op(recent, "block", "read", disk).bytes_per_s
    elif _DISK.fullmatch(place) and sum_op(recent, "block", "read").bytes < device.sum.bytes:
        disk, fetched = place, 0.0  # it did nothing at all; other disks did, if anything
    else:  # it is no disk, or with --device nobody looks at it and this one is all there is
        return
    share, least = 1 - fetched / device.sum.bytes_per_s, limits["cached_min_pct"]
    if share * 100 < least:
        return
    text = f"{rate(device.sum.bytes_per_s)} read of {device.name}, {rate(fetched)} of {disk}"
    source = "probe of the block layer, each device apart"
    yield Verdict(
        subject=f"loop {device.name}",
        severity="info",
        confidence="high",
        cause=f"At least {percent(share)} of the {rate(device.sum.bytes_per_s)} read of "
        f"{device.name} come from this machine's page cache of {file}: "
        f"{duration(device.sum.latency_us or 0)} a read is not the speed of {disk}.",
        evidence=(Evidence(text, "read_bytes_per_s", share * 100, least, source),),
        advice="To measure the disk, let the loop device read past the page cache.",
        command=f"losetup --direct-io=on {shlex.quote(device.node)}",
    )


def _too_fast(recent: Stretch, device: Device, limits: Limits) -> Verdicts:
    """A disk that turns, read at random places faster than its arm can move."""
    order = metric_mean(recent, "block", "sequential_pct", "positioned_per_s")
    service_us, most_us = device.sum.service_us, limits["turning_min_us"]
    if order is None or order > limits["sequential_max_pct"] or service_us > most_us:
        return
    took = f"{duration(service_us)} from issue to completion; "
    took += "half a turn at 15,000 rpm takes 2 ms"
    text = f"{percent(order / 100)} of the requests began where another ended"
    yield Verdict(
        subject=f"disk {device.name}",
        severity="info",
        cause=f"{device.name} claims to rotate, but answers {per_s(device.sum.ops_per_s)} reads "
        f"a second at random places within {duration(service_us)} each, which no rotating disk "
        "can: a cache of its controller or array answers, or it does not rotate.",
        evidence=(
            Evidence(took, "service_us", service_us, most_us, "probe of the block layer"),
            Evidence(text, "sequential_pct", order, limits["sequential_max_pct"]),
        ),
        advice="To measure the medium, read far more than the cache holds, at random.",
        command=f"cat /sys/block/{device.name}/device/model; smartctl -i {device.node}",
    )


def _two_speeds(recent: Stretch, layer: str, part: str, limits: Limits) -> Verdicts:
    """Reads of one size of which some are far faster than the others, and none in between."""
    counted = [x for x in recent.each(_counted, layer, part) if x is not None]
    modes = _modes(counted, limits)
    if modes is None or modes.reads < limits["modes_ops_min"]:
        return
    others = _others_under_way(recent, layer, part, counted, modes)
    if others >= limits["others_max"] * (1 - modes.share):
        return  # they meet the slow ones, or keep them waiting
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
        f"than {slow}, and hardly any in between: a cache ({where}) answers the fast ones. Their "
        "mean describes neither.",
        evidence=(Evidence(text, "hist", modes.share * 100, least, source),),
        advice="A share of hits that a test does not control makes its mean useless: read far more "
        "than the cache holds, or so little that all of it fits, and look at percentiles.",
        command="ioh text -d histsz",
    )


class _Counted(NamedTuple):
    """The reads of an interval, and how many of each size but the last, which has no upper edge."""

    table: SizeLatencyHist
    of_size: list[int]


def _others_under_way(
    recent: Stretch, layer: str, part: str, counted: Sequence[_Counted], modes: _Modes
) -> float:
    """How many writes, and reads of other sizes, were under way on average."""
    own = SIZE_EDGES_BYTES.index(modes.bytes)
    spent_us = 0.0
    for x in counted:
        rows = (x.table.row(at) for at in range(SIZE_BUCKETS) if at != own)
        for row in rows:
            # The middle of a bucket, whose lower edge is half of its upper one.
            spent_us += sum(0.75 * us * n for us, n in zip(LATENCY_EDGES_US, row, strict=False))
    writes = sum_op(recent, layer, "write", part).avg_inflight or 0.0
    return writes + spent_us / 1e6 / recent.seconds


def _counted(snapshot: Snapshot, layer: str, part: str) -> _Counted | None:
    stats = op_of(snapshot, layer, "read", part)
    if stats is None or stats.size_lat is None or not stats.size_lat.counts:
        return None
    table = stats.size_lat
    return _Counted(table, [sum(table.row(at)) for at in range(SIZE_BUCKETS - 1)])


def _modes(counted: Sequence[_Counted], limits: Limits) -> _Modes | None:
    """The two heaps of the most frequent size; None where there is one, or a slope."""
    if not counted:
        return None
    of_size = list(map(sum, zip(*(x.of_size for x in counted), strict=True)))
    busiest = max(range(len(of_size)), key=of_size.__getitem__)
    total = of_size[busiest]
    least = limits["mode_min_pct"] / 100 * total
    row = map(sum, zip(*(x.table.row(busiest) for x in counted), strict=True))
    below = [0, *accumulate(row)]
    gap = int(limits["gap_doublings"])
    for start in range(1, len(below) - gap - 1):
        fast, between = below[start], below[start + gap] - below[start]
        is_apart = between <= limits["between_max_pct"] / 100 * total
        if is_apart and fast >= least and total - below[start + gap] >= least:
            edges = LATENCY_EDGES_US[start - 1], LATENCY_EDGES_US[start + gap - 1]
            is_memory = edges[0] <= limits["hit_max_us"]
            found = _Modes(SIZE_EDGES_BYTES[busiest], fast / total, *edges, total)
            is_chance = not _are_held(counted, busiest, start + gap, limits)
            return found if is_memory and is_chance else None
    return None


def _are_held(counted: Sequence[_Counted], size: int, slow: int, limits: Limits) -> bool:
    """Whether the slow ones come like clockwork: by a limit that lets so many through at a time.

    What a cache does not have comes by chance, now more and now less.  A limit holds all for about
    as long: what is far quicker than the middle of the slow ones has another reason.
    """
    rows = [row for x in counted if any(row := x.table.row(size))]
    every = list(map(sum, rows))
    above = list(accumulate(map(sum, zip(*(row[::-1] for row in rows), strict=True))))[::-1]
    middle = max(at for at in range(slow, len(above)) if 2 * above[at] >= above[slow])
    return any(
        is_share_even([sum(row[at:]) for row in rows], every, limits["even_max"])
        for at in {slow, *range(max(slow, middle - 2), middle + 1)}
    )


def is_share_even(some: Sequence[int], every: Sequence[int], limit: float) -> bool:
    """Whether each interval has the same share of some operations, more so than chance allows.

    ``limit`` is in standard deviations of a share by chance: two thirds lie within 1, and here most
    of the intervals must lie within it.
    """
    share = sum(some) / max(1, sum(every))
    spreads = [count * share * (1 - share) for count in every]
    if not all(spreads):
        return False
    parts = zip(some, every, spreads, strict=True)
    off = sorted(abs(part - count * share) / math.sqrt(spread) for part, count, spread in parts)
    return off[len(off) // 2] <= limit
