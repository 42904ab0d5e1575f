"""One operation at a time: the rate is one over the latency, whatever the disk could do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.sums import sum_metric, sum_op
from ioh.findings.window import Stretch, Window, layer_of, rows_of
from ioh.findings.words import duration, per_s, program, times
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

SPAN_S = 7.0
_NAMES = {
    "read_buffered": "read",
    "read_direct": "direct read",
    "write_direct": "direct write",
    "write_sync": "synchronous write",
}


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Calls that wait for storage, of which there is always exactly one under way."""
    recent = window.recent(SPAN_S)
    layer = layer_of(window.newest, "syscall")
    if layer is None or not window.covers(SPAN_S):
        return
    for op, name in _NAMES.items():
        total = sum_op(recent, "syscall", op)
        if total.ops_per_s < limits["ops_min_per_s"]:
            continue
        if total.latency_us is None or total.latency_us < limits["latency_min_us"]:
            continue
        depth = total.ops_per_s * total.latency_us / 1e6
        if not limits["depth_min"] <= depth <= 2 - limits["depth_min"]:
            continue
        if not _is_alone(recent, op):
            continue
        if op == "read_buffered" and not _reach_storage(recent, limits):
            continue
        top = next(iter(rows_of(window.newest, "syscall", "process")), None)
        who = program(top.key, "one thread") if top is not None else "one thread"
        yield Verdict(
            subject=op,
            severity="info",
            confidence="high",
            cause=f"{who} has one {name} under way at a time: {per_s(total.ops_per_s)} a second is "
            f"1 / {duration(total.latency_us)}, not the most that the storage can do.",
            evidence=(
                Evidence(
                    f"{times(depth)} in flight on average ({per_s(total.ops_per_s)} a second of "
                    f"{duration(total.latency_us)})",
                    "avg_inflight",
                    depth,
                    1.0,
                    "probe of calls: rate times mean time (Little's law)",
                ),
            ),
            advice="For more throughput have several in flight: threads, io_uring or a larger "
            "I/O. For a benchmark of throughput raise numjobs or iodepth.",
            command="fio --ioengine=io_uring --iodepth=16 ...",
        )


def _reach_storage(recent: Stretch, limits: Limits) -> bool:
    """Whether most of the buffered reads waited for a disk or a server, not for memory."""
    calls = sum_metric(recent, "syscall", "read_calls_per_s") or 0.0
    cached = sum_metric(recent, "syscall", "read_calls_cached_per_s") or 0.0
    return calls > 0 and (calls - cached) / calls >= limits["uncached_min_pct"] / 100


def _is_alone(recent: Sequence[Snapshot], op: str) -> bool:
    """Whether each look found at most one under way, most of them one, and no other op at all.

    A mean of one alone may be the chance of many that come and go.
    """
    looks = [
        {name: stats.inflight for name, stats in layer.ops.items() if name in layer.spec.ops}
        for snapshot in recent
        if (layer := layer_of(snapshot, "syscall")) is not None
    ]
    own = [look.get(op) or 0 for look in looks]
    others = sum(value or 0 for look in looks for name, value in look.items() if name != op)
    return bool(own) and max(own) <= 1 and sum(own) >= 0.7 * len(own) and not others


RULE = Rule(
    name="single_stream",
    title="One at a time",
    layer="syscall",
    judge=judge,
    watches="Direct and synchronous calls, and buffered reads of what is not in memory: how many "
    "are under way on average (rate times mean time), and whether it is always just one.",
    sources="The probe of calls.",
    blind="Reads of metadata (find, du) and of mappings, which are no calls that ioh follows. One "
    "thread among others that do I/O, too; the process named is the busiest.",
    false_alarm="Who needs the answer before the next question has no choice; then only latency "
    "counts.",
    thresholds=(
        Threshold("depth_min", 0.9, "always one: less is idle in between, 2 less this is more"),
        Threshold("uncached_min_pct", 50.0, "of buffered reads: the others are answered by memory"),
        Threshold("latency_min_us", 200, "faster storage keeps one thread busy by itself"),
        Threshold("ops_min_per_s", 50, "fewer are no load"),
    ),
    probed=("syscall",),
    hold_s=2.0,
)
