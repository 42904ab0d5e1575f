"""TCP: full links and queues, packet loss, peers that do not answer."""

from __future__ import annotations

import shlex

from ioh.findings.format_sentence import per_s, percent, rate
from ioh.findings.rule import Limits, Rule, Verdict, Verdicts
from ioh.findings.sums import increase, increases
from ioh.findings.window import RecentIntervals, number
from ioh.model.finding import Evidence
from ioh.model.snapshot import TableRow

_FULL = "The link is the limit: use a faster one, add a second one, or send less traffic over it."
_SHAPED = "The shaper is the limit, not the link: raise its rate, or send less."
# Metric of the tcp layer, threshold, what it is, what to do, the command.
_DROPS = (
    (
        "listen_overflows",
        "overflows_min_per_s",
        "connections are refused because a program's accept queue is full",
        "Make the program accept faster, or make its queue longer (listen() and somaxconn).",
        "ss -ltn; sysctl net.core.somaxconn",
    ),
    (
        "backlog_drops",
        "drops_min_per_s",
        "segments are dropped because a socket's backlog is full",
        "The receiving program is too slow, or its receive buffer too small.",
        "ss -tmi; sysctl net.ipv4.tcp_rmem",
    ),
    (
        "in_discards",
        "drops_min_per_s",
        "IP packets are dropped on arrival for lack of memory",
        "Give the network more buffer memory.",
        "nstat -az IpInDiscards; sysctl net.core.rmem_max",
    ),
)


