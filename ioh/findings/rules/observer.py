"""ioh's own probes, if they take so much CPU time that they slow down what they measure."""

from __future__ import annotations

from ioh.findings.format_sentence import percent
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import increase
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence


@Rule(
    title="Cost of the probes",
    layer="",
    watches="The CPU time of ioh's probes, by layer.",
    sources="The kernel's own run time of BPF programs, counted for 0.1 s in every 10 s, and the "
    "measured cost of a trap. /proc/PID/stat of all processes, if the probes take 2 % of a core.",
    blind="What the kernel does around a program: some 50 ns an event, more in a virtual machine. "
    "Programs that take less than half a core: they wait more than they compute. CPU time of ioh "
    "itself, which delays a program only if no CPU is idle.",
    false_alarm="A program with many threads hardly notices a tenth of one core.",
    wrong_if="the load is as fast with ioh as without it",
    check="ioh doctor",
    thresholds={
        "cpu_min_pct": (10.0, "of one core; a program with one thread then loses about as much"),
        "program_min_pct": (5.0, "of the busiest program's CPU time, if it takes half a core"),
    },
    recent_s=4.0,
)
def observer(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check the CPU time of all probes together, and name the layer that costs most."""
    cost_pct = {
        name: increase(recent, name, "probe_cpu_ns") / recent.seconds / 1e7
        for name in recent[-1].measured
    }
    total_pct, least = sum(cost_pct.values()), limits["cpu_min_pct"]
    of_program = [layer.metrics.get("probe_program_pct") for layer in recent[-1].measured.values()]
    program_pct, program_least = sum(pct or 0.0 for pct in of_program), limits["program_min_pct"]
    if total_pct < least and program_pct < program_least:
        return
    dearest = max(cost_pct, key=lambda name: cost_pct[name])
    source = "kernel.bpf_stats_enabled"
    shown = {name: pct for name, pct in cost_pct.items() if pct >= 1}
    text = ", ".join(f"{name} {percent(pct / 100)}" for name, pct in shown.items())
    evidence = [Evidence(text, "probe_cpu_pct", total_pct, least, source)]
    if program_pct >= program_least:
        text = f"{percent(program_pct / 100)} of the busiest program's CPU time"
        metric = "probe_program_pct"
        evidence.append(Evidence(text, metric, program_pct, program_least, "/proc/PID/stat"))
    yield Verdict(
        subject=dearest,
        layer=dearest,
        severity="info",
        confidence="high",
        cause=f"ioh's probes take {percent(total_pct / 100)} of a core, "
        f"{percent(cost_pct[dearest] / 100)} for layer {dearest}: without them "
        "the programs that do this I/O are faster.",
        evidence=tuple(evidence),
        advice=f"Leave the layer out where a benchmark's result counts: --no-layer {dearest}, or "
        "ioh bench --watch storage. Filters (--pid, --device) make it cheaper.",
    )
