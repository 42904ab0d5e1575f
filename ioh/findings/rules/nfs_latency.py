"""How an NFS call's time splits into client, network and server."""

from __future__ import annotations

from collections.abc import Iterator

from ioh.findings.format_sentence import duration, percent
from ioh.findings.nfs import Threads, metric_mean, threads_of
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts, ways_of
from ioh.findings.sums import cpu_pct, increase, sum_op
from ioh.findings.window import RecentIntervals
from ioh.model.finding import Evidence
from ioh.model.nfs_wire import nfs_wire
from ioh.model.rates import weighted_mean

_SAME_CALLS = 0.2  # allowed difference between two layers' counts of the same calls in 5 s
_PATH_ADVICE = (
    "Check the path for retransmits, a full link and distance. Larger rsize and wsize, and more "
    "calls in flight, hide the latency."
)

_LOSS_ADVICE = (
    "Check the interfaces at both ends and the switch for drops and errors: cable, duplex, MTU, a "
    "full queue. A lost packet delays every call behind it on its connection."
)


@Rule(
    title="NFS latency",
    layer="nfs_client",
    watches="The parts of READ and WRITE: waiting in the client, round trip on the network, the "
    "server.",
    sources="RPC queue, round trip and execution as mountstats splits them; TCP's smoothed round "
    "trip and lost segments of the mounts' connections; the server's own time, busy threads and "
    "unread calls if it is this machine.",
    blind="Where another host's server spends its time, unless that host is measured too (see "
    "network_adds). Lost replies of a single segment: only the server knows of them.",
    false_alarm="TCP's round trip includes delayed acknowledgements of the peer, at most 40 ms, "
    "when little is sent. Reordered packets look like lost ones. If client and server are one busy "
    "machine, waiting for a CPU looks like the network.",
    wrong_if="another part of avg RTT and avg exe is the larger one",
    check="nfsiostat 1 5",
    thresholds={
        "whole_min_ms": (2.0, "faster calls are fine"),
        "added_min_ms": (2.0, "a local network adds 0.1 to 1 ms"),
        "share_min_pct": (50.0, "the larger part is the one to check"),
        "server_min_ms": (20.0, "a server's disk needs up to 15 ms"),
        "lossy_min_pct": (30.0, "of the time; one lost packet delays few calls"),
        "calls_min_per_s": (5, "25 in 5 s; a long distance allows only few"),
        "threads_waiting_min_pct": (50.0, "share of requests that wait for an nfsd thread"),
        "threads_busy_min_pct": (75.0, "share of nfsd's threads, if it does not count waits"),
        "starved_min_pct": (70.0, "CPU use above which calls may wait for a CPU at either end"),
        "starved_added_min_ms": (20.0, "longer than one scheduling delay"),
    },
    needs=("nfs_client",),
    hold_s=4.0,
    yields_to=("nfs_no_answer",),
)
def nfs_latency(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check READ and WRITE separately."""
    for op in ("read", "write"):
        calls = increase(recent, "nfs_client", f"rpc_{op}s")
        if calls / recent.seconds < limits["calls_min_per_s"]:
            continue
        queue, rtt, whole = (
            metric_mean(recent, "nfs_client", f"rpc_{op}_{part}_us", f"rpc_{op}s_per_s")
            for part in ("queue", "rtt", "execute")
        )
        if queue is None or rtt is None or not whole or whole < limits["whole_min_ms"] * 1e3:
            continue
        if _is_most(queue, whole, limits):
            yield _client(recent, op, queue, whole)
        elif not _is_known_to_both(recent, op):
            yield from _beyond(recent, op, rtt, whole, limits)


def _is_known_to_both(recent: RecentIntervals, op: str) -> bool:
    """Whether the server itself measured its time of these calls."""
    return any(
        (stats := pair.ops.get(op)) is not None and stats.network_us is not None
        for snapshot in recent
        for pair in snapshot.pairs
    )


def _is_most(part: float, whole: float, limits: Limits) -> bool:
    """Whether a part is the larger one and long enough."""
    return part >= max(limits["share_min_pct"] / 100 * whole, limits["added_min_ms"] * 1e3)


def _beyond(recent: RecentIntervals, op: str, rtt: float, whole: float, limits: Limits) -> Verdicts:
    """Verdicts about the time after sending: network or server."""
    served = _served_here_us(recent, op)
    each = f"each {op.upper()}'s {duration(whole)}"
    if served is not None:
        gap = rtt - served
        is_starved = (cpu_pct(recent) or 0.0) >= limits["starved_min_pct"]
        is_long = not is_starved or gap >= limits["starved_added_min_ms"] * 1e3
        if not is_long or not _is_most(gap, rtt, limits):
            return
        threads = threads_of(recent)
        if threads is not None and threads.are_all_busy(
            limits["threads_waiting_min_pct"], limits["threads_busy_min_pct"]
        ):
            unread = weighted_mean((1, wire.unread_us) for wire in recent.each(nfs_wire))
            yield _queue_for_threads(op, threads, gap, unread, whole)
        else:
            yield _between(recent, op, rtt, each, limits)
    else:
        yield from _there(recent, op, rtt, each, limits)


def _there(recent: RecentIntervals, op: str, rtt: float, each: str, limits: Limits) -> Verdicts:
    """Verdicts about a server on another machine."""
    wire = _network_us(recent)
    if wire is None:
        return
    if _is_most(wire, rtt, limits):
        text = f"TCP's smoothed round trip to port 2049 is {duration(wire)}"
        yield Verdict(
            subject=f"{op} network",
            ways=ways_of(op),
            cause=f"The network takes {duration(min(wire, rtt))} of {each}.",
            evidence=(Evidence(text, "srtt_us", wire),),
            advice=_PATH_ADVICE,
            command="ss -ti dport = :2049",
        )
    elif rtt < limits["server_min_ms"] * 1e3:
        return
    elif _are_packets_lost(recent, limits):
        text = f"{duration(rtt)} from sending to the reply; TCP's round trip, which leaves out "
        text += f"what is sent again, is {duration(wire)}"
        yield Verdict(
            subject=f"{op} loss",
            ways=ways_of(op),
            cause=f"Packets are lost between this client and its NFS server: {duration(rtt)} of "
            f"{each} are the network and the server, which cannot be told apart meanwhile.",
            evidence=(Evidence(text, f"rpc_{op}_rtt_us", rtt, None, "TCP_INFO"),),
            advice=_LOSS_ADVICE,
            command="ss -ti dport = :2049; ip -s link; nstat -az | grep -i -E 'retrans|ofo'",
        )
    else:
        there = rtt - wire
        text = f"{duration(there)} from sending to the reply, minus TCP's round trip"
        yield Verdict(
            subject=f"{op} server",
            ways=ways_of(op),
            cause=f"The server takes {duration(there)} of {each}: "
            "neither this client nor the network adds it.",
            evidence=(Evidence(text, f"rpc_{op}_rtt_us", there),),
            advice="Run ioh on the server: its nfs server and block rows show whether its disks "
            "or its file system take this time.",
            command="sudo ioh text",
        )


def _served_here_us(recent: RecentIntervals, op: str) -> float | None:
    """The server's own time if it is this machine, else None.

    The machine may serve one host and be a client of another.  If the connections do not tell, the
    counts of calls do.
    """
    sent, served = (sum_op(recent, layer, op) for layer in ("nfs_client", "nfs_server"))
    is_same = abs(served.count - sent.count) <= _SAME_CALLS * sent.count
    answers = {wire.is_server_local for wire in recent.each(nfs_wire)} - {None}
    is_here = answers.pop() if len(answers) == 1 else is_same
    return served.latency_us if is_here else None


def _network_us(recent: RecentIntervals) -> float | None:
    """Mean of TCP's round trip on NFS connections; None if not known."""
    return weighted_mean((1, wire.round_trip_us) for wire in recent.each(nfs_wire))


def _are_packets_lost(recent: RecentIntervals, limits: Limits) -> bool:
    """Whether it is more than a single loss, or one that was sent again without need."""
    both = zip(recent, recent.each(nfs_wire), strict=True)
    lossy_s = sum(snapshot.interval_s for snapshot, wire in both if wire.is_lossy)
    return lossy_s * 100 >= recent.seconds * limits["lossy_min_pct"]


def _client(recent: RecentIntervals, op: str, queue: float, whole: float) -> Verdict:
    rows = recent[-1].rows("nfs_client", "mount")
    connections = max((row.values.get("connections") or 1 for row in rows), default=1)
    text = f"{percent(queue / whole)} of the time before sending"
    source = "probe of the RPC layer, as in mountstats"
    many, xprt = f"{connections:.0f} connections", "/proc/self/mountstats, xprt:"
    return Verdict(
        subject=f"{op} client",
        ways=ways_of(op),
        confidence="high",
        cause=f"{op.upper()}s wait {duration(queue)} of their {duration(whole)} in this client "
        f"before they are sent: too few slots or connections ({connections:.0f}).",
        evidence=(
            Evidence(text, f"rpc_{op}_queue_us", queue, whole, source),
            Evidence(many, "connections", float(connections), None, xprt),
        ),
        advice="Give the mount more connections (nconnect), or sessions more slots "
        "(nfs.max_session_slots; for NFS v3, sunrpc.tcp_max_slot_table_entries).",
        command="findmnt -t nfs,nfs4 -o SOURCE,TARGET,OPTIONS   # umount, mount with nconnect=8",
    )


def _between(recent: RecentIntervals, op: str, rtt: float, each: str, limits: Limits) -> Verdict:
    """Both ends are this machine: the rest is the network between them, or waiting for a CPU."""
    served = _served_here_us(recent, op) or 0.0
    gap, cpu, least = rtt - served, cpu_pct(recent) or 0.0, limits["starved_min_pct"]
    is_starved = cpu >= least
    where = "Waiting for a busy CPU, or the network," if is_starved else "The network"
    text = f"{duration(gap)} from sending to the reply, minus the server's own time"
    source = "probes of the NFS client and of nfsd"
    return Verdict(
        subject=f"{op} network",
        ways=ways_of(op),
        confidence="low" if is_starved else "medium",
        cause=f"{where} takes {duration(gap)} of {each}; the server takes only {duration(served)}.",
        evidence=(
            Evidence(text, f"rpc_{op}_rtt_us", gap, None, source),
            *_round_trip(recent),
            Evidence(f"CPUs {percent(cpu / 100)} busy", "cpu_pct", cpu, least),
        ),
        advice=_PATH_ADVICE,
        command="ss -ti dport = :2049",
    )


def _queue_for_threads(
    op: str, threads: Threads, gap: float, unread: float | None, whole: float
) -> Verdict:
    """The server is this machine, and calls wait for its threads."""
    source = "/proc/fs/nfsd/pool_stats; the probe of nfsd"
    waiting = f"spend {duration(gap)} of their {duration(whole)} on the network and waiting"
    evidence = [Evidence(threads.text, "at_once_pct", None, None, source)]
    if unread is not None:
        waiting = f"wait {duration(min(unread, gap))} of their {duration(whole)}"
        text = f"calls are unread for {duration(unread)} in the server's sockets"
        evidence.append(Evidence(text, "unread_bytes", unread, None, "sock_diag"))
    return Verdict(
        subject=f"{op} threads",
        ways=ways_of(op),
        cause=f"{op.upper()}s {waiting} for one of the server's {threads.count} threads, which are "
        "all busy.",
        evidence=tuple(evidence),
        advice="Give nfsd more threads, unless the threads wait for its disks.",
        command=f"echo {threads.count * 2} > /proc/fs/nfsd/threads",
    )


def _round_trip(recent: RecentIntervals) -> Iterator[Evidence]:
    wire = _network_us(recent)
    if wire is not None:
        text = f"TCP's smoothed round trip to port 2049 is {duration(wire)}; "
        text += "a call needs several while the window is small, or after a loss"
        yield Evidence(text, "srtt_us", wire, None, "TCP_INFO")
