"""The network between an NFS client and its server, both measured, has most of a call's time."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, percent
from ioh.findings.nfs_hosts import REQUESTS_A_CALL, THRESHOLDS, Calls, shares, slow_calls, wire
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.window import Stretch
from ioh.model.finding import Confidence

_TCP_SHARE = 0.2  # below that, TCP's round trip does not explain the time


@Rule(
    title="The network adds the time",
    layer="nfs_client",
    watches="READ, WRITE and COMMIT of an NFS client and of the host that serves it, measured "
    "together (--host): of the kind that takes most time, the round trip less the server's own.",
    sources="The RPC layer at the client, nfsd at the server; TCP's round trip and "
    "retransmits; the links at both ends.",
    blind="Anything while only one end is measured. The wait for a thread of nfsd and for a CPU at "
    "either end counts as network and RPC.",
    false_alarm="Large calls over a slow link: the time is that of their bytes.",
    wrong_if="avg RTT is no longer than the server's own time",
    check="nfsiostat 1 5",
    thresholds=THRESHOLDS,
    needs=("nfs_client",),
)
def network_adds(recent: Stretch, limits: Limits) -> Verdicts:
    """Each pair of hosts."""
    for calls in slow_calls(recent, limits):
        if calls.place(limits, REQUESTS_A_CALL.value) == "network":
            share = percent(calls.network_us / calls.rtt_us)
            yield Verdict(
                subject=calls.subject,
                confidence=_confidence(calls),
                cause=f"Network and RPC take {duration(calls.network_us)} of each "
                f"{calls.op.upper()}'s {duration(calls.rtt_us)} ({share}) between "
                f"{calls.pairs[-1].client} and {calls.pairs[-1].server}, the server "
                f"{duration(calls.server_us)}.",
                evidence=(*shares(calls), *wire(calls, recent[-1])),
                advice="Look at the path: distance, retransmits, a full link. If TCP's round trip "
                "is short, at nfsd's threads on the server. Larger rsize and wsize and more "
                "in flight hide a distance.",
                command="ss -ti dport = :2049",
            )


def _confidence(calls: Calls) -> Confidence:
    """High where TCP sees a long way, too, or losses; else it may be a wait at either end."""
    if not calls.is_same:
        return "low"
    newest = calls.pairs[-1]
    is_long = (newest.tcp_rtt_us or 0.0) >= _TCP_SHARE * calls.network_us
    return "high" if is_long or newest.tcp_retrans_segs_per_s else "medium"
