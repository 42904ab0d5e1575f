"""NFS servers: unanswered calls, too few threads, READs from memory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from operator import itemgetter

from ioh.findings.format_sentence import duration, per_s, percent
from ioh.findings.nfs import threads_of
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import measured, sum_op, sum_rows
from ioh.findings.window import RecentIntervals, number
from ioh.model.finding import Evidence
from ioh.model.nfs_wire import unread_us
from ioh.model.rates import weighted_mean
from ioh.model.snapshot import LayerSnapshot, OpStats, Snapshot, TableRow

_PORT = ":2049"
_XPRT = "/proc/self/mountstats, xprt:"


@Rule(
    title="NFS retransmits",
    layer="nfs_client",
    watches="Calls that were transmitted more than once, by server.",
    sources="/proc/self/mountstats: each procedure's transmissions, operations and timeouts.",
    blind="Calls that have not completed: a call counts only then, so this rule does not fire "
    "while a server is down (see nfs_no_answer). TCP retransmits are not second calls (see "
    "tcp_retransmits).",
    false_alarm="A restarted server: its clients resend the calls it had not answered.",
    wrong_if="column retrans does not grow",
    check="nfsstat -rc",
    thresholds={
        "again_min": (3, "in 10 s; healthy mounts have none for days"),
    },
    needs=("nfs_client",),
    hold_s=0.0,
    recent_s=10.0,
    may_be_short=True,
)
def nfs_retransmits(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each server's calls that were resent for lack of a reply or a connection."""
    again, given_up = (
        sum_rows(recent, "nfs_client", "server", (f"{what}_per_s",), itemgetter(0))
        for what in ("retransmits", "timeouts")
    )
    for server, count in again.items():
        if count < limits["again_min"] * 0.99:  # 0.99: rounding in the sum of rates
            continue
        major = f", {given_up[server]:.0f} of them after a major timeout" * (given_up[server] >= 1)
        a_second = count / recent.seconds
        text = f"{per_s(a_second)} retransmissions of whole calls a second"
        source = "/proc/self/mountstats: transmissions minus operations"
        yield Verdict(
            subject=server,
            confidence="high",
            cause=f"Calls to {server} were retransmitted {count:.0f} times within "
            f"{recent.seconds:.0f} s{major}: no reply came within the mount's timeo, or the "
            "connection broke. Each of these calls waited that long.",
            evidence=(Evidence(text, "retransmits_per_s", a_second, None, source),),
            advice="Packets are lost, or the server does not answer: check TCP retransmits and "
            "the server's load. Over TCP, timeo=600 (60 s) is right; a smaller value resends "
            "calls that a busy server already has.",
            command="nfsstat -m; mountstats -r; ss -tion dport = :2049",
        )


