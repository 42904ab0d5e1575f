"""A disk that takes long for each request although few are waiting."""

from __future__ import annotations

import re
import shlex

from ioh.findings.devices import bottom
from ioh.findings.format_sentence import duration, per_s, size, times
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence

_REAL_DISK = re.compile(r"sd|hd|nvme")  # what may have a SMART log


@Rule(
    title="Slow disk",
    layer="block",
    watches="Service time (issue to completion) of each device while few requests are in flight, "
    "less the time of the transfer.",
    sources="The block probe's queue and service time; without BPF /proc/diskstats' mean.",
    blind="Whether it is the disk, the array or the hypervisor.",
    false_alarm="A rotating disk needs 5 to 9 ms for a random read, and some 15 ms when it also "
    "writes; a sleeping disk needs seconds, once.",
    wrong_if="r_await and w_await are low while aqu-sz is below 1",
    check="iostat -x 1 5",
    thresholds=(
        Threshold("read_min_ms", 20.0, "twice what the slowest healthy disks (7,200 rpm) need"),
        Threshold("write_min_ms", 30.0, "write caches answer at once; a burst may fill them"),
        Threshold("depth_max", 4.0, "with more in flight it is a queue (see saturation)"),
        Threshold("ops_min_per_s", 10, "a mean over fewer requests says little"),
        Threshold("transfer_bytes_per_s", 100e6, "what a rotating disk transfers"),
    ),
    needs=("block",),
    hold_s=4.0,
)
def slow_disk(recent: Stretch, limits: Limits) -> Verdicts:
    """Each device's reads and writes: service time at a low depth, less the transfer itself."""
    for op in ("read", "write"):
        for device in bottom(recent, op):
            total = device.sum
            if total.ops_per_s < limits["ops_min_per_s"] or total.latency_us is None:
                continue
            service_us = total.latency_us - (total.queue_us or 0.0)
            node = shlex.quote(device.node)
            transfer_us = total.avg_bytes / limits["transfer_bytes_per_s"] * 1e6
            depth = total.ops_per_s * total.latency_us / 1e6
            if depth > limits["depth_max"]:
                continue
            if service_us - transfer_us < limits[f"{op}_min_ms"] * 1e3:
                continue
            yield Verdict(
                subject=f"{op}s {device.name}",
                confidence="high" if device.sum.queue_us is not None else "medium",
                cause=f"{device.name} takes {duration(service_us)} for a {op} of "
                f"{size(total.avg_bytes)} with {times(depth)} in flight: the disk itself is slow "
                "(an SSD needs 0.1 to 1 ms, a rotating disk 5 to 15).",
                evidence=(
                    Evidence(
                        f"{duration(service_us)} from issue to completion, "
                        f"{duration(total.queue_us or 0)} in the queue before",
                        "service_us",
                        service_us,
                        limits[f"{op}_min_ms"] * 1e3,
                        "probe of the block layer",
                    ),
                    Evidence(f"{per_s(total.ops_per_s)} {op}s a second", "ops_per_s"),
                ),
                advice="Neither the application nor the file system adds it: look at the disk, "
                "the array behind it or the hypervisor's storage.",
                command=f"smartctl -a {node}"
                if _REAL_DISK.match(device.name)
                else f"lsblk -o NAME,SIZE,TYPE,MODEL,PKNAME {node}   # what it lies on",
            )
