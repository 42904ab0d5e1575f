"""A control group that has reached its I/O limit."""

from __future__ import annotations

import shlex

from ioh.findings.devices import devices
from ioh.findings.format_sentence import per_s, percent, rate
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.window import Stretch, rows_of
from ioh.model.finding import Evidence
from ioh.model.snapshot import TableRow


@Rule(
    title="I/O limit of a control group",
    layer="block",
    watches="Devices on which a control group has a limit, and whether their rate equals it.",
    sources="/sys/fs/cgroup: io.max, or blkio.throttle.* of version 1, read every 30 s.",
    blind="Limits that parents inherit by weight (io.weight, io.latency, io.cost); which group's "
    "I/O it is, when several use the device.",
    false_alarm="A device used by several groups may reach that rate by chance.",
    wrong_if="the group is never throttled: full of io.pressure stands still, or nothing waits "
    "(blkio.throttle)",
    check="cat /proc/pressure/io; grep -rs . /sys/fs/cgroup --include=io.pressure",
    thresholds=(
        Threshold("used_min_pct", 90.0, "below, the limit is not reached"),
        Threshold("used_max_pct", 110.0, "above, somebody outside the limit uses the device"),
    ),
    needs=("block",),
    hold_s=4.0,
)
def io_limit(recent: Stretch, limits: Limits) -> Verdicts:
    """Each limit whose device carries just as much as it allows."""
    rows = rows_of(recent[-1], "block", "limit")
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
                    command=_show(row, op),
                )


def _show(row: TableRow, op: str) -> str:
    """The command that shows the limit; "" where a recording does not know the version."""
    version, group = row.values.get("cgroup_version"), row.key[0]
    # systemd's names have backslashes, and anybody's may have anything.
    if version == 2:
        return f"cat {shlex.quote(f'/sys/fs/cgroup{group}/io.max')}"
    folder = shlex.quote(f"/sys/fs/cgroup/blkio{group}")
    return f"grep . {folder}/blkio.throttle.{op}_*_device" if version == 1 else ""
