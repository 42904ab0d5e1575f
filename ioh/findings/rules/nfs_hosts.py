"""NFS calls between hosts measured together: is the network, the server or its disk slow?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ioh.findings.format_sentence import duration, per_s, percent
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.sums import sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Confidence, Evidence
from ioh.model.hist import LatencyHist
from ioh.model.pairs import OPS
from ioh.model.rates import weighted_mean
from ioh.model.snapshot import Pair, Snapshot

_SAME_CALLS = 0.1  # allowed difference between both ends' counts in 5 s
# Requests that a server sends to its disks for each kind of call.
_DISK_OPS = {"read": ("read",), "write": ("write", "flush"), "commit": ("write", "flush")}
_THRESHOLDS = {
    "rtt_min_ms": (2.0, "faster calls are fine"),
    "share_min_pct": (50.0, "the larger part is the one to check"),
    "calls_min_per_s": (5, "25 in 5 s; a long distance allows only few"),
}
_DISK_THRESHOLDS = {
    **_THRESHOLDS,
    "requests_a_call_min": (
        0.5,
        "with fewer, most calls reach no disk and do not wait for it",
    ),
}
_DISK_PROBE = "probe of the block layer at the server"
_TCP_SHARE = 0.2  # below this share, TCP's round trip does not explain the time
Place = Literal["network", "server", "disk"]


@dataclass(frozen=True, slots=True)
class PairCalls:
    """One kind of call from a client to a server, over several intervals.

    Units:
        ``calls`` counted by the client, ``served`` by the server; means per call in µs.
        ``disk_us`` is the mean time of a request of the server's disks (by all their users),
        ``requests`` their number; None and 0 if its block layer is not measured.  ``network`` has
        the network time of each call that both ends timed.
    """

    client: str
    server: str
    name: str  # READ, WRITE, COMMIT
    pairs: tuple[Pair, ...]
    network: LatencyHist
    calls: int
    served: int
    rtt_us: float
    server_us: float
    disk_us: float | None
    requests: int

    @property
    def network_us(self) -> float:
        """Time in the network, and in RPC at both ends: the rest of the round trip."""
        return self.rtt_us - self.server_us

    @property
    def served_share(self) -> str:
        """The server's part of the time, as text."""
        share = percent(self.server_us / self.rtt_us)
        whole = f"{self.name}'s {duration(self.rtt_us)} ({share})"
        return f"{duration(self.server_us)} of each {whole}"

    @property
    def subject(self) -> str:
        """Client and server, as text."""
        return f"{self.client} from {self.server}"

    @property
    def confidence(self) -> Confidence:
        """Low if the two ends did not count the same calls."""
        return "high" if self.is_same else "low"

    @property
    def is_same(self) -> bool:
        """Whether both ends counted the same calls, except for those in flight."""
        return abs(self.calls - self.served) <= _SAME_CALLS * self.calls

    def place(self, limits: Limits) -> Place | None:
        """Where most of a call's time is spent; None if it is not clear."""
        share = limits["share_min_pct"] / 100
        if self.network_us >= share * self.rtt_us:
            return "network"
        if self.server_us < share * self.rtt_us:
            return None
        reaches_disk = self.requests >= limits.get("requests_a_call_min", 0.0) * self.calls
        is_disk = self.disk_us is not None and self.disk_us >= share * self.server_us
        return "disk" if reaches_disk and is_disk else "server"


def _slow_calls(recent: RecentIntervals, limits: Limits, place: Place) -> Iterator[PairCalls]:
    """For each server, its kind of call with most time: if slow, frequent, and due to ``place``."""
    by_server: dict[str, list[Pair]] = {}
    for snapshot in recent:
        for pair in snapshot.pairs:
            by_server.setdefault(pair.server, []).append(pair)
    for pairs in by_server.values():
        each_op = [calls for op in OPS if (calls := _calls(pairs, op)) is not None]
        if each_op:
            worst = max(each_op, key=lambda calls: calls.calls * calls.rtt_us)
            is_often = worst.calls / recent.seconds >= limits["calls_min_per_s"]
            is_slow = worst.rtt_us >= limits["rtt_min_ms"] * 1e3
            if is_often and is_slow and worst.place(limits) == place:
                yield worst


