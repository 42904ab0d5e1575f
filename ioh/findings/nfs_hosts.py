"""NFS calls between hosts that are measured together: network, server or its disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ioh.findings.format_sentence import duration, per_s, percent
from ioh.findings.rule import Limits, Threshold
from ioh.findings.sums import OpSum, sum_op
from ioh.findings.window import Stretch, duration_s, rows_of
from ioh.model.finding import Confidence, Evidence
from ioh.model.hist import LatencyHist, add_hists
from ioh.model.pairs import OPS
from ioh.model.rates import weighted_mean
from ioh.model.snapshot import Pair, PairOp, Snapshot

_SAME_CALLS = 0.1  # so far apart may both ends' counts be in 5 s
# What a server asks its disks for while it serves such a call.
_DISK_OPS = {"read": ("read",), "write": ("write", "flush"), "commit": ("write", "flush")}
THRESHOLDS = (
    Threshold("rtt_min_ms", 2.0, "faster calls are fine"),
    Threshold("share_min_pct", 50.0, "the larger part is the one to look at"),
    Threshold("calls_min_per_s", 5, "25 in 5 s; a long distance allows few"),
)
REQUESTS_A_CALL = Threshold(
    "requests_a_call_min",
    0.5,
    "with fewer, most calls reach no disk, so it is not what they wait for",
)
Place = Literal["network", "server", "disk"]


@dataclass(frozen=True, slots=True)
class Calls:
    """One kind of call from a client to a server, over several intervals.

    Units:
        ``calls`` and ``served`` as either end counted them; means of a call in µs.
        ``disk_us`` is the mean time of a request of the server's disks (of all who use them),
        ``requests`` their number; None and 0 where its block layer is not measured.
    """

    pairs: tuple[Pair, ...]
    op: str
    calls: int
    served: int
    rtt_us: float
    server_us: float
    disk_us: float | None
    requests: int

    @property
    def network_us(self) -> float:
        """What is left for the network, and for RPC at both ends."""
        return self.rtt_us - self.server_us

    @property
    def network(self) -> LatencyHist | None:
        """What it was of each call that both ends timed; None where an end samples none."""
        known = [pair.ops[self.op].network for pair in self.pairs]
        hists = [hist for hist in known if hist is not None]
        return add_hists(hists) if hists else None

    @property
    def subject(self) -> str:
        """Whose calls to whom."""
        return f"{self.pairs[-1].client} from {self.pairs[-1].server}"

    @property
    def confidence(self) -> Confidence:
        """Low where both ends did not count the same calls."""
        return "high" if self.is_same else "low"

    @property
    def is_same(self) -> bool:
        """Whether both ends counted the same calls, but for those under way."""
        return abs(self.calls - self.served) <= _SAME_CALLS * self.calls

    def place(self, limits: Limits, requests_a_call: float) -> Place | None:
        """Who has most of a call's time."""
        share = limits["share_min_pct"] / 100
        if self.network_us >= share * self.rtt_us:
            return "network"
        if self.server_us < share * self.rtt_us:
            return None
        reaches_disk = self.requests >= requests_a_call * self.calls
        is_disk = self.disk_us is not None and self.disk_us >= share * self.server_us
        return "disk" if reaches_disk and is_disk else "server"


def is_known_to_both(recent: Sequence[Snapshot], op: str) -> bool:
    """Whether the server's time of such calls was measured at the server itself."""
    return any(
        (known := pair.ops.get(op)) is not None and known.network_us is not None
        for snapshot in recent
        for pair in snapshot.pairs
    )


def slow_calls(recent: Stretch, limits: Limits) -> Iterator[Calls]:
    """Of each pair of hosts the kind of call that takes most time, if that is slow."""
    by_server: dict[str, list[Pair]] = {}
    for snapshot in recent:
        for pair in snapshot.pairs:
            by_server.setdefault(pair.server, []).append(pair)
    for pairs in by_server.values():
        found = [calls for op in OPS if (calls := _calls(pairs, op)) is not None]
        if found:
            worst = max(found, key=lambda calls: calls.calls * calls.rtt_us)
            is_often = worst.calls / duration_s(recent) >= limits["calls_min_per_s"]
            if is_often and worst.rtt_us >= limits["rtt_min_ms"] * 1e3:
                yield worst


