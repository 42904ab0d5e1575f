"""Probes that lost too many events: then all numbers of their layer are too small."""

from __future__ import annotations

from ioh.findings.format_sentence import percent
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import measured
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence

_LESS = "This layer's numbers are lower bounds. Measure less at a time (--pid, --comm, --device)."
_ADVICE = {
    "aio_unseen": "A program reads libaio completions directly from the ring, where no probe sees "
    "them. For this program, use the numbers of layer block.",
    "uring_unseen": "A program requests no io_uring completions (IOSQE_CQE_SKIP_SUCCESS), or its "
    "ring is too small for them. For this program, use the numbers of layer block.",
    "unseen": "The kernel completed requests without running the probe. The counts and bytes of "
    "/proc/diskstats (iostat -x 1) are complete.",
    "recursion": "The kernel preempted the probe and skipped it for other tasks of that CPU: this "
    "layer's numbers are lower bounds. System calls on Linux 7: mount tracefs, so that ioh can use "
    "trace events. NFS: mountstats and /proc/net/rpc/nfsd are complete.",
}


@Rule(
    title="Events lost",
    layer="",
    watches="The share of events that each layer's probe saw but could not count.",
    sources="The probes' own counters of losses, by reason.",
    blind="Events that a probe never saw, except in layer block, which is compared with diskstats.",
    false_alarm="Operations in flight when ioh attached are lost once, not for seconds.",
    wrong_if="the counts agree with the kernel's own within 1 %",
    check="iostat -x 1 5",
    thresholds={
        "lost_min_pct": (1.0, "below this, means and rates are accurate to two digits"),
        "lost_min": (50, "a few events in a nearly idle second mean little"),
    },
    recent_s=3.0,
    may_be_short=True,
)
def losses(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each layer's share of lost events."""
    for name, layer in recent[-1].measured.items():
        if not sum(layer.lost.values()):
            continue
        intervals = [interval for _, interval in measured(recent, name)]
        lost = sum(sum(x.lost.values()) for x in intervals)
        events = sum(x.ops[op].count or 0 for x in intervals for op in x.spec.ops if op in x.ops)
        share, least = lost / (lost + events), limits["lost_min_pct"]
        if share * 100 < least or lost < limits["lost_min"]:
            continue
        reasons = ", ".join(f"{reason} {count}" for reason, count in layer.lost.items() if count)
        text = f"lost {percent(share)} of the layer's events ({reasons})"
        yield Verdict(
            subject=name,
            layer=name,
            confidence="high",
            cause=f"ioh lost {lost:,} of {lost + events:,} events of layer {layer.spec.title} "
            f"({percent(share)}): its counts and rates are too small by that share.",
            evidence=(Evidence(text, "lost_pct", share * 100, least, "ioh's own probe"),),
            advice=_ADVICE.get(max(layer.lost, key=lambda reason: layer.lost[reason]), _LESS),
            command="ioh doctor",
        )