def _calls(pairs: Sequence[Pair], op: str) -> PairCalls | None:
    """Sum up one kind of call; None if one end does not know its time."""
    timed_pairs = [
        (pair, stats)
        for pair in pairs
        if (stats := pair.ops.get(op)) is not None
        # If only one end counted a call, the other end's count is in a neighbouring interval.
        and (stats.client_calls == 0 or stats.rtt_us is not None)
        and (stats.server_calls == 0 or stats.server_us is not None)
    ]
    calls = sum(stats.client_calls or 0 for _, stats in timed_pairs)
    served = sum(stats.server_calls or 0 for _, stats in timed_pairs)
    rtt_us = weighted_mean((stats.client_calls, stats.rtt_us) for _, stats in timed_pairs)
    server_us = weighted_mean((stats.server_calls, stats.server_us) for _, stats in timed_pairs)
    if rtt_us is None or server_us is None or server_us > rtt_us:  # not the same calls
        return None
    there = [pair.there for pair, _ in timed_pairs if pair.there is not None]
    sums = [sum_op(there, "block", name) for name in _DISK_OPS[op]]
    requests = sum(each.count for each in sums)
    disk_us = weighted_mean((each.count, each.latency_us) for each in sums)
    timed = (stats.network for _, stats in timed_pairs if stats.network is not None)
    network = sum(timed, LatencyHist())
    newest = timed_pairs[-1][0]
    return PairCalls(
        newest.client, newest.server, op.upper(), tuple(pair for pair, _ in timed_pairs), network,
        calls, served, rtt_us, server_us, disk_us, requests,
    )  # fmt: skip


def _shares(calls: PairCalls) -> Iterator[Evidence]:
    """Evidence common to all findings about a pair."""
    text = f"{calls.name}: round trip {duration(calls.rtt_us)}; server "
    text += f"{duration(calls.server_us)}, network and RPC {duration(calls.network_us)} "
    text += f"({percent(calls.network_us / calls.rtt_us)})"
    source = "probes of the RPC layer at the client and of nfsd at the server"
    yield Evidence(text, "network_us", calls.network_us, None, source)
    p50_us, p99_us = calls.network.percentiles_us((0.5, 0.99))
    if p50_us is not None:
        most = "" if p99_us is None else f", {duration(p99_us)} or more for 1 in 100"
        text = f"{calls.network.total:,} calls timed at both ends: the network takes "
        text += f"{duration(p50_us)} at the median{most}"
        yield Evidence(text, "network_p99_us", p99_us, None, "the same calls, by their XIDs")
    if calls.is_same:
        text = f"{calls.calls:,} calls, counted by both ends"
    else:
        text = f"the client counted {calls.calls:,} calls, the server {calls.served:,}"
    yield Evidence(text, "client_calls", calls.calls, calls.served)


def _wire(calls: PairCalls, here: Snapshot) -> Iterator[Evidence]:
    """Evidence from TCP and the links."""
    newest = calls.pairs[-1]
    if newest.tcp_rtt_us is not None:
        text = f"TCP's smoothed round trip is {duration(newest.tcp_rtt_us)}"
        yield Evidence(text, "tcp_rtt_us", newest.tcp_rtt_us, None, "TCP_INFO")
    for what, name in (("calls", "retransmits_per_s"), ("segments", "tcp_retrans_segs_per_s")):
        rate = weighted_mean((1, getattr(pair, name)) for pair in calls.pairs)
        if rate is not None:
            yield Evidence(f"{per_s(rate)} {what} a second retransmitted", name, rate)
    for host, snapshot in ((newest.client, here), (newest.server, newest.there)):
        link = _busiest_link(snapshot) if snapshot is not None else None
        if link is not None:
            text = f"{host}: link {link[0]} is {percent(link[1] / 100)} used"
            yield Evidence(text, "in_used_pct", link[1], None, "/proc/net/dev")


def _busiest_link(snapshot: Snapshot) -> tuple[str, float] | None:
    """The most used interface with a known speed."""
    links = [
        (share, row.key[0])
        for row in snapshot.rows("tcp", "interface")
        for name in ("in_used_pct", "out_used_pct")
        if (share := row.values.get(name)) is not None
    ]
    return max(links)[::-1] if links else None


