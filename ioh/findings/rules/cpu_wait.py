"""Calls whose threads wait for a CPU longer than for anything else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ioh.findings.format_sentence import duration, percent, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import cpu_pct, increase
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence
from ioh.model.io_path import DIRECTIONS, META, IoPath
from ioh.model.path import paths

_ABOVE = ("syscall", "cpu_wait")  # the steps that are above the storage
_WORDS = {META: "metadata call"}
_BUSY = (
    "Find what uses the CPUs: give it less (nice, a limit of its control group), or this work more "
    "of them. Faster storage would not shorten this wait."
)
_LIMITED = (
    "There are idle CPUs, so look for what keeps these programs from them: a quota of their "
    "control group (cpu.max), or an affinity (taskset -cp PID). Faster storage would not shorten "
    "this wait."
)
_THROTTLED = "grep -rs --include=cpu.stat 'nr_throttled [^0]' /sys/fs/cgroup"


@Rule(
    title="Waiting for a CPU",
    layer="syscall",
    watches="The steps of the mean read, write, sync and metadata call (`ioh text -d path`): "
    "whether waiting for a CPU is the longest one.",
    sources="The kernel's run_delay of the calls' threads, and the probes of the layers below, "
    "over 5 s.",
    blind="io_uring and libaio, whose calls wait without a thread. What uses the CPUs.",
    false_alarm="A machine that compiles or compresses as fast as it can: the calls do wait, but "
    "they are not what is slow.",
    wrong_if="avg10 of `some` is about 0",
    check="cat /proc/pressure/cpu",
    thresholds={
        "waiting_min": (0.5, "threads on average that wait for a CPU in these calls"),
        "longest_min": (0.6, "of the intervals in which it is the longest step"),
        "slow_min_ms": (20.0, "of each call; then a warning: longer than one scheduling delay"),
        "busy_min_pct": (80.0, "below this, the CPUs are not what is short"),
    },
    probed=("syscall",),
    hold_s=4.0,
)
def cpu_wait(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each kind of call whose threads wait long enough to matter."""
    for direction in DIRECTIONS:
        name = direction if direction == "sync" else f"{direction}_waited"
        waited_s = increase(recent, "syscall", f"{name}_cpu_wait_ns") / 1e9
        if waited_s >= limits["waiting_min"] * recent.seconds:
            yield from _longest(recent, limits, direction)


def _longest(recent: RecentIntervals, limits: Limits, direction: str) -> Iterator[Verdict]:
    """Report this kind of call if most of its intervals agree."""
    both = zip(recent, recent.each(paths), strict=True)
    each_path = [(each.interval_s, by_kind.get(direction)) for each, by_kind in both]
    calls = [(seconds, path) for seconds, path in each_path if path and path.top == "syscall"]
    longest = [path for _, path in calls if path.slowest.name == "cpu_wait"]
    if not longest or len(longest) < limits["longest_min"] * len(recent):
        return
    count = sum(seconds * path.ops_per_s for seconds, path in calls)
    mean_us = sum(seconds * path.ops_per_s * path.mean_us for seconds, path in calls) / count
    steps_us = _steps_us(calls, count)
    wait_us = steps_us["cpu_wait"]
    below_us = sum(us for name, us in steps_us.items() if name not in _ABOVE)
    waiting = wait_us * count / 1e6 / recent.seconds
    if waiting < limits["waiting_min"]:
        return
    busy_pct = cpu_pct(recent)
    is_limited = busy_pct is not None and busy_pct < limits["busy_min_pct"]
    threads = f"{times(waiting)} threads wait for a CPU on average"
    yield Verdict(
        subject=direction,
        ways=(direction,),
        severity="warning" if wait_us >= limits["slow_min_ms"] * 1e3 else "info",
        confidence="high",
        cause=f"A {_WORDS.get(direction, direction)} waits {duration(wait_us)} of its "
        f"{duration(mean_us)} ({percent(wait_us / mean_us)}) for a CPU; the storage takes "
        f"{duration(below_us)}.",
        evidence=(
            Evidence(threads, "", waiting, limits["waiting_min"], "run_delay of the threads"),
            *_use(busy_pct),
        ),
        advice=_LIMITED if is_limited else _BUSY,
        command=_THROTTLED if is_limited else "ps -eo pcpu,pid,comm --sort=-pcpu | head",
    )


def _steps_us(calls: Sequence[tuple[float, IoPath]], count: float) -> dict[str, float]:
    """Each step's time in the mean of all ``count`` calls; ``calls``: seconds, and their path."""
    steps_us: dict[str, float] = defaultdict(float)
    for seconds, path in calls:
        for segment in path.segments:
            steps_us[segment.name] += seconds * path.ops_per_s * (segment.us or 0.0) / count
    return steps_us


def _use(used_pct: float | None) -> tuple[Evidence, ...]:
    if used_pct is None:
        return ()
    return (Evidence(f"CPUs {percent(used_pct / 100)} busy", "cpu_pct", used_pct),)
