"""Segments sent again: the network loses packets."""

from __future__ import annotations

from ioh.findings.format_sentence import per_s, percent, rate
from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.sums import sum_metric
from ioh.findings.window import Stretch, duration_s, rows_of
from ioh.model.finding import Evidence


@Rule(
    title="TCP retransmits",
    layer="tcp",
    watches="Retransmitted segments compared with all segments sent, in this network namespace.",
    sources="/proc/net/snmp, /proc/net/netstat, and each connection's own counters.",
    blind="Loss in the other direction, which the peer repairs; other network namespaces.",
    false_alarm="Tail loss probes and reordering retransmit a few segments that were not lost.",
    wrong_if="TcpRetransSegs is below 0.1 % of TcpOutSegs",
    check="nstat -az TcpRetransSegs TcpOutSegs",
    thresholds=(
        Threshold("retrans_min_pct", 0.5, "a healthy local network stays below 0.1 %"),
        Threshold("segments_min_per_s", 3, "single retransmits come from a peer that is gone"),
    ),
    needs=("tcp",),
    may_be_short=True,
)
def tcp_retransmits(recent: Stretch, limits: Limits) -> Verdicts:
    """All connections of this network namespace together, the worst one named."""
    seconds = duration_s(recent)
    again = sum_metric(recent, "tcp", "retrans_segs_per_s") or 0.0
    sent = sum_metric(recent, "tcp", "sent_segs_per_s") or 0.0
    if not sent or again / seconds < limits["segments_min_per_s"]:
        return
    share = again / sent
    bytes_again = (sum_metric(recent, "tcp", "retrans_bytes_per_s") or 0.0) / seconds
    # Without payload they are SYNs that nobody answers: a host that is gone, not a bad path.
    if share * 100 < limits["retrans_min_pct"] or not bytes_again:
        return
    rows = rows_of(recent[-1], "tcp", "connection")
    worst = max(rows, key=lambda row: row.values.get("retrans_segs_per_s") or 0.0, default=None)
    lost = (worst.values.get("retrans_segs_per_s") or 0.0) if worst is not None else 0.0
    where = f", most of them to {worst.key[1]}" if worst is not None and lost else ""
    timeouts = (sum_metric(recent, "tcp", "timeouts_per_s") or 0.0) / seconds
    yield Verdict(
        severity="critical" if share >= 0.05 else "warning",
        confidence="high",
        cause=f"{percent(share)} of the TCP segments are retransmitted ({per_s(again / seconds)} a "
        f"second{where}): packets are lost on the way.",
        evidence=(
            Evidence(
                f"{per_s(again / seconds)} of {per_s(sent / seconds)} segments a second",
                "retrans_pct",
                share * 100,
                limits["retrans_min_pct"],
                "/proc/net/snmp RetransSegs",
            ),
            Evidence(f"{rate(bytes_again)} of payload sent again", "retrans_bytes_per_s"),
            Evidence(
                f"{per_s(timeouts)} retransmission timeouts a second",
                "timeouts_per_s",
                timeouts,
                None,
                "/proc/net/netstat TCPTimeouts",
            ),
        ),
        advice="Look for drops and errors on the interfaces at both ends and on the switch: cable, "
        "duplex, MTU, a full queue.",
        command="ss -ti; ip -s link; nstat -az | grep -i -E 'retrans|drop'",
    )
