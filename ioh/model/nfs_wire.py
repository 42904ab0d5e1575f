"""What is known about the network between NFS mounts and their servers: by TCP, by both ends.

docs/path.md says how the path uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from ioh.model.connections import address_of, end_of, host_of, round_trip_us
from ioh.model.path_flow import left_of
from ioh.model.rates import quotient, sum_known, weighted_mean
from ioh.model.snapshot import LayerSnapshot, Pair, PairOp, Snapshot, TableRow

_End = tuple[str, str]  # address, port
_PORT = "2049"
# Most relative difference of a server's and its client's counts in one interval.
SAME_CALLS = 0.2
# A call that waits for one lost segment takes up to 0.2 s longer: then the mean, 2 ms.
_LOST_PER_CALL = 0.01
_LONG_WAY, _LONE = 2.0, 1.5  # times the shortest round trip; calls in flight per connection


@dataclass(frozen=True, slots=True)
class NfsWire:
    """The connections of this host's NFS mounts, over one interval.

    Shape:
        ``is_lossy``: so many segments were lost, in either direction, that the mean call waited for
        them.  This time is not in the round trip, so it does not tell network and server apart.
        ``is_server_local``: whether the servers run on this machine; None if not known, or if some
        do and some do not.

    Units:
        ``round_trip_us``: TCP's smoothed round-trip time, weighted by each server's calls.
        ``unread_us``: how long calls wait in the sockets of the server on this machine until one of
        its threads reads them, all clients' calls together.  None if not known.
    """

    round_trip_us: float | None = None
    is_lossy: bool = False
    is_server_local: bool | None = None
    unread_us: float | None = None


def nfs_wire(snapshot: Snapshot) -> NfsWire:
    """The connections to the servers that the mounts use in this interval."""
    layers = snapshot.measured
    calls = _calls_of_servers(snapshot)
    connections = snapshot.rows("tcp", "connection")
    ours = [row for row in connections if _is_at(row.key[1], calls)]
    # Of a mount in another network namespace, only the server's ends may be here.
    theirs = [] if ours else [row for row in connections if calls and _is_at(row.key[0], calls)]
    if not (ours or theirs):
        port = _port_row(snapshot)
        is_listed = any(_is_at(end, ()) for row in connections for end in row.key)
        # Listed ones are not the mounts'; in an old recording a busy host's are not listed.
        return NfsWire(port.values.get("srtt_us") if port and not is_listed else None)
    by_server: dict[_End, list[TableRow]] = {}
    for row in ours or theirs:
        by_server.setdefault(end_of(row.key[1 if ours else 0]), []).append(row)
    is_local = bool(theirs) or _is_local(ours, connections, snapshot)
    return NfsWire(
        weighted_mean(
            (calls.get(at) or 1.0, round_trip_us(rows))
            for at, rows in by_server.items()
            if not _has_replies_time(rows, layers.get("nfs_client"))
        ),
        sum(map(_lost_per_s, ours or theirs)) > _LOST_PER_CALL * sum(calls.values())
        or any(_outlived_a_loss(row, layers["nfs_client"]) for row in ours or theirs if calls),
        is_local,
        unread_us(snapshot) if is_local else None,
    )


def _has_replies_time(rows: Collection[TableRow], client: LayerSnapshot | None) -> bool:
    """Whether the round trip may have the server's time in it.

    A server that has only one call to answer acknowledges it with the reply (TCP waits up to 40 ms
    for that), so the round trip is far longer than the connection's shortest.
    """
    ops = [client.ops.get(name) for name in ("read", "write", "commit")] if client else []
    in_flight = sum(
        (each.ops_per_s or 0.0) * (each.latency_us or 0.0) for each in ops if each is not None
    )
    shortest_us = min((row.values.get("min_rtt_us") or inf for row in rows), default=inf)
    is_long = (round_trip_us(rows) or 0.0) > _LONG_WAY * shortest_us
    return is_long and in_flight / 1e6 <= _LONE * len(rows)


def _is_local(
    ours: Collection[TableRow], connections: Collection[TableRow], snapshot: Snapshot
) -> bool | None:
    """Whether this machine has the other end of these connections, too."""
    here = {host_of(row.key[0]) for row in connections}
    clients = {row.key[0] for row in snapshot.rows("nfs_server", "client")}
    answers = {host_of(row.key[1]) in here or row.key[0] in clients for row in ours}
    return answers.pop() if len(answers) == 1 else None


def unread_us(snapshot: Snapshot) -> float | None:
    """How long calls of all clients wait in the sockets of this machine's NFS server.

    Bytes wait as long as it takes to read as many (Little's law).  None if not known.
    """
    port = _port_row(snapshot)
    if port is None:
        return None
    return quotient(port.values.get("unread_bytes"), port.values.get("in_bytes_per_s"), 1e6)


def _calls_of_servers(snapshot: Snapshot) -> dict[_End, float]:
    """Calls per second by the server's address and port."""
    calls: dict[_End, float] = {}
    for row in snapshot.rows("nfs_client", "server"):
        if address := address_of(row.key[-1]):
            rates = (row.values.get(f"{op}s_per_s") for op in ("read", "write", "commit"))
            end = address, f"{row.values.get('port') or int(_PORT):.0f}"
            calls[end] = calls.get(end, 0.0) + (sum_known(rates) or 0.0)
    return calls


def _is_at(end: str, servers: Collection[_End]) -> bool:
    """Whether it is an end at one of these NFS servers, or at any if none is known."""
    return end_of(end) in servers if servers else end.endswith(f":{_PORT}")


def _lost_per_s(row: TableRow) -> float:
    """Segments lost: those retransmitted, without those that had arrived after all.

    Old recordings do not have their number; of a new connection, it is not known yet.
    """
    again = row.values.get("retrans_segs_per_s") or 0.0
    needless = row.values.get("needless_segs_per_s", 0.0)
    reordered = row.values.get("reordered_segs_per_s") or 0.0
    return reordered + (0.0 if needless is None else max(0.0, again - needless))


def _outlived_a_loss(row: TableRow, client: LayerSnapshot) -> bool:
    """Whether a segment was lost while the calls that ended in this interval were under way."""
    ago_s = row.values.get("since_loss_s")
    ops = (client.ops.get(name) for name in ("read", "write", "commit"))
    took_s = max((each.latency_us or 0.0 for each in ops if each is not None), default=0.0) / 1e6
    return ago_s is not None and took_s > client.interval_s and ago_s <= took_s


def _port_row(snapshot: Snapshot) -> TableRow | None:
    return next((row for row in snapshot.rows("tcp", "port") if row.key[0] == _PORT), None)


def shares_by_pairs(
    pairs: Iterable[Pair], names: Sequence[str], all_calls: float
) -> dict[str, float | None] | None:
    """The shares of network, server and its disk in the round trip, 0 to 1; None: unknown.

    Returns None if the calls of the pairs differ too much from the client's ``all_calls``.
    """
    ops = [op for pair in pairs for name in names if (op := pair.ops.get(name)) is not None]
    timed = [(op.client_calls or 0, op) for op in ops if op.network_us is not None]
    calls = sum(count for count, _ in timed)
    if not calls or abs(calls - all_calls) > SAME_CALLS * all_calls:
        return None
    rtt_us = sum(count * (op.rtt_us or 0.0) for count, op in timed)

    def share(us_of: Callable[[PairOp], float | None]) -> float | None:
        times = [(count, us_of(op)) for count, op in timed]
        times_us = [count * us for count, us in times if us is not None]
        return sum(times_us) / rtt_us if len(times_us) == len(times) else None

    queue, device = share(lambda op: op.block_queue_us), share(lambda op: op.device_us)
    disk = (queue or 0.0) + (device or 0.0)
    server = share(lambda op: op.server_us) or 0.0
    return {
        "network": share(lambda op: op.network_us),
        "nfs_server": left_of(server, disk),
        **({"block_queue": queue, "device": device} if disk else {}),
    }
