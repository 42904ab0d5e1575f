"""A volume at a limit set by a cloud, a hypervisor or an array, not by the disk."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ioh.findings.devices import Device, bottom
from ioh.findings.format_sentence import duration, per_s, percent, rate, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.window import RecentIntervals, op_of
from ioh.model.finding import Evidence
from ioh.model.hist import FINE_EDGES_US, LatencyHist
from ioh.model.snapshot import OpStats, Snapshot

BUSY_S = 5.0  # the same as other rules, so that its sums are already known
_OPS = ("read", "write")


class _DeviceInterval(NamedTuple):
    """One device in one interval, reads and writes together.

    Units:
        ``under_way`` requests in flight on average, ``at_end`` at the interval's end;
        ``requests`` completed, which took ``all_us`` together.
    """

    ops_per_s: float
    bytes_per_s: float
    under_way: float
    at_end: float
    requests: int
    all_us: float


@Rule(
    title="Volume at its limit",
    layer="block",
    watches="Requests and bytes of each device, second by second, while several are always in "
    "flight: whether the rate is constant although some requests are fast and others delayed.",
    sources="The block probe: counts, bytes and times of each device.",
    blind="A limit that spaces requests evenly: all are equally slow, as on a slow disk. A limit "
    "reached for less than 7 s, or while the number of waiting requests varies. Limits of "
    "control groups, which act above the device (see io_limit).",
    false_alarm="A disk that stalls periodically, for example to flush its cache every tenth of "
    "a second.",
    wrong_if="requests and bytes a second vary by more than a few percent while aqu-sz stays "
    "above 1",
    check="iostat -x 1 10",
    thresholds={
        "ops_min_per_s": (50, "at lower rates the counts vary too much"),
        "depth_min": (1.5, "with one at a time the disk also waits for the program"),
        "flat_max_pct": (1.0, "a disk's own speed varies by more"),
        "held_ratio_min": (4.0, "in a plain queue all wait, so median and mean are similar"),
        "even_max": (0.1, "times the standard deviation that chance causes with these latencies"),
        "waiting_max": (0.5, "the same for the number in flight, which a program sets"),
        "depth_off_max_pct": (2.0, "a waiting program submits its next request immediately"),
    },
    probed=("block",),
    hold_s=2.0,
    recent_s=7.0,
)
def device_limit(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each device that always has requests waiting for a constant rate."""
    by_name: dict[str, list[Device]] = {}
    for op in _OPS:
        for device in bottom(recent.window.recent(BUSY_S), op):
            by_name.setdefault(device.name, []).append(device)
    for name, each in by_name.items():
        if sum(device.sum.ops_per_s for device in each) < limits["ops_min_per_s"]:
            continue
        newest = _of_interval(recent[-1], name)
        if newest is None or newest.under_way < limits["depth_min"]:
            continue
        seconds = [x for snapshot in recent if (x := _of_interval(snapshot, name)) is not None]
        if len(seconds) == len(recent):
            yield from _held(recent, each[0], seconds, limits)


def _parts(snapshot: Snapshot, device: str) -> list[OpStats]:
    ops = (op_of(snapshot, "block", op, device) for op in _OPS)
    return [stats for stats in ops if stats is not None]


def _of_interval(snapshot: Snapshot, device: str) -> _DeviceInterval | None:
    ops = _parts(snapshot, device)
    if not ops:
        return None
    return _DeviceInterval(
        sum(x.ops_per_s or 0.0 for x in ops),
        sum(x.bytes_per_s or 0.0 for x in ops),
        sum(x.avg_inflight or 0.0 for x in ops),
        sum(x.inflight or 0 for x in ops),
        sum(x.count or 0 for x in ops),
        sum((x.count or 0) * (x.latency_us or 0.0) for x in ops),
    )


def _held(
    recent: RecentIntervals, device: Device, seconds: Sequence[_DeviceInterval], limits: Limits
) -> Verdicts:
    """Yield a verdict if requests or bytes per second are constant."""
    typical = _DeviceInterval._make(map(median, zip(*seconds, strict=True)))
    if typical.ops_per_s < limits["ops_min_per_s"] or typical.under_way < limits["depth_min"]:
        return
    flat = limits["flat_max_pct"] / 100
    metric, values = "ops_per_s", [x.ops_per_s for x in seconds]
    does = f"{per_s(typical.ops_per_s)} requests a second ({rate(typical.bytes_per_s)})"
    span = f"{per_s(min(values))} to {per_s(max(values))} a second"
    if (off := strays(values)) > flat:
        metric, values = "bytes_per_s", [x.bytes_per_s for x in seconds]
        does, span = rate(typical.bytes_per_s), f"{rate(min(values))} to {rate(max(values))}"
        off = strays(values)
    if off > flat:
        return
    name = device.name
    ops = [stats for snapshot in recent for stats in _parts(snapshot, name)]
    hist = sum((x.latency for x in ops if x.count and x.latency is not None), LatencyHist())
    (p50_us,) = hist.percentiles_us((0.5,))
    mean_us = sum(x.all_us for x in seconds) / sum(x.requests for x in seconds)
    if p50_us is None or mean_us < limits["held_ratio_min"] * p50_us:
        return
    # If times vary by chance, so does the number of requests per interval.  If a program submits at
    # a fixed rate and a cache serves some requests, the number in flight varies.
    chance = _variation(hist) / math.sqrt(typical.requests)
    is_waiting = (
        strays([x.under_way for x in seconds]) <= limits["waiting_max"] * chance
        and strays([x.at_end for x in seconds]) <= limits["depth_off_max_pct"] / 100
    )
    if off > limits["even_max"] * chance or not is_waiting:
        return
    could = per_s(typical.under_way / p50_us * 1e6)
    text = f"{span} in {len(values)} intervals, two thirds of them within {percent(off)} of "
    text += f"the median; if these times varied by chance, {percent(chance)} would be usual"
    source = "probe of the block layer, by device"
    half = f"median {duration(p50_us)}, mean {duration(mean_us)}"
    yield Verdict(
        subject=name,
        cause=f"{name} does {does}, second after second, with {times(typical.under_way)} "
        f"in flight: a limit on the volume holds it there. Half of its requests take at most "
        f"{duration(p50_us)}, enough for {could} a second; the others are delayed, and the mean "
        f"is {duration(mean_us)}.",
        evidence=(
            Evidence(text, metric, off * 100, chance * 100, source),
            Evidence(half, "p50_us", p50_us, mean_us, "probe's histogram"),
        ),
        advice="Compare the rate with the volume's limit (the cloud's disk and machine type, the "
        "hypervisor, the array), and raise the limit. If it counts requests, fewer and larger ones "
        "move more data.",
        command=f"lsblk -d -o NAME,SIZE,MODEL,SERIAL {shlex.quote(device.node)}",
    )


def strays(values: Sequence[float]) -> float:
    """How far two thirds of the values are from their median, as a share of it; 0 to infinity.

    A third is ignored: what the end of one interval cuts off counts in the next.
    """
    middle = median(values) if values else 0.0
    if not middle:
        return math.inf
    off = sorted(abs(value - middle) for value in values)
    return off[math.ceil(2 / 3 * len(off)) - 1] / middle


def _variation(hist: LatencyHist) -> float:
    """The standard deviation of the times as a share of their mean."""
    counts = [(us, count) for us, count in zip(FINE_EDGES_US, hist.counts, strict=False) if count]
    total = sum(count for _, count in counts)
    mean = sum(us * count for us, count in counts) / total
    square = sum(us**2 * count for us, count in counts) / total
    return math.sqrt(max(0.0, square - mean**2)) / mean
