"""The disks of an NFS server that is measured with its client have most of a call's time."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, percent
from ioh.findings.nfs_hosts import REQUESTS_A_CALL, THRESHOLDS, shares, slow_calls
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence


@Rule(
    title="The NFS server's disks add the time",
    layer="nfs_client",
    watches="As network_adds: of the kind of call that takes most time, what nfsd takes itself, "
    "and how long its disks take for a request of that direction.",
    sources="The RPC layer at the client; nfsd and the block layer at the server.",
    blind="Anything while only one end is measured. Which requests of a disk belong to which call.",
    false_alarm="Others at the server keep its disks busy while these calls are served from its "
    "cache: then the disks' requests are not theirs.",
    wrong_if="await on the server is much shorter than nfsd's time for a call",
    check="iostat -x 1 5",
    thresholds=(*THRESHOLDS, REQUESTS_A_CALL),
    needs=("nfs_client",),
)
def disk_adds(recent: Stretch, limits: Limits) -> Verdicts:
    """Each pair of hosts."""
    for calls in slow_calls(recent, limits):
        if calls.place(limits, limits[REQUESTS_A_CALL.name]) == "disk" and calls.disk_us:
            client, server = calls.pairs[-1].client, calls.pairs[-1].server
            share = percent(calls.server_us / calls.rtt_us)
            yield Verdict(
                subject=calls.subject,
                confidence=calls.confidence,
                cause=f"The disks of {server} take {duration(calls.disk_us)} a request while it "
                f"serves {client}: {duration(calls.server_us)} of each {calls.op.upper()}'s "
                f"{duration(calls.rtt_us)} ({share}) are the server's.",
                evidence=(
                    *shares(calls),
                    Evidence(
                        f"{calls.requests:,} requests of {duration(calls.disk_us)} for "
                        f"{calls.calls:,} calls",
                        "disk_us",
                        calls.disk_us,
                        None,
                        "probe of the block layer at the server",
                    ),
                ),
                advice=f"Look at the findings and devices of {server}. The network is not what "
                "calls wait for.",
                command="ioh text --layers block -d top",
            )