def _calls(pairs: Sequence[Pair], op: str) -> Calls | None:
    """One kind of call; None where either end does not know its time."""
    known = [
        (pair, stats)
        for pair in pairs
        if (stats := pair.ops.get(op)) is not None
        # An interval that only one end counted a call in belongs to the one before or after.
        and (stats.client_calls == 0 or stats.rtt_us is not None)
        and (stats.server_calls == 0 or stats.server_us is not None)
    ]
    calls, served = (sum(_count(s, name) for _, s in known) for name in ("client", "server"))
    if not calls or not served:
        return None
    rtt_us = sum(_count(s, "client") * (s.rtt_us or 0.0) for _, s in known) / calls
    server_us = sum(_count(s, "server") * (s.server_us or 0.0) for _, s in known) / served
    if server_us > rtt_us:  # these are not the same calls
        return None
    there = [pair.there for pair, _ in known if pair.there is not None]
    sums = [sum_op(there, "block", name) for name in _DISK_OPS[op]]
    requests = sum(each.count for each in sums)
    return Calls(
        tuple(pair for pair, _ in known),
        op, calls, served, rtt_us, server_us, _mean_us(sums), requests,
    )  # fmt: skip


def _count(stats: PairOp, end: str) -> int:
    return (stats.client_calls if end == "client" else stats.server_calls) or 0


def _mean_us(sums: Sequence[OpSum]) -> float | None:
    return weighted_mean((each.count, each.latency_us) for each in sums)


def shares(calls: Calls) -> Iterator[Evidence]:
    """What each finding of a pair rests on."""
    yield Evidence(
        f"{calls.op.upper()}: round trip {duration(calls.rtt_us)}, of which the server "
        f"{duration(calls.server_us)}, network and RPC {duration(calls.network_us)} "
        f"({percent(calls.network_us / calls.rtt_us)})",
        "network_us",
        calls.network_us,
        None,
        "probes of the RPC layer at the client and of nfsd at the server",
    )
    if (matched := calls.network) is not None and matched.total:
        p50_us, p99_us = matched.percentiles_us((0.5, 0.99))
        most = "" if p99_us is None else f", of 1 in 100 {duration(p99_us)} or more"
        if p50_us is not None:
            text = f"of {matched.total:,} calls timed at both ends the network has "
            text += f"{duration(p50_us)} at the median{most}"
            yield Evidence(text, "network_p99_us", p99_us, None, "the same calls, by their XIDs")
    if calls.is_same:
        text = f"{calls.calls:,} calls, counted by both ends"
    else:
        text = f"the client counted {calls.calls:,} calls, the server {calls.served:,}"
    yield Evidence(text, "client_calls", calls.calls, calls.served)


def wire(calls: Calls, here: Snapshot) -> Iterator[Evidence]:
    """What TCP and the links say."""
    newest = calls.pairs[-1]
    if newest.tcp_rtt_us is not None:
        text = f"TCP's smoothed round trip is {duration(newest.tcp_rtt_us)}"
        yield Evidence(text, "tcp_rtt_us", newest.tcp_rtt_us, None, "TCP_INFO")
    for what, name in (("calls", "retransmits_per_s"), ("segments", "tcp_retrans_segs_per_s")):
        rates = [rate for pair in calls.pairs if (rate := getattr(pair, name)) is not None]
        if rates:
            rate = sum(rates) / len(rates)
            yield Evidence(f"{per_s(rate)} {what} a second sent again", name, rate)
    for host, snapshot in ((newest.client, here), (newest.server, newest.there)):
        used = _busiest_link(snapshot) if snapshot is not None else None
        if used is not None:
            text = f"{host}: link {used[0]} is used by {percent(used[1] / 100)}"
            yield Evidence(text, "in_used_pct", used[1], None, "/proc/net/dev")


def _busiest_link(snapshot: Snapshot) -> tuple[str, float] | None:
    """The interface that is used most, of those whose speed is known."""
    used = [
        (share, row.key[0])
        for row in rows_of(snapshot, "tcp", "interface")
        for name in ("in_used_pct", "out_used_pct")
        if (share := row.values.get(name)) is not None
    ]
    return max(used)[::-1] if used else None
