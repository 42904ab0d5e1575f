"""Calls that the NFS client sent more than once: no reply came in time, or the connection broke."""

from __future__ import annotations

from operator import itemgetter

from ioh.findings.format_sentence import per_s
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_rows
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence

SPAN_S = 10.0


@Rule(
    title="NFS retransmits",
    layer="nfs_client",
    watches="Calls that were transmitted more than once, by server.",
    sources="/proc/self/mountstats: each procedure's transmissions, operations and timeouts.",
    blind="A call counts when it has completed: while a server is gone, nothing is reported here "
    "(see nfs_no_answer). What TCP retransmits below is not a second call (see tcp_retransmits).",
    false_alarm="A restarted server: its clients send again what it had not answered.",
    wrong_if="column retrans stands still",
    check="nfsstat -rc",
    thresholds=(Threshold("again_min", 3, "in 10 s; healthy mounts have none for days"),),
    needs=("nfs_client",),
    span_s=SPAN_S,
    hold_s=0.0,
    recent_s=10.0,
    may_be_short=True,
)
def nfs_retransmits(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server."""
    again, given_up = (
        sum_rows(recent, "nfs_client", "server", (f"{what}_per_s",), itemgetter(0))
        for what in ("retransmits", "timeouts")
    )
    for server, count in again.items():
        if count < limits["again_min"] * 0.99:  # a sum of rates is a whole number but for rounding
            continue
        seconds = recent.seconds
        major = f", {given_up[server]:.0f} of them after a major timeout" * (given_up[server] >= 1)
        yield Verdict(
            subject=server,
            confidence="high",
            cause=f"Calls to {server} were retransmitted {count:.0f} times within "
            f"{seconds:.0f} s{major}: no reply came within the mount's timeo, or the connection "
            "broke. Each of them waited that long.",
            evidence=(
                Evidence(
                    f"{per_s(count / seconds)} retransmissions of whole calls a second",
                    "retransmits_per_s",
                    count / seconds,
                    None,
                    "/proc/self/mountstats: transmissions less operations",
                ),
            ),
            advice="Packets are lost, or the server does not answer: check TCP retransmits and "
            "the server's load. Over TCP, timeo=600 (60 s) is right; a smaller value repeats "
            "calls that a busy server already has.",
            command="nfsstat -m; mountstats -r; ss -tion dport = :2049",
        )
