"""Most operations are fast, a few are very slow, and the mean hides it."""

from __future__ import annotations

from collections.abc import Sequence

from ioh.findings.format_sentence import duration, per_s, size, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.storage_time import above_storage, storage_us, what_is_above
from ioh.findings.sums import sum_op
from ioh.findings.window import RecentIntervals, op_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import OpStats

SPAN_S = 5.0
# Reads of devices and servers, and writes that programs wait for; not write-back.
_WATCHED = (
    ("block", "read"),
    ("nfs_client", "read"),
    ("nfs_server", "read"),
    ("syscall", "write_sync"),
    ("syscall", "fsync"),
)
_NAMES = {"write_sync": "synchronous write"}
_COMMAND = "ioh text -d histsz,parts"
_ADVICE = (
    "Check latency by size and by device. Usual causes: large I/O among small, one slow disk of "
    "several, write-back that delays reads, or a limit that delays some requests (see "
    "device_limit)."
)


@Rule(
    title="Long tail",
    layer="block",
    watches="The 99th percentile compared with the median, for reads and for writes that programs "
    "wait for.",
    sources="The probes' histograms over 5 s.",
    blind="Application reads: page cache and disk together always have a long tail.",
    false_alarm="Two kinds of work on one device, such as a log and a scan, differ by nature.",
    wrong_if="r_await and w_await are about the same in every second",
    check="iostat -x 1 20",
    thresholds={
        "ratio_min": (20.0, "healthy disks and servers stay below ten"),
        "p99_min_ms": (50.0, "a rotating disk under load, or a busy CPU, reaches 20 to 40 ms"),
        "ops_min": (1000, "with fewer, the 99th percentile depends on a handful of operations"),
    },
    hold_s=4.0,
)
def tail_latency(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each of these ops over the span."""
    for layer, op in _WATCHED:
        total = sum_op(recent, layer, op)
        stats = [stats for _, stats in total.intervals]
        if total.count < limits["ops_min"] or op_of(recent[-1], layer, op) is None:
            continue
        if _are_all_fast(stats, limits["p99_min_ms"] * 1e3):
            continue
        p50, p99 = total.p50_p99_us
        if p50 is None or p99 is None:
            continue
        least = limits["ratio_min"] * p50
        if p99 < limits["p99_min_ms"] * 1e3 or p99 < least:
            continue
        # Most intervals must have slow ones: a single stall is not a tail.
        slow = sum(1 for s in stats if s.max_us is not None and s.max_us >= p99 * 0.9)
        if slow * 2 < len(recent):
            continue
        worst = max(stats, key=lambda s: s.max_us or 0.0)
        text = f"p50 {duration(p50)}, p99 {duration(p99)} of {total.count:,} operations"
        slowest = f"slowest {duration(worst.max_us or 0)}, with {size(worst.max_bytes or 0)}"
        a_second = per_s(total.count / tail_latency.recent_s)
        below = storage_us(recent, lambda each: each.p50_p99_us[1] or each.max_us)
        is_above = layer == "syscall" and below is not None and below < p99 / 2
        advice, command = what_is_above(recent) if is_above else (_ADVICE, _COMMAND)
        yield Verdict(
            subject=f"{layer} {op}",
            ways=ways_of(op),
            layer=layer,
            confidence="high",
            cause=f"Half of the {_NAMES.get(op, op)}s of layer {recent[-1].title(layer)} "
            f"take at most {duration(p50)}, but 1 in 100 takes more than {duration(p99)}: "
            f"{times(p99 / p50)} times as long"
            + (f"; the storage takes only {duration(below or 0)} of it." if is_above else "."),
            evidence=(
                Evidence(text, "p99_us", p99, least, "probe's histogram"),
                Evidence(slowest, "max_us", worst.max_us),
                Evidence(f"{a_second} operations a second", "ops_per_s"),
                *(above_storage(recent, total.count) if is_above else ()),
            ),
            advice=advice,
            command=command,
        )


def _are_all_fast(stats: Sequence[OpStats], limit_us: float) -> bool:
    """Whether the slowest ones rule out a p99 at the limit; a p99 is up to 6.25 % too large."""
    slowest_us = [s.max_us for s in stats if s.count]
    return all(us is not None and us * 1.07 < limit_us for us in slowest_us)
