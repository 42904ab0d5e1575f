"""Direct and synchronous calls that wait much longer than their requests: file system, limit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ioh.findings.devices import Device, carrier
from ioh.findings.format_sentence import duration, percent, times
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import OpSum, sum_metric, sum_op
from ioh.findings.window import Stretch, rows_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot

_PURE = 0.9


@Rule(
    title="Latency added above the disk",
    layer="syscall",
    watches="How long direct reads and writes take, compared with the time of all their requests.",
    sources="The probes of both layers, means over 5 s.",
    blind="Buffered calls, since the page cache is in between. Which lock takes the time. libaio "
    "programs that ask late for most of their completions.",
    false_alarm="Parallel requests make a call shorter, never longer, so it is compared with the "
    "sum of their times. Busy CPUs add time, too; confidence is low then.",
    wrong_if="r_await or w_await of the disk is as long as the call",
    check="iostat -x 1 5",
    thresholds=(
        Threshold("added_min_ms", 2.0, "a busy CPU delays a program by less"),
        Threshold("starved_min_pct", 90.0, "above, programs wait for a CPU, not for a file"),
        Threshold("starved_added_min_ms", 20.0, "longer than one scheduling delay"),
        Threshold("ops_min_per_s", 20, "a mean over fewer calls says little"),
        Threshold("late_max_pct", 50.0, "of more, the time is the program's that asks for them"),
    ),
    needs=("block",),
    probed=("syscall",),
    hold_s=4.0,
)
def time_above_disk(recent: Stretch, limits: Limits) -> Verdicts:
    """Direct reads and direct writes, where they are nearly all there is."""
    for op in ("read", "write"):
        direct = sum_op(recent, "syscall", f"{op}_direct")
        if direct.ops_per_s < limits["ops_min_per_s"] or direct.latency_us is None:
            continue
        if direct.bytes < _PURE * sum_op(recent, "syscall", op).bytes:
            continue
        if off_disk_bytes(recent, op) > direct.bytes / 10:
            continue
        late = sum_metric(recent, "syscall", f"{op}_reaped_late_per_s") or 0.0
        if late > direct.count * limits["late_max_pct"] / 100:
            continue
        pieces = (sum_metric(recent, "syscall", f"{op}_lower_ops_per_s") or 0.0) / direct.count
        device = carrier(recent, op, direct.bytes, direct.avg_bytes / max(1.0, pieces))
        if device is None or not device.sum.latency_us:
            continue
        # As if all pieces of a call went one after another: what is left is no disk's.
        below_us = max(1.0, device.sum.count / direct.count) * device.sum.latency_us
        added_us = direct.latency_us - below_us
        is_starved = _busiest_pct(recent) >= limits["starved_min_pct"]
        least_ms = limits["starved_added_min_ms" if is_starved else "added_min_ms"]
        if added_us >= least_ms * 1e3 and added_us >= below_us:
            yield _verdict(recent, op, direct, device, below_us)


def _busiest_pct(recent: Sequence[Snapshot]) -> float:
    return max((s.host.cpu_pct or 0.0 for s in recent), default=0.0)


def _verdict(
    recent: Sequence[Snapshot], op: str, direct: OpSum, device: Device, below_us: float
) -> Verdict:
    added_us = (direct.latency_us or 0.0) - below_us
    cpu = _busiest_pct(recent)
    is_starved = cpu >= 90
    limit = next(
        (r for r in rows_of(recent[-1], "block", "limit") if r.key[1] == device.name), None
    )
    evidence = [
        Evidence(
            f"{duration(direct.latency_us or 0)} a call, {duration(below_us)} in its requests",
            "latency_us",
            direct.latency_us,
            below_us,
            "probes of both layers",
        ),
        Evidence(f"CPUs {percent(cpu / 100)} busy at most", "cpu_pct", cpu),
    ]
    advice = "Something between the call and the disk holds it up: a lock of the file system, a "
    advice += "limit of its control group, or a full queue of the device (nr_requests)."
    if limit is not None:
        evidence.append(Evidence(f"control group {limit.key[0]} limits I/O to {device.name}"))
        advice = f"Control group {limit.key[0]} has a limit on {device.name}: see io_limit."
    elif is_starved:
        advice = "The CPUs are busy: a program that waits for one waits longer than for its disk."
    return Verdict(
        subject=f"{op}s {device.name}",
        confidence="high" if limit is not None else "low" if is_starved else "medium",
        cause=f"A direct {op} takes {duration(direct.latency_us or 0)}, its requests to "
        f"{device.name} only {duration(below_us)}: {duration(added_us)} "
        f"({times((direct.latency_us or 0) / below_us)} times) are added above the disk.",
        evidence=tuple(evidence),
        advice=advice,
        command=f"cat {shlex.quote(device.queue_file('nr_requests'))}; cat /proc/pressure/cpu",
    )
