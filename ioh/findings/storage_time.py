"""How much of a synchronous call's time the storage can have: no device is blamed for the rest."""

from __future__ import annotations

from collections.abc import Callable

from ioh.findings.format_sentence import duration, percent
from ioh.findings.io_limits import IoLimit, io_limits
from ioh.findings.sums import OpSum, cpu_pct, increase, sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence

_COMMAND = "cat /proc/pressure/cpu; top -b -n 1 | head -20"
_ADVICE = (
    "A faster device would not help. Check which programs use the CPUs, and what else the calls "
    "wait for: a lock, the file system's journal."
)
# A file system writes data and journal one after another, then flushes; NFS has WRITE and COMMIT.
_STEPS = (
    (("block", "write", 2), ("block", "flush", 1)),
    (("nfs_client", "write", 1), ("nfs_client", "commit", 1)),
)


def storage_us(recent: RecentIntervals, of: Callable[[OpSum], float | None]) -> float | None:
    """The time of a sync's requests, one after another, on disks or NFS; None without any.

    ``of``: the mean or a percentile of one kind of request, in us.
    """
    sums_us = []
    for steps in _STEPS:
        sums = [(sum_op(recent, layer, op), times) for layer, op, times in steps]
        parts_us = [times * (of(total) or 0.0) for total, times in sums if total.count]
        sums_us += [sum(parts_us)] if parts_us else []
    return max(sums_us, default=None)


def reached_write_limit(recent: RecentIntervals) -> IoLimit | None:
    """A control group's limit on writes that its device has reached."""
    return next(
        (each for each in io_limits(recent) if each.op == "write" and each.is_reached()), None
    )


def what_is_above(recent: RecentIntervals) -> tuple[str, str]:
    """Advice and command if most of the time is above the storage."""
    limit = reached_write_limit(recent)
    if limit is None:
        return _ADVICE, _COMMAND
    group, device = limit.row.key[:2]
    advice = f"A faster device would not help: control group {group} limits the writes of {device} "
    return advice + "(see io_limit). Raise the limit, or accept that they wait.", limit.command


def above_storage(recent: RecentIntervals, calls: float) -> tuple[Evidence, ...]:
    """What is known of the rest of the time of so many synchronous calls."""
    names = ("sync_cpu_wait_ns", "write_waited_cpu_wait_ns")
    waited_us = sum(increase(recent, "syscall", name) for name in names) / 1e3 / max(1.0, calls)
    evidence = []
    if waited_us:
        text = f"each waits {duration(waited_us)} for a CPU"
        evidence.append(
            Evidence(text, names[0], waited_us, None, "probe: run_delay of the threads")
        )
    busy_pct = cpu_pct(recent)
    if busy_pct is not None:
        evidence.append(Evidence(f"CPUs {percent(busy_pct / 100)} busy", "cpu_pct", busy_pct))
    return tuple(evidence)
