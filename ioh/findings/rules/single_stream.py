"""One operation at a time: the rate is limited to 1 / latency, whatever the disk can do."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, per_s, percent, program, times
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.sums import OpSum, increase, increases, measured, sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence

_NAMES = {
    "read_buffered": "read",
    "read_direct": "direct read",
    "write_direct": "direct write",
    "write_sync": "synchronous write",
}


@Rule(
    title="One I/O at a time",
    layer="syscall",
    watches="Direct and synchronous calls, and buffered reads of data that is not in memory: how "
    "many are in flight on average (rate times mean time), and whether it is always exactly one.",
    sources="The probe of calls.",
    blind="Metadata calls (find, du: see metadata_bound), and page faults, which are not calls. "
    "One thread among others that do I/O: the named process is the busiest.",
    false_alarm="A program that needs each result before its next request has no choice: then "
    "only latency counts.",
    wrong_if="aqu-sz of the disk is well above 1 at that time, or a second thread adds nothing",
    check="iostat -x 1 5",
    thresholds={
        "depth_min": (
            0.9,
            "below this, the program is sometimes idle; above 2 minus this, more are in flight",
        ),
        "uncached_min_pct": (50.0, "of buffered reads; the others come from memory"),
        "latency_min_us": (200, "faster storage keeps a single thread busy"),
        "ops_min_per_s": (50, "smaller loads are ignored"),
        "starved_min_pct": (90.0, "above this, a program may wait for a CPU, not for storage"),
    },
    probed=("syscall",),
    yields_to=("holes", "io_limit", "maintenance"),
    hold_s=2.0,
    recent_s=7.0,
)
def single_stream(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check for calls that wait for storage, with always exactly one in flight."""
    least = limits["depth_min"]
    for op, name in _NAMES.items():
        total = sum_op(recent, "syscall", op)
        if total.ops_per_s < limits["ops_min_per_s"] or total.latency_us is None:
            continue
        if total.latency_us < limits["latency_min_us"] or not least <= total.depth <= 2 - least:
            continue
        if not _is_alone(recent, op):
            continue
        if op == "read_buffered" and not _reach_storage(recent, limits):
            continue
        top = next(iter(recent[-1].rows("syscall", "process")), None)
        who = program(top.key, "one thread") if top is not None else "one thread"
        waits_us = _storage_us(recent, op, total)
        cpu_pct = sum(s.host.cpu_pct or 0.0 for s in recent) / len(recent)
        why, command = ", which is not the storage's maximum.", ""
        advice = "For more throughput, keep several in flight (threads, io_uring) or use larger "
        advice += "I/O. In a throughput benchmark, raise numjobs or iodepth."
        is_starved = cpu_pct >= limits["starved_min_pct"]
        if is_starved and waits_us is not None and waits_us < total.latency_us / 2:
            why = f". The storage takes only {duration(waits_us)} of that: the CPUs are "
            why += f"{percent(cpu_pct / 100)} busy, and the program waits for one."
            advice = "Give it a CPU first: check which programs use the CPUs, and their priority."
            command = "top -b -n 1 | head -20; cat /proc/pressure/cpu"
        pace = f"{per_s(total.ops_per_s)} a second"
        text = f"{times(total.depth)} in flight on average ({pace} of {duration(total.latency_us)})"
        source = "probe of calls: rate times mean time (Little's law)"
        yield Verdict(
            subject=op,
            ways=ways_of(op),
            severity="info",
            confidence="high",
            cause=f"{who} has only one {name} in flight at a time: {pace} is "
            f"1 / {duration(total.latency_us)}{why}",
            evidence=(Evidence(text, "avg_inflight", total.depth, 1.0, source),),
            advice=advice,
            command=command,
        )


def _storage_us(recent: RecentIntervals, op: str, total: OpSum) -> float | None:
    """Time of a call's requests, one after another; None if no disk had any."""
    kind = op.partition("_")[0]
    below = sum_op(recent, "block", kind).latency_us
    requests = increase(recent, "syscall", f"{kind}_lower_ops")
    return None if below is None else below * max(1.0, requests / total.count)


def _reach_storage(recent: RecentIntervals, limits: Limits) -> bool:
    """Whether most of the buffered reads waited for a disk or a server, not for memory."""
    calls, cached = increases(recent, "syscall", "read_calls", "read_calls_cached")
    return calls > 0 and (calls - cached) / calls >= limits["uncached_min_pct"] / 100


def _is_alone(recent: RecentIntervals, op: str) -> bool:
    """Whether each sample has at most one in flight, most have one, and no other op is in flight.

    A mean of one could also be an average over many and none.
    """
    looks = [
        {
            name: layer.ops[name].inflight or 0
            for name in {*layer.spec.ops, "read_buffered"}  # its kinds are not known in flight
            if name in layer.ops
        }
        for _, layer in measured(recent, "syscall")
    ]
    own = [look.get(op, 0) for look in looks]
    others = sum(
        value for look in looks for name, value in look.items() if name not in {op, "fault_read"}
    )
    return bool(own) and max(own) <= 1 and sum(own) >= 0.7 * len(own) and not others
