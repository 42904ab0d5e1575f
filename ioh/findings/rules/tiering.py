"""Reads that get faster over time: data moves to a faster tier, or into a lower cache."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import StatisticsError, correlation, median

from ioh.findings.format_sentence import duration, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import sum_op
from ioh.findings.window import Recall, RecentIntervals, Window, duration_s, op_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

BEFORE_S = 45.0
PART_S = 60.0
SPAN_S = 150.0
_QUARTERS = 4


@Rule(
    title="Storage gets faster while it is read",
    layer="block",
    ways=("read",),
    watches="The latency of disk reads of constant size: its median over two minutes and more; "
    "its mean over 15 and 30 s while the number in flight is constant.",
    sources="The block probe's percentiles and means, interval by interval.",
    blind="Which offsets are read: other data may simply be nearer. Within 30 s, reads at a fixed "
    "rate: fewer of them are in flight when they get faster.",
    false_alarm="A competitor that stops, a disk that wakes up, caches of an array that fill.",
    wrong_if="the reads become slow again when a competitor comes back, or a second run on other "
    "data does not get faster",
    check="iostat -x 1 20",
    thresholds={
        "ratio_max": (0.6, "of the time before; a third less may have any reason"),
        "rank_min": (0.6, "a steady fall, not jumps up and down"),
        "peak_ratio_max": (0.8, "if the 45 s before that were faster, it was only a peak"),
        "straight_min_pct": (94, "of a change within seconds; a single jump reaches 75"),
        "before_min_us": (200, "storage this fast has no slower tier"),
        "ops_min_per_s": (50, "in nearly every interval, otherwise the workload has changed"),
    },
    probed=("block",),
    hold_s=2.0,
    span_s=SPAN_S,
    recalls=(Recall("block", "read", with_percentiles=True),),
)
def tiering(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check the time of disk reads over minutes, and over seconds under a constant load."""
    window = recent.window
    verdict = _within_minutes(window, limits)
    for seconds in (15.0, 30.0):
        verdict = verdict or _within_seconds(window, seconds, limits)
    if verdict is not None:
        yield verdict