@Rule(
    title="Connection limit",
    layer="tcp",
    watches="How much of each link's speed is used; dropped packets and refused connections; "
    "connections limited by their receiver's window.",
    sources="/proc/net/dev, /sys/class/net/*/speed, the rate of tc's tbf by netlink, "
    "/proc/net/snmp and netstat, TCP_INFO.",
    blind="Links whose speed is not known: virtual links, loopback. Shapers other than a tbf at "
    "the root (htb, a cloud's own). Fibre Channel.",
    false_alarm="A connection to a program that is slow on purpose is limited by its window.",
    wrong_if="the counters of overflows and drops do not grow, and no connection is rwnd_limited "
    "or sndbuf_limited",
    check="ss -tin; nstat -az | grep -E 'Overflow|Drop'",
    thresholds={
        "link_min_pct": (90.0, "payload never gets more than 95 % of a link"),
        "overflows_min_per_s": (1.0, "each is a refused connection, or one delayed by a second"),
        "drops_min_per_s": (10.0, "each costs a retransmission"),
        "busy_min_pct": (90.0, "the connection nearly always has data to send"),
        "window_min_pct": (50.0, "and the peer's window blocks it most of the time"),
        "window_bytes_min_per_s": (1e6, "slower connections are limited by their program"),
    },
    needs=("tcp",),
)
def connection_limits(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check interfaces, drops, and connections that wait for their peer's window."""
    for row in recent[-1].rows("tcp", "interface"):
        yield from _link(recent, row, "in", limits)
        yield from _link(recent, row, "out", limits)
    yield from _drops(recent, limits)
    yield from _windows(recent, limits)


def _link(recent: RecentIntervals, row: TableRow, way: str, limits: Limits) -> Verdicts:
    name, metric = row.key[0], f"{way}_used_pct"
    if number(row, metric) < limits["link_min_pct"]:
        return  # the usual case, decided early
    shares = [
        number(each, metric)
        for snapshot in recent
        for each in snapshot.rows("tcp", "interface")
        if each.key == row.key
    ]
    if min(shares) < limits["link_min_pct"]:
        return
    speed, shaped = number(row, "speed_bits_per_s"), row.values.get("shaped_bits_per_s")
    whose, source = f"its {_bits(speed)}", f"/sys/class/net/{name}/speed"
    device = shlex.quote(name)
    advice, command = _FULL, f"ip -s link show {device}; ethtool {device}"
    if way == "out" and shaped is not None and (not speed or shaped < speed):
        whose, source = f"the {_bits(shaped)} that tc (tbf) allows", "RTM_GETQDISC"
        advice, command = _SHAPED, f"tc -s qdisc show dev {device}"
    text = f"at least {percent(min(shares) / 100)} in each of the last {len(shares)} intervals"
    source = f"/proc/net/dev, {source}"
    yield Verdict(
        subject=f"{name} {way}",
        confidence="high",
        cause=f"Interface {name} is full ({'inbound' if way == 'in' else 'outbound'}): "
        f"{rate(number(row, f'{way}_bytes_per_s'))} is {percent(shares[-1] / 100)} of {whose}.",
        evidence=(Evidence(text, metric, min(shares), limits["link_min_pct"], source),),
        advice=advice,
        command=command,
    )


def _bits(bits_per_s: float) -> str:
    """``10 Gbit/s``, ``20 Mbit/s``."""
    return f"{bits_per_s / 1e9:g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:g} Mbit/s"


def _drops(recent: RecentIntervals, limits: Limits) -> Verdicts:
    for metric, threshold, what, advice, command in _DROPS:
        total = increase(recent, "tcp", metric)
        a_second, least = total / recent.seconds, limits[threshold]
        if a_second < least:
            continue
        text = f"{total:,.0f} in {recent.seconds:.0f} s"
        source = "/proc/net/netstat, /proc/net/snmp"
        yield Verdict(
            subject=metric,
            confidence="high",
            cause=f"{per_s(a_second)} {what}, every second.",
            evidence=(Evidence(text, f"{metric}_per_s", a_second, least, source),),
            advice=advice,
            command=command,
        )


def _windows(recent: RecentIntervals, limits: Limits) -> Verdicts:
    held_up = [
        row
        for row in recent[-1].rows("tcp", "connection")
        if number(row, "rwnd_limited_pct") >= limits["window_min_pct"]
    ]
    if not held_up:  # the usual case, decided early
        return
    by_key = [{row.key: row for row in s.rows("tcp", "connection")} for s in recent]
    for key in (row.key for row in held_up):
        rows = [table[key] for table in by_key if key in table]
        out = sum(number(row, "out_bytes_per_s") for row in rows) / len(recent)
        limited_pct, busy_pct = (
            min(number(row, name) for row in rows) for name in ("rwnd_limited_pct", "busy_pct")
        )
        if len(rows) < len(recent) or out < limits["window_bytes_min_per_s"]:
            continue
        if busy_pct < limits["busy_min_pct"] or limited_pct < limits["window_min_pct"]:
            continue
        share = percent(limited_pct / 100)
        text = f"limited by the peer's window {share} of the time it has data to send"
        yield Verdict(
            subject=" ".join(key),
            cause=f"The receiver {key[1]} blocks {key[0]} for at least "
            f"{share} of the time: its window is full at {rate(out)}.",
            evidence=(
                Evidence(
                    text,
                    "rwnd_limited_pct",
                    limited_pct,
                    limits["window_min_pct"],
                    "TCP_INFO tcpi_rwnd_limited",
                ),
            ),
            advice="The receiver reads too slowly, or its receive buffer is too small for the "
            "distance.",
            command="sysctl net.ipv4.tcp_rmem   # on the receiver",
        )


@Rule(
    title="TCP peer does not answer",
    layer="tcp",
    watches="Connections whose data is retransmitted while nothing new moves in either direction.",
    sources="sock_diag: unacknowledged segments, bytes and retransmissions of each connection.",
    blind="A peer that is down while nothing is sent to it. Handshakes without an answer.",
    false_alarm="A link that is down for some seconds (Wi-Fi, a failover): the finding ends with "
    "the outage.",
    wrong_if="the connection has no backoff and no unacked any more, and a short lastrcv",
    check="ss -tio",
    thresholds={
        "again_min": (2, "timeouts come after 0.2, 0.6 and 1.4 s of silence"),
    },
    needs=("tcp",),
    hold_s=1.0,
    recent_s=10.0,
    may_be_short=True,
)
def tcp_no_answer(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check each connection with retransmitted data and no new byte in either direction."""
    # A connection without any traffic in a second, not even a retransmission, has no row for it.
    latest = {row.key: row for s in recent for row in s.rows("tcp", "connection")}
    for key, count in _again(recent).items():
        waiting, least = number(latest[key], "unacked"), limits["again_min"]
        if count < least or not waiting:
            continue
        text = f"{count} segments retransmitted since the last new one, none received"
        yield Verdict(
            subject=f"{key[0]} {key[1]}",
            severity="critical",
            confidence="high",
            cause=f"{key[1]} does not answer: {waiting:,.0f} segments are unacknowledged, {count} "
            "were retransmitted, and nothing comes back.",
            evidence=(Evidence(text, "retrans_segs_per_s", count, least, "sock_diag"),),
            advice="Check the host and the path to it: the host may have crashed, a link may be "
            "down, a firewall may have dropped the connection's state.",
            command="ss -tion",
        )


def _again(recent: RecentIntervals) -> dict[tuple[str, ...], int]:
    """Retransmitted segments since the last new data, by connection without new data now."""
    sums: dict[tuple[str, ...], float] = {}
    new: set[tuple[str, ...]] = set()
    now = len(recent.window.recent(1.0))
    for at, snapshot in enumerate(reversed(recent)):
        just_moved: set[tuple[str, ...]] = set()
        for row in snapshot.rows("tcp", "connection"):
            if row.key in new:
                continue
            if row.values.get("in_bytes_per_s") or row.values.get("out_bytes_per_s"):
                just_moved.add(row.key)
            # Only payload: a repeated handshake is a server that does not accept.
            if row.values.get("retrans_bytes_per_s"):
                segments = number(row, "retrans_segs_per_s") * snapshot.interval_s
                sums[row.key] = sums.get(row.key, 0.0) + segments
        new |= just_moved
        if at < now:
            for key in just_moved:
                sums.pop(key, None)
    return {key: round(count) for key, count in sums.items()}


@Rule(
    title="TCP retransmits",
    layer="tcp",
    watches="Retransmitted segments compared with all segments sent, in this network namespace.",
    sources="/proc/net/snmp, /proc/net/netstat, and each connection's own counters.",
    blind="Loss in the other direction, which the peer retransmits; other network namespaces.",
    false_alarm="Tail loss probes and reordering retransmit a few segments that were not lost.",
    wrong_if="TcpRetransSegs is below 0.1 % of TcpOutSegs",
    check="nstat -az TcpRetransSegs TcpOutSegs",
    thresholds={
        "retrans_min_pct": (0.5, "a healthy local network stays below 0.1 %"),
        "segments_min_per_s": (3, "single retransmits come from a peer that is down"),
    },
    needs=("tcp",),
    may_be_short=True,
)
def tcp_retransmits(recent: RecentIntervals, limits: Limits) -> Verdicts:
    """Check all connections of this network namespace together; name the worst one."""
    totals = increases(recent, "tcp", "retrans_segs", "sent_segs", "retrans_bytes", "timeouts")
    again, sent, bytes_again, timeouts = (total / recent.seconds for total in totals)
    if not sent or again < limits["segments_min_per_s"]:
        return
    share, least = totals[0] / totals[1], limits["retrans_min_pct"]
    # Without payload they are unanswered SYNs: a host that is down, not a bad path.
    if share * 100 < least or not bytes_again:
        return
    worst = recent[-1].busiest("tcp", "connection", "retrans_segs_per_s")
    is_known = worst is not None and number(worst, "retrans_segs_per_s")
    where = f", most of them to {worst.key[1]}" if worst is not None and is_known else ""
    segments = f"{per_s(again)} of {per_s(sent)} segments a second"
    late = f"{per_s(timeouts)} retransmission timeouts a second"
    source = "/proc/net/netstat TCPTimeouts"
    yield Verdict(
        severity="critical" if share >= 0.05 else "warning",
        confidence="high",
        cause=f"{percent(share)} of the TCP segments are retransmitted ({per_s(again)} a "
        f"second{where}): packets are lost in the network.",
        evidence=(
            Evidence(segments, "retrans_pct", share * 100, least, "/proc/net/snmp RetransSegs"),
            Evidence(f"{rate(bytes_again)} of payload retransmitted", "retrans_bytes_per_s"),
            Evidence(late, "timeouts_per_s", timeouts, None, source),
        ),
        advice="Check the interfaces at both ends and the switch for drops and errors: cable, "
        "duplex, MTU, a full queue.",
        command="ss -ti; ip -s link; nstat -az | grep -i -E 'retrans|drop'",
    )
