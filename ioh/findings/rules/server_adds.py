"""An NFS server that is measured with its client has most of a call's time, its disks have not."""

from __future__ import annotations

from ioh.findings.format_sentence import duration, percent
from ioh.findings.nfs_hosts import REQUESTS_A_CALL, THRESHOLDS, Calls, shares, slow_calls
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.window import Stretch
from ioh.model.finding import Evidence


@Rule(
    title="The NFS server adds the time",
    layer="nfs_client",
    watches="As network_adds: of the kind of call that takes most time, what nfsd takes itself, "
    "and its disks beside it.",
    sources="The RPC layer at the client; nfsd and the block layer at the server.",
    blind="Anything while only one end is measured. Which requests of a disk belong to which call.",
    false_alarm="Several requests one after another for each call: the disk is the cause, though "
    "each request is short.",
    wrong_if="the server's disks are busy all the time",
    check="iostat -x 1 5",
    thresholds=(*THRESHOLDS, REQUESTS_A_CALL),
    needs=("nfs_client",),
)
def server_adds(recent: Stretch, limits: Limits) -> Verdicts:
    """Each pair of hosts."""
    for calls in slow_calls(recent, limits):
        if calls.place(limits, limits[REQUESTS_A_CALL.name]) == "server":
            share, server = percent(calls.server_us / calls.rtt_us), calls.pairs[-1].server
            is_known = calls.disk_us is not None or calls.requests > 0
            yield Verdict(
                subject=calls.subject,
                confidence=calls.confidence if is_known else "low",
                cause=f"{server} takes {duration(calls.server_us)} of each {calls.op.upper()}'s "
                f"{duration(calls.rtt_us)} ({share}) for {calls.pairs[-1].client}, "
                + ("above its disks." if is_known else "its disks are not measured or idle."),
                evidence=(*shares(calls), _disks(calls)),
                advice=f"Look on {server}: CPU, memory, locks of its file system, a frozen or full "
                "one, what else it serves. Its disks and the network are not what calls wait for.",
                command="ioh text --layers nfs_server,block",
            )


def _disks(calls: Calls) -> Evidence:
    if calls.disk_us is None:
        return Evidence("no request of the server's disks", "requests", 0)
    return Evidence(
        f"the server's disks served {calls.requests:,} requests, {duration(calls.disk_us)} each",
        "disk_us",
        calls.disk_us,
        None,
        "probe of the block layer at the server",
    )
