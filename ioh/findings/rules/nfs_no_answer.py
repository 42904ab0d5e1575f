"""NFS servers that answer nothing: calls are under way for seconds and none of them ends."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from ioh.findings.format_sentence import duration
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import measured
from ioh.findings.window import Stretch, rows_of
from ioh.model.finding import Evidence
from ioh.model.sample import Value
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

SPAN_S = 12.0
_PORT = ":2049"


@Rule(
    title="NFS server does not answer",
    layer="nfs_client",
    watches="READs, WRITEs and COMMITs in flight on a mount on which none completes; requests of "
    "any kind sent after a connection's last reply.",
    sources="The probe of the NFS client; /proc/self/mountstats, each connection's requests and "
    "replies; TCP's unacknowledged segments.",
    blind="Calls other than READ, WRITE and COMMIT sent in the same interval as the last reply, "
    "until the client sends another one. Calls sent before ioh started.",
    false_alarm="A server that needs so long for the request: a COMMIT of gigabytes, a file on "
    "tape. A call whose program was killed counts for 150 s.",
    wrong_if="the server answers a ping of its NFS program, and the counts of READ and WRITE rise",
    check="mountstats",
    thresholds=(
        Threshold("silent_min_s", 5.0, "the slowest disk answers within 1 s, a busy server in 2"),
    ),
    needs=("nfs_client",),
    span_s=SPAN_S,
    hold_s=0.0,
    release_s=2.0,
    recent_s=12.0,
    may_be_short=True,
)
def nfs_no_answer(recent: Stretch, limits: Limits) -> Verdicts:
    """Each server, by the mount that waits longest."""
    waits: dict[str, tuple[float, TableRow, int]] = {}
    for row in rows_of(recent[-1], "nfs_client", "mount"):
        calls, waited_s = _under_way(recent, f"{row.key[1]} on {row.key[0]}")
        if calls and row.values.get("unanswered") == 0:
            calls, waited_s = 0, 0.0  # every request that was sent has its reply
        waited_s = max(waited_s, row.values.get("silent_s") or 0.0)
        server = row.key[1].rpartition(":/")[0] or row.key[1]
        if waited_s >= limits["silent_min_s"] and waited_s > waits.get(server, (0.0,))[0]:
            waits[server] = waited_s, row, calls
    for server, (waited_s, row, calls) in waits.items():
        yield _verdict(server, waited_s, row, calls, recent[-1])


def _under_way(recent: Stretch, mount: str) -> tuple[int, float]:
    """READs, WRITEs and COMMITs under way on a mount, and for how long none has ended.

    They are the same ones as long as some are under way at each look and none ends in between.
    Calls that the probe has lost might have ended: then nothing is known.
    """
    calls = 0
    waited_s = 0.0
    layers = measured(recent, "nfs_client")
    for (_, before), (interval_s, layer) in zip(layers[-2::-1], layers[:0:-1], strict=True):
        now = _ops(layer, mount)
        if _ended(now) or not _waiting(_ops(before, mount)) or not _waiting(now):
            break
        calls = calls or _waiting(now)
        waited_s += interval_s
    if calls and any(sum(layer.lost.values()) for _, layer in layers):
        return 0, 0.0
    return calls, waited_s


def _ops(layer: LayerSnapshot, mount: str) -> Mapping[str, OpStats]:
    """Each kind of call once: no sums of several kinds."""
    found = layer.parts.get(mount, {})
    return {name: stats for name, stats in found.items() if name in layer.spec.ops}


def _ended(ops: Mapping[str, OpStats]) -> bool:
    return any(stats.count or stats.errors_per_s for stats in ops.values())


def _waiting(ops: Mapping[str, OpStats]) -> int:
    return sum(stats.inflight or 0 for stats in ops.values())


def _verdict(server: str, waited_s: float, row: TableRow, calls: int, newest: Snapshot) -> Verdict:
    kinds = (
        f"READs, WRITEs and COMMITs in flight: {calls}" if calls else "sent since the last reply"
    )
    since = duration(waited_s * 1e6)
    evidence = [
        Evidence(
            f"{kinds}; none has ended for {since} at least" if calls else f"no reply for {since}",
            "inflight" if calls else "silent_s",
            calls or waited_s,
            None,
            "probe of the NFS client" if calls else "/proc/self/mountstats, xprt:",
        )
    ]
    unanswered: Value = row.values.get("unanswered")
    if unanswered:
        evidence.append(
            Evidence(
                f"its connections have sent {unanswered:.0f} requests more than they got replies",
                "unanswered",
                float(unanswered),
                0.0,
                "/proc/self/mountstats, xprt:",
            )
        )
    evidence += _unacknowledged(newest)
    host = shlex.quote(server)
    return Verdict(
        subject=server,
        severity="critical",
        confidence="high" if calls else "medium",
        cause=f"{server} does not answer: requests for {row.key[0]} have waited for {since} at "
        f"least ({kinds}), and programs with them.",
        evidence=tuple(evidence),
        advice="The network is broken, or the server is down or stuck: check whether it answers "
        "a ping, then an empty call. A hard mount waits until it does.",
        command=f"ping -c 3 {host}; rpcinfo -t {host} nfs; ss -tion dport = :2049",
    )


def _unacknowledged(newest: Snapshot) -> Iterator[Evidence]:
    """Where TCP waits, too, it is no matter of NFS."""
    for row in rows_of(newest, "tcp", "connection"):
        waiting = row.values.get("unacked")
        if waiting and row.key[1].endswith(_PORT):
            text = f"TCP has {waiting:.0f} segments to {row.key[1]} that are not acknowledged"
            yield Evidence(text, "unacked", float(waiting), None, "TCP_INFO")
            return
