"""A control group that has reached its I/O limit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ioh.findings.devices import devices
from ioh.findings.rule import Limits, Rule, Threshold, Verdict
from ioh.findings.window import Window, rows_of
from ioh.findings.words import per_s, percent, rate
from ioh.model.finding import Evidence

SPAN_S = 5.0


def judge(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Each limit whose device carries just as much as it allows."""
    recent = window.recent(SPAN_S)
    rows = rows_of(window.newest, "block", "limit")
    if not rows or not window.covers(SPAN_S):
        return
    for op in ("read", "write"):
        done = {device.name: device.sum for device in devices(recent, op)}
        for row in rows:
            total = done.get(row.key[1])
            if total is None:
                continue
            for unit, value, say in (
                ("bytes", total.bytes_per_s, rate),
                ("ops", total.ops_per_s, per_s),
            ):
                limit = row.values.get(f"{op}_limit_{unit}_per_s")
                if (
                    not limit
                    or not limits["used_min_pct"] <= value / limit * 100 <= (limits["used_max_pct"])
                ):
                    continue
                what = say(limit) if unit == "bytes" else f"{say(limit)} {op}s a second"
                yield Verdict(
                    subject=f"{op}s {row.key[0]} {row.key[1]}",
                    severity="warning",
                    confidence="medium",
                    cause=f"{row.key[1]} carries {percent(value / limit)} of what control group "
                    f"{row.key[0]} may {op} ({what}): the limit sets the speed, not the disk.",
                    evidence=(
                        Evidence(
                            f"limit {what}, measured {say(value)}",
                            f"{op}_{unit}_per_s",
                            value,
                            limit,
                            "io.max, or blkio.throttle of version 1",
                        ),
                    ),
                    advice="Raise the limit (of a systemd unit by systemctl set-property), or "
                    f"accept that {op}s wait: nothing is wrong with the disk.",
                    # systemd's names have backslashes, and anybody's may have anything.
                    command=f"grep . {shlex.quote(f'/sys/fs/cgroup{row.key[0]}/io.max')} "
                    f"{shlex.quote(f'/sys/fs/cgroup/blkio{row.key[0]}')}"
                    f"/blkio.throttle.{op}_*_device",
                )


RULE = Rule(
    name="io_limit",
    title="I/O limit of a control group",
    layer="block",
    judge=judge,
    watches="Devices on which a control group has a limit, and whether they carry just that much.",
    sources="/sys/fs/cgroup: io.max, or blkio.throttle.* of version 1, read every 30 s.",
    blind="Limits that parents inherit by weight (io.weight, io.latency, io.cost); which group's "
    "I/O it is, when several use the device.",
    false_alarm="A device that several groups use may carry that much by chance.",
    thresholds=(
        Threshold("used_min_pct", 90.0, "below, there is room left"),
        Threshold("used_max_pct", 110.0, "above, somebody without the limit uses the device"),
    ),
    needs=("block",),
    hold_s=4.0,
)