@Rule(
    title="The network takes most of the time",
    layer="nfs_client",
    watches="READ, WRITE and COMMIT of an NFS client and its server, measured together (--host): "
    "for the kind of call that takes most time, the round trip minus the server's own time.",
    sources="The RPC layer at the client, nfsd at the server; TCP's round trip and "
    "retransmits; the links at both ends.",
    blind="Everything while only one end is measured. Waiting for an nfsd thread, or for a CPU at "
    "either end, counts as network and RPC.",
    false_alarm="Large calls over a slow link: the time is needed to transfer their bytes.",
    wrong_if="avg RTT is not longer than the server's own time",
    check="nfsiostat 1 5",
    thresholds=_THRESHOLDS,
    needs=("nfs_client",),
)
def network_adds(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Each pair of hosts."""
    for calls in _slow_calls(recent, limits, "network"):
        # TCP confirms it by a long round trip or losses; else it may be a wait at either end.
        newest = calls.pairs[-1]
        is_long = (newest.tcp_rtt_us or 0.0) >= _TCP_SHARE * calls.network_us
        is_seen = is_long or newest.tcp_retrans_segs_per_s
        yield Verdict(
            subject=calls.subject,
            ways=ways_of(calls.name.lower()),
            confidence="low" if not calls.is_same else "high" if is_seen else "medium",
            cause=f"Network and RPC take {duration(calls.network_us)} of each "
            f"{calls.name}'s {duration(calls.rtt_us)} ({percent(calls.network_us / calls.rtt_us)}) "
            f"between {newest.client} and {newest.server}; the server takes "
            f"{duration(calls.server_us)}.",
            evidence=(*_shares(calls), *_wire(calls, recent[-1])),
            advice="Check the path for distance, retransmits and a full link. If TCP's round trip "
            "is short, check nfsd's threads on the server. Larger rsize and wsize, and more calls "
            "in flight, hide a long distance.",
            command="ss -ti dport = :2049",
        )


@Rule(
    title="The NFS server takes most of the time",
    layer="nfs_client",
    watches="As network_adds: for the kind of call that takes most time, nfsd's own time compared "
    "with that of its disks.",
    sources="The RPC layer at the client; nfsd and the block layer at the server.",
    blind="Everything while only one end is measured. Which disk requests belong to which call.",
    false_alarm="Several disk requests one after another for each call: the disk is the cause, "
    "although each request is short.",
    wrong_if="the server's disks are busy all the time",
    check="iostat -x 1 5",
    thresholds=_DISK_THRESHOLDS,
    needs=("nfs_client",),
)
def server_adds(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Each pair of hosts."""
    for calls in _slow_calls(recent, limits, "server"):
        is_known = calls.disk_us is not None or calls.requests > 0
        disks = Evidence("no request of the server's disks", "requests", 0)
        if calls.disk_us is not None:
            served = f"the server's disks served {calls.requests:,} requests in "
            served += f"{duration(calls.disk_us)} each"
            disks = Evidence(served, "disk_us", calls.disk_us, None, _DISK_PROBE)
        yield Verdict(
            subject=calls.subject,
            ways=ways_of(calls.name.lower()),
            confidence=calls.confidence if is_known else "low",
            cause=f"{calls.server} takes {calls.served_share} for {calls.client}, "
            + ("and not in its disks." if is_known else "and its disks are not measured or idle."),
            evidence=(*_shares(calls), disks),
            advice=f"On {calls.server}, check CPU, memory, file system locks, a frozen or full "
            "file system, and other load. The calls do not wait for its disks or the network.",
            command="ioh text --layers nfs_server,block",
        )


@Rule(
    title="The NFS server's disks take most of the time",
    layer="nfs_client",
    watches="As network_adds: for the kind of call that takes most time, nfsd's own time, and the "
    "time of its disks' requests in that direction.",
    sources="The RPC layer at the client; nfsd and the block layer at the server.",
    blind="Everything while only one end is measured. Which disk requests belong to which call.",
    false_alarm="Other programs on the server keep its disks busy while these calls are served "
    "from its cache.",
    wrong_if="await on the server is much shorter than nfsd's time for a call",
    check="iostat -x 1 5",
    thresholds=_DISK_THRESHOLDS,
    needs=("nfs_client",),
)
def disk_adds(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Each pair of hosts."""
    for calls in _slow_calls(recent, limits, "disk"):
        each = duration(calls.disk_us or 0.0)
        served = f"{calls.requests:,} requests of {each} for {calls.calls:,} calls"
        yield Verdict(
            subject=calls.subject,
            ways=ways_of(calls.name.lower()),
            confidence=calls.confidence,
            cause=f"The disks of {calls.server} take {each} per request while it serves "
            f"{calls.client}: the server takes {calls.served_share}.",
            evidence=(
                *_shares(calls),
                Evidence(served, "disk_us", calls.disk_us, None, _DISK_PROBE),
            ),
            advice=f"Check the findings and devices of {calls.server}. The calls do not wait for "
            "the network.",
            command="ioh text --layers block -d top",
        )
