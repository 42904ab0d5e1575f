"""Disks that are slow or at a limit, and latency added above them."""

from __future__ import annotations

import re
import shlex

from ioh.findings.devices import Device, bottom, carrier
from ioh.findings.format_sentence import duration, per_s, percent, rate, size, times
from ioh.findings.io_limits import USED_MAX_PCT, USED_MIN_PCT, IoLimit, io_limits
from ioh.findings.nfs import off_disk_bytes
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.sums import increase, sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence
from ioh.model.remote_disks import RemoteDisk, remote_disks

_REAL_DISK = re.compile(r"sd|hd|nvme")  # these may have a SMART log
_PURE = 0.9


@Rule(
    title="Saturated disk",
    layer="block",
    watches="Time in the queue (accepted to issued) compared with service time (issued to "
    "completed).",
    sources="The block probe; nr_requests from sysfs.",
    blind="Queues inside the device: an NVMe disk accepts everything immediately and then becomes "
    "slow itself. I/O that waits for a free request (nr_requests) is not accepted yet (see "
    "time_above_disk).",
    false_alarm="A burst of write-back queues for a moment; the rule fires only if it lasts.",
    wrong_if="aqu-sz is below 1, or requests take as long when sent one at a time",
    check="iostat -x 1 5",
    thresholds={
        "ratio_min": (0.5, "requests wait half as long as they are served, or longer"),
        "queue_min_ms": (2.0, "shorter waits are harmless"),
        "lasting_min_pct": (60.0, "of the intervals; a burst of write-back is in only one"),
        "ops_min_per_s": (50, "smaller loads are ignored"),
    },
    probed=("block",),
    hold_s=4.0,
)
def saturation(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each device for a long queue that lasts."""
    least_us = limits["queue_min_ms"] * 1e3
    for op in ("read", "write"):
        for device in bottom(recent, op):
            total = device.sum
            if total.ops_per_s < limits["ops_min_per_s"]:
                continue
            if total.queue_us is None or total.latency_us is None or total.queue_us < least_us:
                continue
            if total.queue_us < limits["ratio_min"] * total.service_us:
                continue
            # A single burst is in one interval only.
            waits = [(stats.queue_us or 0.0) >= least_us / 2 for _, stats in total.intervals]
            if sum(waits) / len(recent) * 100 >= limits["lasting_min_pct"]:
                yield _saturated(recent, op, device, total.queue_us)


def _saturated(recent: RecentIntervals, op: str, device: Device, queue_us: float) -> Verdict:
    total = device.sum
    top = [row.key for row in recent[-1].rows("block", "process")[:3]]
    who = ", ".join(f"{comm}[{pid}]" for pid, comm in top) or "not known"
    room = device.setting("queue_depth_limit")
    full = f" of {room:.0f}" if room else ""
    queue, service = duration(queue_us), duration(total.service_us)
    source = "probe of the block layer: accepted, issued, completed"
    text = f"queue {queue}, service {service}"
    files = (shlex.quote(device.queue_file(name)) for name in ("nr_requests", "scheduler"))
    return Verdict(
        subject=f"{op}s {device.name}",
        ways=ways_of(op),
        confidence="high",
        cause=f"{device.name} is saturated: {op}s wait {queue} in the queue before {service} of "
        f"service, with {times(total.depth)}{full} in flight at {per_s(total.ops_per_s)} a second.",
        evidence=(
            Evidence(text, "queue_us", total.queue_us, total.service_us, source),
            Evidence(f"busiest submitters: {who}"),
        ),
        advice="More load only makes it slower. Spread the load over more disks, or keep fewer "
        "requests in flight.",
        command=f"cat {' '.join(files)}",
    )


@Rule(
    title="Slow disk",
    layer="block",
    watches="Service time (issue to completion) of each device while few requests are in flight, "
    "minus the transfer time.",
    sources="The block probe's queue and service time; without BPF, the mean of /proc/diskstats. "
    "Of a disk behind NVMe/TCP, iSCSI or NBD, TCP's smoothed round trip to its target.",
    blind="Whether the disk, the array or the hypervisor is slow. The way to disks on any other "
    "network, such as Fibre Channel, RDMA or Ceph.",
    false_alarm="A rotating disk needs 5 to 9 ms for a random read, and about 15 ms when it also "
    "writes; a sleeping disk needs seconds, once.",
    wrong_if="r_await and w_await are low while aqu-sz is below 1",
    check="iostat -x 1 5",
    thresholds={
        "read_min_ms": (20.0, "twice what the slowest healthy disks (7,200 rpm) need"),
        "write_min_ms": (30.0, "a write cache needs far less, but a burst may fill it"),
        "depth_max": (4.0, "with more in flight, it is a queue (see saturation)"),
        "ops_min_per_s": (10, "a mean over fewer requests means little"),
        "transfer_bytes_per_s": (100e6, "throughput of a rotating disk"),
    },
    needs=("block",),
    hold_s=4.0,
)
def slow_disk(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each device's service time at a low queue depth, minus the transfer time."""
    for op in ("read", "write"):
        least_us = limits[f"{op}_min_ms"] * 1e3
        for device in bottom(recent, op):
            total = device.sum
            if total.ops_per_s < limits["ops_min_per_s"] or total.depth > limits["depth_max"]:
                continue
            transfer_us = total.avg_bytes / max(1.0, limits["transfer_bytes_per_s"]) * 1e6
            if total.latency_us is None or total.service_us - transfer_us < least_us:
                continue
            yield _slow(op, device, remote_disks(recent[-1]).get(device.name), least_us)


def _slow(op: str, device: Device, remote: RemoteDisk | None, least_us: float) -> Verdict:
    total = device.sum
    took = duration(total.service_us)
    text = f"{took} from issue to completion, {duration(total.queue_us or 0)} in the queue before"
    evidence = [
        Evidence(text, "service_us", total.service_us, least_us, "probe of the block layer"),
        Evidence(f"{per_s(total.ops_per_s)} {op}s a second", "ops_per_s"),
    ]
    why = "the disk itself is slow (an SSD needs 0.1 to 1 ms, a rotating disk 5 to 15)"
    advice = "Neither the application nor the file system adds this time: check the "
    advice += "disk, the array behind it, or the hypervisor's storage."
    node = shlex.quote(device.node)
    command = f"lsblk -o NAME,SIZE,TYPE,MODEL,PKNAME {node}   # the devices below it"
    if remote is not None:
        why, advice, command = _far(total.service_us, remote, command)
        if remote.round_trip_us is not None:
            text = f"TCP's smoothed round trip is {duration(remote.round_trip_us)}"
            evidence.append(Evidence(text, "srtt_us", remote.round_trip_us, None, "TCP_INFO"))
    elif _REAL_DISK.match(device.name):
        command = f"smartctl -a {node}"
    return Verdict(
        subject=f"{op}s {device.name}",
        ways=ways_of(op),
        confidence="high" if total.queue_us is not None else "medium",
        cause=f"{device.name} takes {took} for a {op} of {size(total.avg_bytes)} with "
        f"{times(total.depth)} in flight: {why}.",
        evidence=tuple(evidence),
        advice=advice,
        command=command,
    )


def _far(service_us: float, remote: RemoteDisk, command: str) -> tuple[str, str, str]:
    """Cause, advice and command for a disk on the network."""
    there = f"it is a remote disk ({remote.end})"
    if remote.round_trip_us is None:
        advice = "Check the way to its target, then the target's own disks."
        return f"{there}, and the network or its target is slow", advice, command
    command = f"ss -tin dst {shlex.quote(remote.end.partition(' ')[2])}"
    part = f"{duration(min(remote.round_trip_us, service_us))} of {duration(service_us)}"
    if remote.round_trip_us >= service_us / 2:
        advice = "Check the path to the target for distance, a full link and retransmits. Larger "
        advice += "requests, and more in flight, hide the latency."
        return f"{there}, and the network's round trip is {part}", advice, command
    advice = "Run ioh on the target: its block rows show whether its disks take this time."
    return f"{there}, and its target is slow: the network's round trip is {part}", advice, command


@Rule(
    title="I/O limit of a control group",
    layer="block",
    watches="Devices on which a control group has a limit, and whether their rate equals it.",
    sources="/sys/fs/cgroup: io.max, or blkio.throttle.* of version 1, read every 30 s.",
    blind="Limits by weight or latency (io.weight, io.latency, io.cost); which group does the "
    "I/O, if several use the device.",
    false_alarm="A device used by several groups may reach that rate by chance.",
    wrong_if="the group is never throttled: full in io.pressure does not grow, or no request "
    "waits (blkio.throttle)",
    check="cat /proc/pressure/io; grep -rs . /sys/fs/cgroup --include=io.pressure",
    thresholds={
        "used_min_pct": (USED_MIN_PCT, "below this, the limit is not reached"),
        "used_max_pct": (USED_MAX_PCT, "above this, I/O outside the limit uses the device"),
    },
    needs=("block",),
    hold_s=4.0,
)
def io_limit(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each limit: does its device do as much as the limit allows?"""
    for each in io_limits(recent):
        if each.is_reached(limits["used_min_pct"], limits["used_max_pct"]):
            yield _at_limit(each)


def _at_limit(each: IoLimit) -> Verdict:
    (group, device, *_), op, value, limit = each.row.key, each.op, each.value, each.limit
    what, value_text = f"{per_s(limit)} {op}s a second", per_s(value)
    if each.unit == "bytes":
        what, value_text = rate(limit), rate(value)
    text, source = f"limit {what}, measured {value_text}", "io.max, or blkio.throttle of version 1"
    return Verdict(
        subject=f"{op}s {group} {device}",
        ways=ways_of(op),
        cause=f"{op.capitalize()}s of {device} run at {percent(value / limit)} of the limit of "
        f"control group {group} ({what}): the limit sets the speed, not the disk.",
        evidence=(Evidence(text, f"{op}_{each.unit}_per_s", value, limit, source),),
        advice="Raise the limit (for a systemd unit, with systemctl set-property), or accept "
        f"that {op}s wait: nothing is wrong with the disk.",
        command=each.command,
    )


@Rule(
    title="Latency added above the disk",
    layer="syscall",
    watches="How long direct reads and writes take, compared with the time of all their requests.",
    sources="The probes of both layers, means over 5 s.",
    blind="Buffered calls, because the page cache is in between. Which lock takes the time. "
    "libaio programs that collect most of their completions late.",
    false_alarm="Busy CPUs also add time; confidence is then low. Requests in parallel do not "
    "cause one: the call is compared with the sum of their times.",
    wrong_if="r_await or w_await of the disk is as long as the call",
    check="iostat -x 1 5",
    thresholds={
        "added_min_ms": (2.0, "a busy CPU delays a program by less"),
        "starved_min_pct": (90.0, "above this, programs wait for a CPU, not for a file"),
        "starved_added_min_ms": (20.0, "longer than one scheduling delay"),
        "ops_min_per_s": (20, "a mean over fewer calls means little"),
        "late_max_pct": (50.0, "of completions collected late; above this, the program adds time"),
    },
    needs=("block",),
    probed=("syscall",),
    hold_s=4.0,
)
def time_above_disk(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check direct reads and direct writes, if nearly all calls are direct."""
    for op in ("read", "write"):
        direct = sum_op(recent, "syscall", f"{op}_direct")
        if direct.ops_per_s < limits["ops_min_per_s"] or direct.latency_us is None:
            continue
        if direct.bytes < _PURE * sum_op(recent, "syscall", op).bytes:
            continue
        if off_disk_bytes(recent, op) > direct.bytes / 10:
            continue
        late = increase(recent, "syscall", f"{op}_reaped_late")
        if late > direct.count * limits["late_max_pct"] / 100:
            continue
        pieces = increase(recent, "syscall", f"{op}_lower_ops") / direct.count
        device = carrier(recent, op, direct.bytes, direct.avg_bytes / max(1.0, pieces))
        if device is None or not device.sum.latency_us:
            continue
        # Assume that the requests of a call are sequential: the rest is certainly not the disk's.
        below_us = max(1.0, device.sum.count / direct.count) * device.sum.latency_us
        added_us = direct.latency_us - below_us
        for_cpu_us = increase(recent, "syscall", f"{op}_waited_cpu_wait_ns") / 1e3 / direct.count
        is_starved = _cpu_pct(recent) >= limits["starved_min_pct"] or for_cpu_us >= added_us / 2
        least_ms = limits["starved_added_min_ms" if is_starved else "added_min_ms"]
        if added_us >= least_ms * 1e3 and added_us >= below_us:
            yield _above(recent, op, device, below_us, is_starved=is_starved)


def _cpu_pct(recent: RecentIntervals) -> float:
    """CPU use in the busiest interval."""
    return max(s.host.cpu_pct or 0.0 for s in recent)


def _above(
    recent: RecentIntervals, op: str, device: Device, below_us: float, *, is_starved: bool
) -> Verdict:
    latency_us = sum_op(recent, "syscall", f"{op}_direct").latency_us or 0.0
    cpu = _cpu_pct(recent)
    call, requests = duration(latency_us), duration(below_us)
    text, source = f"{call} per call, {requests} in its requests", "probes of both layers"
    evidence = [
        Evidence(text, "latency_us", latency_us, below_us, source),
        Evidence(f"CPUs {percent(cpu / 100)} busy at most", "cpu_pct", cpu),
    ]
    rows = recent[-1].rows("block", "limit")
    group = next((row.key[0] for row in rows if row.key[1] == device.name), None)
    if group is not None:
        evidence.append(Evidence(f"control group {group} limits I/O to {device.name}"))
        advice = f"Control group {group} has a limit on {device.name}: see io_limit."
    elif is_starved:
        advice = "The CPUs are busy: programs wait longer for a CPU than for the disk."
    else:
        advice = "Something between the call and the disk delays it: a file system lock, "
        advice += "a limit of its control group, or a full queue of the device (nr_requests)."
    return Verdict(
        subject=f"{op}s {device.name}",
        ways=ways_of(op),
        confidence="high" if group is not None else "low" if is_starved else "medium",
        cause=f"A direct {op} takes {call}, its requests to {device.name} only {requests}: "
        f"{duration(latency_us - below_us)} is added above the disk "
        f"({times(latency_us / below_us)} times as long).",
        evidence=tuple(evidence),
        advice=advice,
        command=f"cat {shlex.quote(device.queue_file('nr_requests'))}; cat /proc/pressure/cpu",
    )
