"""A disk at its limit: requests wait longer than they are served."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ioh.findings.devices import Device, bottom
from ioh.findings.format_sentence import duration, per_s, times
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.window import Stretch, op_of, rows_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import Snapshot


@Rule(
    title="Saturated disk",
    layer="block",
    watches="Time in the queue (accepted to issued) compared with service time (issued to "
    "completed).",
    sources="The block probe; nr_requests from sysfs.",
    blind="Queues inside the device: an NVMe disk accepts everything at once and becomes slow "
    "itself. I/O that waits for a free request (nr_requests) is not accepted yet (see "
    "time_above_disk).",
    false_alarm="A burst of write-back queues for a moment; the rule waits until it lasts.",
    wrong_if="aqu-sz is below 1, or the requests take as long when they come one at a time",
    check="iostat -x 1 5",
    thresholds=(
        Threshold("ratio_min", 0.5, "requests wait half as long as they are served, or longer"),
        Threshold("queue_min_ms", 2.0, "shorter waits do no harm"),
        Threshold(
            "lasting_min_pct", 60.0, "of the intervals; a burst of write-back is in only one"
        ),
        Threshold("ops_min_per_s", 50, "smaller loads are ignored"),
    ),
    probed=("block",),
    hold_s=4.0,
)
def saturation(recent: Stretch, limits: Limits) -> Verdicts:
    """Each device whose queue is longer than its service, and stays so."""
    for op in ("read", "write"):
        for device in bottom(recent, op):
            total = device.sum
            if total.ops_per_s < limits["ops_min_per_s"]:
                continue
            if total.queue_us is None or total.latency_us is None:
                continue
            service_us = total.latency_us - total.queue_us
            if total.queue_us < limits["queue_min_ms"] * 1e3:
                continue
            if total.queue_us < limits["ratio_min"] * service_us:
                continue
            if _waiting_share(recent, op, device.name, limits) * 100 >= limits["lasting_min_pct"]:
                yield _verdict(recent, op, device, service_us)


def _waiting_share(recent: Sequence[Snapshot], op: str, device: str, limits: Limits) -> float:
    """The share of the intervals in which requests waited at all long: one burst is in one."""
    stats = [op_of(snapshot, "block", op, device) for snapshot in recent]
    least_us = limits["queue_min_ms"] * 1e3 / 2
    return sum(1 for x in stats if x is not None and (x.queue_us or 0.0) >= least_us) / len(recent)


def _verdict(recent: Sequence[Snapshot], op: str, device: Device, service_us: float) -> Verdict:
    total = device.sum
    depth = total.ops_per_s * (total.latency_us or 0) / 1e6
    top = [row.key for row in rows_of(recent[-1], "block", "process")[:3]]
    who = ", ".join(f"{comm}[{pid}]" for pid, comm in top) or "not known"
    room = device.setting("queue_depth_limit")
    full = f" of {room:.0f}" if room else ""
    return Verdict(
        subject=f"{op}s {device.name}",
        confidence="high",
        cause=f"{device.name} is saturated: {op}s wait {duration(total.queue_us or 0)} in the "
        f"queue for {duration(service_us)} of service, with {times(depth)}{full} in flight at "
        f"{per_s(total.ops_per_s)} a second.",
        evidence=(
            Evidence(
                f"queue {duration(total.queue_us or 0)}, service {duration(service_us)}",
                "queue_us",
                total.queue_us,
                service_us,
                "probe of the block layer: accepted, issued, completed",
            ),
            Evidence(f"busiest submitters: {who}"),
        ),
        advice="More load makes it slower, not faster: spread it over more disks, or have less in "
        "flight.",
        command=f"cat {shlex.quote(device.queue_file('nr_requests'))} "
        f"{shlex.quote(device.queue_file('scheduler'))}",
    )
