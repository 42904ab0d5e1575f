"""Memory that is too small: pages go to the swap device and come back."""

from __future__ import annotations

from ioh.findings.format_sentence import percent, program, rate, size
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_metric, sum_rows
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence


@Rule(
    title="Swapping",
    layer="",
    watches="Pages swapped in while others go, and the time that programs wait for memory.",
    sources="/proc/vmstat, /proc/pressure/memory; who reads by page faults: the application's "
    "probe.",
    blind="Pages of files that are dropped and read again, which are no swap.",
    false_alarm="A program that was idle for days and wakes up comes back once.",
    wrong_if="columns si and so are 0",
    check="vmstat 1 5",
    thresholds=(
        Threshold("bytes_min_per_s", 0.5e6, "each way: less is the kernel tidying up"),
        Threshold("critical_min_pct", 30.0, "of the time lost: work hardly goes on"),
    ),
    needs=("block",),
    hold_s=2.0,
    recent_s=4.0,
)
def swapping(recent: Stretch, limits: Limits) -> Verdicts:
    """Pages that come back from swap while others go: each of them somebody waited for."""
    seconds = recent.seconds
    into, out, waited_us = (
        sum_metric(recent, "block", f"{name}_per_s") / seconds
        for name in ("swap_in_bytes", "swap_out_bytes", "memory_wait_us")
    )
    if min(into, out) < limits["bytes_min_per_s"]:
        return
    host = recent[-1].host
    lost = waited_us / 1e4
    who = _paged_in(recent, into)
    evidence = [
        Evidence(
            f"{rate(into)} swapped in and {rate(out)} out",
            "swap_in_bytes_per_s",
            into,
            limits["bytes_min_per_s"],
            "/proc/vmstat pswpin, pswpout",
        )
    ]
    if lost:
        text = f"programs wait for memory {percent(lost / 100)} of the time"
        evidence.append(
            Evidence(text, "memory_wait_us_per_s", waited_us, None, "/proc/pressure/memory")
        )
    if host.mem_available_bytes is not None and host.mem_total_bytes:
        free = f"{size(host.mem_available_bytes)} of {size(host.mem_total_bytes)} are available"
        evidence.append(Evidence(free, "mem_available_bytes", host.mem_available_bytes))
    yield Verdict(
        severity="critical" if lost >= limits["critical_min_pct"] else "warning",
        confidence="high",
        cause=f"Memory is too small: {rate(into)} come back from swap and {rate(out)} go there"
        + (f"; {who} waits for its own pages" if who else "")
        + (f", and programs lose {percent(lost / 100)} of the time to it." if lost else "."),
        evidence=tuple(evidence),
        advice="Give the programs more memory or let them use less: see each one's part, and the "
        "limit of its control group, which may be small where the machine has enough.",
        command="ps -eo pid,rss,maj_flt,args --sort=-maj_flt | head; free -m",
    )


def _paged_in(recent: Stretch, into: float) -> str:
    """Who reads most by page faults, if that is much of what is swapped in; "" of nobody."""
    sums = sum_rows(recent, "syscall", "process", ("fault_bytes_per_s",), tuple)
    most = max(sums, key=lambda key: sums[key], default=())
    if not most or sums[most] / recent.seconds < into / 4:
        return ""
    return program(most, "many programs")
