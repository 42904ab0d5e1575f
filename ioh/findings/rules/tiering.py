"""Reads that get faster minute by minute: data moves to a faster tier, or into a cache below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_op
from ioh.findings.window import Recall, Stretch, Window, duration_s, op_of
from ioh.findings.words import duration, times
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

PART_S = 60.0
SPAN_S = 150.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """The median time of the disks' reads, of the last minute and of one before."""
    everything = window.recent(SPAN_S)
    if duration_s(everything) < 2 * PART_S * 0.95:
        return
    known = _times_us(everything, limits["ops_min_per_s"])
    if len(known) < 4:
        return
    before, now = median(known[: len(known) // 2]), median(known[len(known) // 2 :])
    if before < limits["before_min_us"] or now > limits["ratio_max"] * before:
        return
    late = window.recent(PART_S)
    early = everything[: len(everything) - len(late)]
    first, last = (sum_op(part, "block", "read") for part in (early, late))
    if not first.avg_bytes or not 0.8 <= last.avg_bytes / first.avg_bytes <= 1.25:
        return
    rank = spearman(known)
    if rank > -limits["rank_min"]:
        return
    yield Verdict(
        severity="info",
        confidence="low",
        cause=f"The same reads have become {times(before / now)} times as fast within "
        f"{sum(s.interval_s for s in everything):.0f} s, from {duration(before)} to "
        f"{duration(now)} in the median, steadily: the storage moves what is read to something "
        "faster.",
        evidence=(
            Evidence(
                f"median {duration(before)} before, {duration(now)} now",
                "p50_us",
                now,
                before * limits["ratio_max"],
                "probe's histogram of the block layer",
            ),
            Evidence(f"rank correlation of time and latency {rank:.2f}", "", rank),
        ),
        advice="A test must run until it gets no faster: double its length until two runs agree "
        "within a tenth.",
        command="fio --time_based --runtime=... --ramp_time=...",
    )


def _times_us(snapshots: Stretch, ops_min_per_s: float) -> list[float]:
    """The median time of each interval's reads, or their mean; none where too many had no reads."""

    def of(snapshot: Snapshot) -> float | None:
        stats = op_of(snapshot, "block", "read")
        if stats is None or (stats.ops_per_s or 0.0) < ops_min_per_s:
            return None
        return stats.p50_us if stats.p50_us is not None else stats.latency_us

    may_miss = len(snapshots) - math.ceil(0.9 * len(snapshots))
    if all(of(snapshot) is None for snapshot in snapshots[-may_miss - 1 :]):
        return []  # as most often, and found out soon
    known = [us for us in snapshots.each(("read time", ops_min_per_s), of) if us is not None]
    return known if len(snapshots) - len(known) <= may_miss else []


def spearman(values: Sequence[float]) -> float:
    """Rank correlation of a series with time: -1 it always falls, 1 it always rises.

    Equal values share the mean of their ranks; a constant series has 0.
    """
    order = sorted(range(len(values)), key=lambda at: values[at])
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for place in order[at:end]:
            ranks[place] = (at + end - 1) / 2
        at = end
    middle = (len(values) - 1) / 2
    covariance = sum((t - middle) * (rank - middle) for t, rank in enumerate(ranks))
    spread_t = sum((t - middle) ** 2 for t in range(len(values)))
    spread_r = sum((rank - middle) ** 2 for rank in ranks)
    return covariance / (spread_t * spread_r) ** 0.5 if spread_r else 0.0


RULE = Rule(
    name="tiering",
    title="Storage gets faster while it is read",
    layer="block",
    judge=judge,
    watches="The median latency of the disks' reads over two minutes and more, at the same sizes.",
    sources="The block probe's percentiles, interval by interval.",
    blind="Which offsets are read: other data may simply be nearer.",
    false_alarm="A rival that ends, a disk that wakes, caches of an array that fill.",
    thresholds=(
        Threshold("ratio_max", 0.6, "a third faster may be anything"),
        Threshold("rank_min", 0.6, "a steady fall, not a jump up and down"),
        Threshold("before_min_us", 200, "what is as fast has no slower tier"),
        Threshold("ops_min_per_s", 50, "in nearly every interval, else it is another workload"),
    ),
    needs=("block",),
    probed=("block",),
    hold_s=5.0,
    span_s=SPAN_S,
    recalls=(Recall("block", "read", with_percentiles=True),),
)
