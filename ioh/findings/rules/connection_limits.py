"""Links, windows and queues of the network that carry all they can."""

from __future__ import annotations

import shlex

from ioh.findings.format_sentence import per_s, percent, rate
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_metric
from ioh.findings.window import Stretch, duration_s, rows_of
from ioh.model.finding import Evidence

_FULL = "The link is the limit: a faster one, a second one, or less traffic on it."
_SHAPED = "The shaper is the limit, not the link: raise its rate, or send less."
# Metric of the tcp layer, threshold, what it is, what to do, the command.
_DROPS = (
    (
        "listen_overflows",
        "overflows_min_per_s",
        "connections are refused because a program's accept queue is full",
        "Let the program accept faster, or give it a longer queue (its listen() and somaxconn).",
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
        "Give the network buffers more memory.",
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
    blind="Links whose speed is not known: virtual ones, loopback. Shapers other than a tbf at the "
    "root (htb, a cloud's own). Fibre Channel.",
    false_alarm="A pipe to a slow program is limited by its window on purpose.",
    wrong_if="the counters of overflows and drops stand still, and no connection is rwnd_limited "
    "or sndbuf_limited",
    check="ss -tin; nstat -az | grep -E 'Overflow|Drop'",
    thresholds=(
        Threshold("link_min_pct", 90.0, "payload never gets more than 95 % of a link"),
        Threshold(
            "overflows_min_per_s", 1.0, "each one is a connection refused, or delayed by a second"
        ),
        Threshold("drops_min_per_s", 10.0, "each costs a retransmission"),
        Threshold("busy_min_pct", 90.0, "the connection always has data to send"),
        Threshold("window_min_pct", 50.0, "and may not send it for most of the time"),
        Threshold("window_bytes_min_per_s", 1e6, "slower connections are limited by their program"),
    ),
    needs=("tcp",),
)
def connection_limits(recent: Stretch, limits: Limits) -> Verdicts:
    """Interfaces, drops, and connections that wait for their peer's window."""
    yield from _links(recent, limits)
    yield from _drops(recent, limits)
    yield from _windows(recent, limits)


def _links(recent: Stretch, limits: Limits) -> Verdicts:
    for row in rows_of(recent[-1], "tcp", "interface"):
        name = row.key[0]
        for way, word in (("in", "inwards"), ("out", "outwards")):
            if (row.values.get(f"{way}_used_pct") or 0.0) < limits["link_min_pct"]:
                continue  # as most often, and found out soon
            used = [
                found.values.get(f"{way}_used_pct") or 0.0
                for snapshot in recent
                for found in rows_of(snapshot, "tcp", "interface")
                if found.key == row.key
            ]
            if not used or min(used) < limits["link_min_pct"]:
                continue
            speed = row.values.get("speed_bits_per_s") or 0
            shaped = row.values.get("shaped_bits_per_s") if way == "out" else None
            is_shaped = shaped is not None and (not speed or shaped < speed)
            moved = row.values.get(f"{way}_bytes_per_s") or 0.0
            whose = f"{_bits(shaped or 0)} that tc (tbf) lets out" if is_shaped else _bits(speed)
            yield Verdict(
                subject=f"{name} {way}",
                confidence="high",
                cause=f"Interface {name} is full {word}: {rate(moved)} is "
                f"{percent(used[-1] / 100)} of {'the' if is_shaped else 'its'} {whose}.",
                evidence=(
                    Evidence(
                        f"at least {percent(min(used) / 100)} in each of the last {len(used)} "
                        "intervals",
                        f"{way}_used_pct",
                        min(used),
                        limits["link_min_pct"],
                        "/proc/net/dev, "
                        + ("RTM_GETQDISC" if is_shaped else f"/sys/class/net/{name}/speed"),
                    ),
                ),
                advice=_SHAPED if is_shaped else _FULL,
                command=f"tc -s qdisc show dev {shlex.quote(name)}"
                if is_shaped
                else f"ip -s link show {shlex.quote(name)}; ethtool {shlex.quote(name)}",
            )


def _bits(bits_per_s: float) -> str:
    """``10 Gbit/s``, ``20 Mbit/s``."""
    return f"{bits_per_s / 1e9:g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:g} Mbit/s"


def _drops(recent: Stretch, limits: Limits) -> Verdicts:
    for metric, threshold, what, advice, command in _DROPS:
        total = sum_metric(recent, "tcp", f"{metric}_per_s") or 0.0
        a_second = total / duration_s(recent)
        if a_second >= limits[threshold]:
            yield Verdict(
                subject=metric,
                confidence="high",
                cause=f"{per_s(a_second)} {what}, each second.",
                evidence=(
                    Evidence(
                        f"{total:,.0f} in {duration_s(recent):.0f} s",
                        f"{metric}_per_s",
                        a_second,
                        limits[threshold],
                        "/proc/net/netstat, /proc/net/snmp",
                    ),
                ),
                advice=advice,
                command=command,
            )


def _windows(recent: Stretch, limits: Limits) -> Verdicts:
    held_up = [
        row
        for row in rows_of(recent[-1], "tcp", "connection")
        if (row.values.get("rwnd_limited_pct") or 0.0) >= limits["window_min_pct"]
    ]
    if not held_up:  # as most often, and found out soon
        return
    by_key = [
        {row.key: row.values for row in rows_of(snapshot, "tcp", "connection")}
        for snapshot in recent
    ]
    for row in held_up:
        rows = [table[row.key] for table in by_key if row.key in table]
        out = sum(values.get("out_bytes_per_s") or 0.0 for values in rows) / len(recent)
        if len(rows) < len(recent) or out < limits["window_bytes_min_per_s"]:
            continue
        if min(values.get("busy_pct") or 0.0 for values in rows) < limits["busy_min_pct"]:
            continue
        held = min(values.get("rwnd_limited_pct") or 0.0 for values in rows)
        if held < limits["window_min_pct"]:
            continue
        yield Verdict(
            subject=" ".join(row.key),
            cause=f"The receiver {row.key[1]} blocks {row.key[0]} for at least "
            f"{percent(held / 100)} of the time: its window is full at {rate(out)}.",
            evidence=(
                Evidence(
                    f"limited by the peer's window {percent(held / 100)} of the time it had data",
                    "rwnd_limited_pct",
                    held,
                    limits["window_min_pct"],
                    "TCP_INFO tcpi_rwnd_limited",
                ),
            ),
            advice="The receiver reads too slowly, or its receive buffer is too small for the "
            "distance.",
            command="sysctl net.ipv4.tcp_rmem   # on the receiver",
        )