def _within_minutes(window: Window, limits: Limits) -> Verdict | None:
    """Compare the medians of the earlier and the later half of the span."""
    everything = window.recent(SPAN_S)
    if duration_s(everything) < 2 * PART_S * 0.95:
        return None
    times_us = _times_us(everything, limits["ops_min_per_s"])
    if len(times_us) < 4:
        return None
    before, now = median(times_us[: len(times_us) // 2]), median(times_us[len(times_us) // 2 :])
    late = window.recent(PART_S)
    early = everything[: len(everything) - len(late)]
    sizes = (sum_op(part, "block", "read").avg_bytes for part in (early, late))
    if not _is_faster(before, now, limits) or not _are_alike(*sizes):
        return None
    rank = spearman(times_us)
    if rank > -limits["rank_min"]:
        return None
    evidence = Evidence(f"rank correlation of time and latency {rank:.2f}", "", rank)
    return _verdict(duration_s(everything), before, now, evidence, "median")


def _within_seconds(window: Window, soon_s: float, limits: Limits) -> Verdict | None:
    """Compare means, which must fall in a straight line with a constant number in flight.

    A disk with less load is also faster, and latency may go up and down.  Over minutes that
    averages out; within seconds it must be excluded.
    """
    recent = window.recent(soon_s)
    ends = [us for us in map(_mean_us, (recent[0], recent[-1])) if us]
    # The usual case, decided early: a straight fall ends well below its beginning.
    if len(ends) < 2 or ends[1] > 0.8 * ends[0]:
        return None
    means_us = [us for us in recent.each(_mean_us) if us]
    if not window.covers(soon_s) or len(means_us) < max(len(recent), 2 * _QUARTERS):
        return None
    edges = [len(recent) * at // _QUARTERS for at in range(_QUARTERS + 1)]
    quarters = [sum_op(recent[begin:end], "block", "read") for begin, end in pairwise(edges)]
    means = [quarter.latency_us or 0.0 for quarter in quarters]
    if not all(means) or not _is_faster(means[0], means[-1], limits):
        return None
    straight = straightness(means_us)
    first = quarters[0]
    is_same_load = all(
        _are_alike(first.avg_bytes, other.avg_bytes)
        and _are_alike(first.avg_inflight or 0.0, other.avg_inflight or 0.0)
        for other in quarters[1:]
    )
    is_load = min(quarter.ops_per_s for quarter in quarters) >= limits["ops_min_per_s"]
    if not is_load or not is_same_load or straight < limits["straight_min_pct"] / 100:
        return None
    before = sum_op(window.recent(soon_s + BEFORE_S)[: -len(recent)], "block", "read")
    was_faster = (before.latency_us or 0.0) < limits["peak_ratio_max"] * means[0]
    if before.ops_per_s >= limits["ops_min_per_s"] and was_faster:
        return None
    evidence = Evidence(f"a straight fall explains {percent(straight)} of the change", "", straight)
    return _verdict(recent.seconds, means[0], means[-1], evidence, "mean")


def _mean_us(snapshot: Snapshot) -> float | None:
    stats = op_of(snapshot, "block", "read")
    return None if stats is None else stats.latency_us


def _is_faster(before: float, now: float, limits: Limits) -> bool:
    return before >= limits["before_min_us"] and now <= limits["ratio_max"] * before


def _are_alike(before: float, now: float) -> bool:
    """Whether two numbers differ by about a fifth at most."""
    return before > 0 and 0.8 <= now / before <= 1.25


def _verdict(seconds: float, before: float, now: float, evidence: Evidence, which: str) -> Verdict:
    text = f"{which} {duration(before)} before, {duration(now)} now"
    metric, source = "p50_us" if which == "median" else "latency_us", "probe of the block layer"
    return Verdict(
        severity="info",
        confidence="low",
        cause=f"The same reads have steadily become {times(before / now)} times as fast within "
        f"{seconds:.0f} s, from a {which} of {duration(before)} to {duration(now)}: the storage "
        "moves the data to a faster tier, or a lower cache fills.",
        evidence=(Evidence(text, metric, now, None, source), evidence),
        advice="Run a test until it gets no faster: double its length until two runs agree "
        "within 10 %.",
    )


def _times_us(snapshots: RecentIntervals, ops_min_per_s: float) -> list[float]:
    """Median read time of each interval (else the mean); [] if too many intervals had no reads."""
    may_miss = len(snapshots) - math.ceil(0.9 * len(snapshots))
    each = snapshots.each(_time_us, ops_min_per_s)
    if all(us is None for us in each[-may_miss - 1 :]):
        return []  # the usual case, decided early
    times_us = [us for us in each if us is not None]
    return times_us if len(snapshots) - len(times_us) <= may_miss else []


def _time_us(snapshot: Snapshot, ops_min_per_s: float) -> float | None:
    stats = op_of(snapshot, "block", "read")
    if stats is None or (stats.ops_per_s or 0.0) < ops_min_per_s:
        return None
    return stats.p50_us if stats.p50_us is not None else stats.latency_us


def straightness(values: Sequence[float]) -> float:
    """The share (0 to 1) of the variance of a series' logarithms that a straight line explains."""
    return _with_time([math.log(value) for value in values]) ** 2


def spearman(values: Sequence[float]) -> float:
    """Rank correlation of a series with time: -1 always falls, 1 always rises, 0 constant.

    Equal values share the mean of their ranks.
    """
    ordered = sorted(values)
    return _with_time([bisect_left(ordered, x) + bisect_right(ordered, x) for x in values])


def _with_time(values: Sequence[float]) -> float:
    """Correlation of a series with time; 0 for a constant series."""
    try:
        return correlation(range(len(values)), values)
    except StatisticsError:
        return 0.0