@Rule(
    title="NFS server does not answer",
    layer="nfs_client",
    watches="READs, WRITEs and COMMITs in flight on a mount on which none completes; requests of "
    "any kind sent after a connection's last reply.",
    sources="The probe of the NFS client; /proc/self/mountstats, each connection's requests and "
    "replies; TCP's unacknowledged segments.",
    blind="Calls other than READ, WRITE and COMMIT sent in the same interval as the last reply, "
    "until the client sends another one. Calls sent before ioh started.",
    false_alarm="A request that takes the server this long: a COMMIT of gigabytes, a file on "
    "tape. A call whose program was killed counts for 150 s.",
    wrong_if="the server answers an empty call of its NFS program (rpcinfo), and the counts of "
    "READ and WRITE grow",
    check="mountstats",
    thresholds={
        "silent_min_s": (5.0, "the slowest disk answers within 1 s, a busy server in 2"),
    },
    needs=("nfs_client",),
    span_s=12.0,
    hold_s=0.0,
    release_s=2.0,
    recent_s=12.0,
    may_be_short=True,
)
def nfs_no_answer(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each server, by its mount that has waited longest."""
    waits: dict[str, tuple[float, TableRow, int]] = {}
    for row in recent[-1].rows("nfs_client", "mount"):
        calls, waited_s = _under_way(recent, f"{row.key[1]} on {row.key[0]}")
        if calls and row.values.get("unanswered") == 0:
            calls, waited_s = 0, 0.0  # every request has its reply
        waited_s = max(waited_s, number(row, "silent_s"))
        server = row.key[1].rpartition(":/")[0] or row.key[1]
        if waited_s >= limits["silent_min_s"] and waited_s > waits.get(server, (0.0,))[0]:
            waits[server] = waited_s, row, calls
    for server, (waited_s, row, calls) in waits.items():
        yield _verdict(server, waited_s, row, calls, recent[-1])


def _under_way(recent: RecentIntervals, mount: str) -> tuple[int, float]:
    """READs, WRITEs and COMMITs in flight on a mount, and for how long none has ended.

    They are the same calls if some are in flight at each sample and none ends in between.  If the
    probe lost events, calls may have ended: then the result is 0.
    """
    calls = 0
    waited_s = 0.0
    layers = measured(recent, "nfs_client")
    for (_, before), (interval_s, layer) in zip(layers[-2::-1], layers[:0:-1], strict=True):
        now = _ops(layer, mount)
        has_ended = any(stats.count or stats.errors_per_s for stats in now.values())
        if has_ended or not _waiting(_ops(before, mount)) or not _waiting(now):
            break
        calls = calls or _waiting(now)
        waited_s += interval_s
    if calls and any(sum(layer.lost.values()) for _, layer in layers):
        return 0, 0.0
    return calls, waited_s


def _ops(layer: LayerSnapshot, mount: str) -> Mapping[str, OpStats]:
    """Each kind of call once, without the groups of several kinds."""
    ops = layer.parts.get(mount, {})
    return {name: stats for name, stats in ops.items() if name in layer.spec.ops}


def _waiting(ops: Mapping[str, OpStats]) -> int:
    return sum(stats.inflight or 0 for stats in ops.values())


def _verdict(server: str, waited_s: float, row: TableRow, calls: int, newest: Snapshot) -> Verdict:
    since = duration(waited_s * 1e6)
    kinds = "sent since the last reply"
    evidence = [Evidence(f"no reply for {since}", "silent_s", waited_s, None, _XPRT)]
    if calls:
        kinds = f"READs, WRITEs and COMMITs in flight: {calls}"
        text = f"{kinds}; none has completed for at least {since}"
        evidence = [Evidence(text, "inflight", calls, None, "probe of the NFS client")]
    if unanswered := number(row, "unanswered"):
        text = f"its connections have sent {unanswered:.0f} more requests than they got replies"
        evidence.append(Evidence(text, "unanswered", float(unanswered), 0.0, _XPRT))
    host = shlex.quote(server)
    return Verdict(
        subject=server,
        severity="critical",
        confidence="high" if calls else "medium",
        cause=f"{server} does not answer: requests for {row.key[0]} have waited for at least "
        f"{since} ({kinds}), and programs wait with them.",
        evidence=(*evidence, *_unacknowledged(newest)),
        advice="The network is broken, or the server is down or stuck: check whether it answers "
        "a ping, then an empty NFS call (rpcinfo). A hard mount waits until the server answers.",
        command=f"ping -c 3 {host}; rpcinfo -t {host} nfs; ss -tion dport = :2049",
    )


def _unacknowledged(newest: Snapshot) -> Iterator[Evidence]:
    """Evidence that TCP also waits: then the problem is not in NFS."""
    for row in newest.rows("tcp", "connection"):
        waiting = number(row, "unacked")
        if waiting and row.key[1].endswith(_PORT):
            text = f"TCP has {waiting:.0f} unacknowledged segments to {row.key[1]}"
            yield Evidence(text, "unacked", float(waiting), None, "TCP_INFO")
            return


@Rule(
    title="nfsd threads all busy",
    layer="nfs_server",
    watches="Requests that find no idle thread; if the server does not count them, how many of "
    "its threads are busy at each sample.",
    sources="/proc/fs/nfsd/pool_stats, /proc/net/rpc/nfsd, the probe of nfsd; unread bytes of its "
    "TCP connections.",
    blind="How long a call over RDMA waits for its thread.",
    false_alarm="A connection that sends many calls at once uses most of the threads for a moment.",
    wrong_if="column packets-deferred does not grow and threads are idle",
    check="cat /proc/fs/nfsd/pool_stats",
    thresholds={
        "waiting_min_pct": (50.0, "of the requests; above this, most calls wait"),
        "requests_min_per_s": (10.0, "with fewer, the samples must agree"),
        "busy_min_pct": (85.0, "of all threads; each is idle briefly between two calls"),
    },
    needs=("nfs_server",),
)
def nfsd_threads(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check whether most of the recent requests found no idle thread."""
    threads = threads_of(recent)
    if threads is None:
        return
    is_few = threads.requests / recent.seconds < limits["requests_min_per_s"]
    if threads.requests and is_few and threads.full_share <= 0.5:
        return
    if not threads.are_all_busy(limits["waiting_min_pct"], limits["busy_min_pct"]):
        return
    waiting = threads.waiting_share
    at_once = None if waiting is None else (1 - waiting) * 100
    most, source = 100 - limits["waiting_min_pct"], "/proc/fs/nfsd/pool_stats; the probe of nfsd"
    evidence = [Evidence(threads.text, "at_once_pct", at_once, most, source)]
    unread = weighted_mean((1, unread) for unread in recent.each(unread_us))
    wait = f" for {duration(unread)}" if unread else ""
    if unread:
        text = f"a call is unread in the server's sockets{wait}"
        evidence.append(Evidence(text, "unread_bytes", unread, None, "sock_diag"))
    yield Verdict(
        confidence="medium" if waiting is None else "high",
        cause=f"All {threads.count} threads of nfsd are busy: within {recent.seconds:.0f} s "
        f"{threads.text}, and calls wait{wait} for a thread.",
        evidence=tuple(evidence),
        advice="Give nfsd more threads, unless the threads wait for its disks.",
        command=f"echo {threads.count * 2} > /proc/fs/nfsd/threads",
    )


@Rule(
    title="Cached by the NFS server",
    layer="nfs_server",
    ways=("read",),
    watches="The share of READs whose nfsd thread submitted nothing to a block device.",
    sources="The probe of nfsd.",
    blind="A server on another machine. Caches of its disks or of an array: a disk that is "
    "reported as rotating and answers in 0.1 ms may also be a virtual one.",
    false_alarm="A READ of data that an earlier READ's read-ahead is fetching looks cached.",
    wrong_if="the server's disks read (rkB/s) as much as its clients do",
    check="iostat -x 1 5",
    thresholds={
        "cached_min_pct": (80.0, "below this, the disks still determine the mean"),
        "reads_min_per_s": (100, "a rotating disk could serve fewer"),
    },
    probed=("nfs_server",),
    may_be_short=True,
)
def server_cache(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check the server on this machine, READ by READ."""
    cached = sum_op(recent, "nfs_server", "read_cached")
    disk = sum_op(recent, "nfs_server", "read_disk")
    total, least = cached.count + disk.count, limits["cached_min_pct"]
    if not total or cached.ops_per_s + disk.ops_per_s < limits["reads_min_per_s"]:
        return
    share = cached.count / total
    if share * 100 < least:
        return
    slow = f", {duration(disk.latency_us)} from disk" if disk.latency_us else ""
    text = f"{percent(share)} of the READs submitted nothing to a block device"
    yield Verdict(
        severity="info",
        confidence="high",
        cause=f"{percent(share)} of {per_s(total / cached.seconds)} READs a second are served "
        f"from this server's memory: {duration(cached.latency_us or 0)} each{slow}.",
        evidence=(Evidence(text, "", share * 100, least, "probe of nfsd"),),
        advice="A test of this server now measures its memory: use more data than its memory "
        "holds, or drop its cache before each run.",
        command="echo 3 > /proc/sys/vm/drop_caches",
    )
