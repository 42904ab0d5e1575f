"""A TCP peer that has gone dark: what is sent is sent again, and nothing comes back."""

from __future__ import annotations

from ioh.findings.rule import Limits, Rule, Threshold, Verdict, Verdicts
from ioh.findings.window import Stretch, rows_of
from ioh.model.finding import Evidence

NOW_S = 1.0
_Key = tuple[str, ...]


@Rule(
    title="TCP peer does not answer",
    layer="tcp",
    watches="Connections whose data is sent again while nothing new moves in either direction.",
    sources="sock_diag: unacknowledged segments, bytes and repeats of each connection.",
    blind="A peer that is dark while nothing is sent to it. Handshakes without an answer.",
    false_alarm="A link that is away for some seconds (Wi-Fi, a failover): it ends with the gap.",
    wrong_if="backoff and unacked of the connection are gone, and lastrcv is short",
    check="ss -tio",
    thresholds=(Threshold("again_min", 2, "timeouts come after 0.2, 0.6 and 1.4 s of silence"),),
    needs=("tcp",),
    hold_s=1.0,
    recent_s=10.0,
    may_be_short=True,
)
def tcp_no_answer(recent: Stretch, limits: Limits) -> Verdicts:
    """Each connection with data under way that was sent again, and no byte in either direction."""
    again = _again(recent, recent.window.recent(NOW_S))
    # A connection that moves nothing in a second, not even a repeat, has no row for it.
    latest = {row.key: row for s in recent for row in rows_of(s, "tcp", "connection")}
    for key, count in again.items():
        row = latest[key]
        waiting = row.values.get("unacked") or 0
        if count < limits["again_min"] or not waiting:
            continue
        yield Verdict(
            subject=f"{row.key[0]} {row.key[1]}",
            severity="critical",
            confidence="high",
            cause=f"{row.key[1]} does not answer: {waiting:,.0f} segments wait for their "
            f"acknowledgement, {count} were sent again, and nothing comes back.",
            evidence=(
                Evidence(
                    f"{count} segments sent again since the last new one, none received",
                    "retrans_segs_per_s",
                    count,
                    limits["again_min"],
                    "sock_diag",
                ),
            ),
            advice="See whether the host is up and the way there: a host that has crashed, a link "
            "that is down, a firewall that forgot the connection.",
            command="ss -tion",
        )


def _again(before: Stretch, recent: Stretch) -> dict[_Key, int]:
    """Segments sent again since something new moved, by connections where nothing does now."""
    sums: dict[_Key, float] = {}
    moved: set[_Key] = set()
    for at, snapshot in enumerate(reversed(before)):
        just_moved: set[_Key] = set()
        for row in rows_of(snapshot, "tcp", "connection"):
            if row.key in moved:
                continue
            if row.values.get("in_bytes_per_s") or row.values.get("out_bytes_per_s"):
                just_moved.add(row.key)
            # A handshake has no payload to repeat: that is a server that does not accept.
            if row.values.get("retrans_bytes_per_s"):
                segments = (row.values.get("retrans_segs_per_s") or 0.0) * snapshot.interval_s
                sums[row.key] = sums.get(row.key, 0.0) + segments
        moved |= just_moved
        if at < len(recent):
            for key in just_moved:
                sums.pop(key, None)
    return {key: round(count) for key, count in sums.items()}
