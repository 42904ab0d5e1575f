"""A volume at a limit that is not the disk's: a cloud's, a hypervisor's or an array's."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ioh.findings.devices import Device, bottom
from ioh.findings.format_sentence import duration, per_s, percent, rate, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.window import Stretch, layer_of
from ioh.model.finding import Evidence
from ioh.model.hist import FINE_EDGES_US, LatencyHist
from ioh.model.snapshot import OpStats, Snapshot

BUSY_S = 5.0  # as other rules have it, which have added it up by then
_OPS = ("read", "write")


class _Second(NamedTuple):
    """One device in one interval, reads and writes together.

    Units:
        ``ops_per_s``, ``bytes_per_s``; ``under_way`` on average, ``at_end`` in its last moment;
        ``requests`` completed, which took ``all_us`` together.
    """

    ops_per_s: float
    bytes_per_s: float
    under_way: float
    at_end: float
    requests: int
    all_us: float


class _Held(NamedTuple):
    """A device that is held at the same speed in each second.

    Shape:
        ``is_counted``: by the number of requests, else by bytes.  ``off`` is how far the seconds
        lie apart, ``chance`` how far they would if its requests' times came by chance, both as
        shares.

    Units:
        ``typical`` is the middle one of the seconds, ``p50_us`` and ``mean_us`` of all of them.
    """

    is_counted: bool
    off: float
    chance: float
    typical: _Second
    p50_us: float
    mean_us: float


@Rule(
    title="Volume at its limit",
    layer="block",
    watches="Requests and bytes of each device, second by second, while several are always in "
    "flight: whether they stay constant although some requests are fast and others are delayed.",
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
        "held_ratio_min": (4.0, "in a plain queue all wait, so median and mean are alike"),
        "even_max": (0.1, "in standard deviations that chance gives these times"),
        "waiting_max": (0.5, "the same for the number in flight, which a program sets"),
        "depth_off_max_pct": (2.0, "a program that waits always submits the next one at once"),
    },
    probed=("block",),
    hold_s=2.0,
    recent_s=7.0,
)
def device_limit(recent: Stretch, limits: Limits) -> Verdicts:
    """Each device with requests always waiting, of which every interval does the same number."""
    window = recent.window
    found: dict[str, list[Device]] = {}
    for op in _OPS:
        for device in bottom(window.recent(BUSY_S), op):
            found.setdefault(device.name, []).append(device)
    for name, each in found.items():
        if sum(device.sum.ops_per_s for device in each) < limits["ops_min_per_s"]:
            continue
        seconds = [x for x in recent.each(_second, name) if x is not None]
        if len(seconds) == len(recent) and seconds[-1].under_way >= limits["depth_min"]:
            held = _held(recent, name, seconds, limits)
            if held is not None:
                yield _verdict(each[0], seconds, held)


def _parts(snapshot: Snapshot, device: str) -> list[OpStats]:
    layer = layer_of(snapshot, "block")
    ops = {} if layer is None else layer.parts.get(device, {})
    return [ops[op] for op in _OPS if op in ops]


def _second(snapshot: Snapshot, device: str) -> _Second | None:
    ops = _parts(snapshot, device)
    if not ops:
        return None
    return _Second(
        sum(x.ops_per_s or 0.0 for x in ops),
        sum(x.bytes_per_s or 0.0 for x in ops),
        sum(x.avg_inflight or 0.0 for x in ops),
        sum(x.inflight or 0 for x in ops),
        sum(x.count or 0 for x in ops),
        sum((x.count or 0) * (x.latency_us or 0.0) for x in ops),
    )


def _held(recent: Stretch, device: str, seconds: Sequence[_Second], limits: Limits) -> _Held | None:
    typical = _Second._make(map(median, zip(*seconds, strict=True)))
    if typical.ops_per_s < limits["ops_min_per_s"] or typical.under_way < limits["depth_min"]:
        return None
    flat = limits["flat_max_pct"] / 100
    off = strays([x.ops_per_s for x in seconds])
    is_counted = off <= flat
    if not is_counted:
        off = strays([x.bytes_per_s for x in seconds])
        if off > flat:
            return None
    hists = [x for x in recent.each(_hist, device) if x is not None]
    hist = sum(hists, LatencyHist())
    (p50_us,) = hist.percentiles_us((0.5,))
    mean_us = sum(x.all_us for x in seconds) / sum(x.requests for x in seconds)
    if p50_us is None or mean_us < limits["held_ratio_min"] * p50_us:
        return None
    # Of requests that take long by chance, an interval has more or fewer; at a fixed rate, of which
    # a cache answers some, now more and now fewer are under way.
    chance = _variation(hist) / math.sqrt(typical.requests)
    is_waiting = (
        strays([x.under_way for x in seconds]) <= limits["waiting_max"] * chance
        and strays([x.at_end for x in seconds]) <= limits["depth_off_max_pct"] / 100
    )
    if off > limits["even_max"] * chance or not is_waiting:
        return None
    return _Held(is_counted, off, chance, typical, p50_us, mean_us)


def strays(values: Sequence[float]) -> float:
    """How far two thirds of them stay from their median, as a share of it; 0 to infinity.

    A third may lie anywhere: what the end of one interval cuts off comes with the next.
    """
    middle = median(values) if values else 0.0
    if not middle:
        return math.inf
    off = sorted(abs(value - middle) for value in values)
    return off[math.ceil(2 / 3 * len(off)) - 1] / middle


def _hist(snapshot: Snapshot, device: str) -> LatencyHist | None:
    known = [x.latency for x in _parts(snapshot, device) if x.count and x.latency is not None]
    return sum(known, LatencyHist()) if known else None


def _variation(hist: LatencyHist) -> float:
    """The standard deviation of these times as a share of their mean."""
    known = [(us, count) for us, count in zip(FINE_EDGES_US, hist.counts, strict=False) if count]
    total = sum(count for _, count in known)
    mean = sum(us * count for us, count in known) / total
    square = sum(us**2 * count for us, count in known) / total
    return math.sqrt(max(0.0, square - mean**2)) / mean


def _verdict(device: Device, seconds: Sequence[_Second], held: _Held) -> Verdict:
    typical = held.typical
    name, what = "bytes_per_s", rate(typical.bytes_per_s)
    values = [x.bytes_per_s for x in seconds]
    span = f"{rate(min(values))} to {rate(max(values))}"
    if held.is_counted:
        name, what = "ops_per_s", f"{per_s(typical.ops_per_s)} requests a second ({what})"
        values = [x.ops_per_s for x in seconds]
        span = f"{per_s(min(values))} to {per_s(max(values))} a second"
    could = per_s(typical.under_way / held.p50_us * 1e6)
    text = f"{span} in {len(values)} intervals, two thirds of them within {percent(held.off)} of "
    text += "the middle one; if such times came by chance, "
    text += f"{percent(held.chance)} would be usual"
    source = "probe of the block layer, each device apart"
    half = f"median {duration(held.p50_us)}, mean {duration(held.mean_us)}"
    return Verdict(
        subject=device.name,
        cause=f"{device.name} does {what}, second after second, with {times(typical.under_way)} "
        f"in flight: a limit on the volume holds it there. Half of its requests take at most "
        f"{duration(held.p50_us)}, at which it could do {could} a second; others are held back, "
        f"and the mean is {duration(held.mean_us)}.",
        evidence=(
            Evidence(text, name, held.off * 100, held.chance * 100, source),
            Evidence(half, "p50_us", held.p50_us, held.mean_us, "probe's histogram"),
        ),
        advice="Compare it with what the volume may do (a cloud's size and class of disk and of "
        "machine, a hypervisor's or an array's limit), and raise that. Where requests are counted, "
        "fewer and larger ones get more through.",
        command=f"lsblk -d -o NAME,SIZE,MODEL,SERIAL {shlex.quote(device.node)}",
    )
