"""What is known about the network between NFS mounts and their servers.

docs/path.md says how the path uses it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ioh.model.connections import address_of, host_of, round_trip_us
from ioh.model.rates import quotient, sum_known, weighted_mean
from ioh.model.snapshot import LayerSnapshot, Snapshot, TableRow, rows_of

_PORT = "2049"
# A call that waits for one lost segment takes up to 0.2 s longer: then the mean, 2 ms.
_LOST_PER_CALL = 0.01


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
    tcp, nfsd = layers.get("tcp"), layers.get("nfs_server")
    connections, port = rows_of(tcp, "connection"), _port_row(tcp)
    calls = _calls_of_servers(layers.get("nfs_client"))
    ours = [row for row in connections if _is_to(row.key[1], calls)]
    if not ours:  # a recording without them, or mounts of another network namespace
        return NfsWire(port.values.get("srtt_us") if port else None)
    by_server: dict[str, list[TableRow]] = {}
    for row in ours:
        by_server.setdefault(host_of(row.key[1]), []).append(row)
    here = {host_of(row.key[0]) for row in connections}
    clients = {row.key[0] for row in rows_of(nfsd, "client")}
    are_local = {host_of(row.key[1]) in here or row.key[0] in clients for row in ours}
    is_local = are_local.pop() if len(are_local) == 1 else None
    return NfsWire(
        weighted_mean(
            (calls.get(at) or 1.0, round_trip_us(rows)) for at, rows in by_server.items()
        ),
        sum(map(_lost_per_s, ours)) > _LOST_PER_CALL * sum(calls.values())
        or any(_outlived_a_loss(row, layers["nfs_client"]) for row in ours if calls),
        is_local,
        unread_us(snapshot) if is_local else None,
    )


def unread_us(snapshot: Snapshot) -> float | None:
    """How long calls of all clients wait in the sockets of this machine's NFS server.

    Bytes wait as long as it takes to read as many (Little's law).  None if not known.
    """
    port = _port_row(snapshot.measured.get("tcp"))
    if port is None:
        return None
    return quotient(port.values.get("unread_bytes"), port.values.get("in_bytes_per_s"), 1e6)


def _calls_of_servers(client: LayerSnapshot | None) -> dict[str, float]:
    """Calls per second by address of the server."""
    calls: dict[str, float] = {}
    for row in rows_of(client, "server"):
        if address := address_of(row.key[-1]):
            rates = (row.values.get(f"{op}s_per_s") for op in ("read", "write", "commit"))
            calls[address] = calls.get(address, 0.0) + (sum_known(rates) or 0.0)
    return calls


def _is_to(remote: str, servers: Collection[str]) -> bool:
    """Whether a connection leads to one of these NFS servers, or to any if none is known."""
    return remote.endswith(f":{_PORT}") and (not servers or host_of(remote) in servers)


def _lost_per_s(row: TableRow) -> float:
    """Segments lost: those sent again without need were not."""
    again, needless, reordered = (
        row.values.get(f"{name}_segs_per_s") or 0.0 for name in ("retrans", "needless", "reordered")
    )
    return max(0.0, again - needless) + reordered


def _outlived_a_loss(row: TableRow, client: LayerSnapshot) -> bool:
    """Whether a segment was lost while the calls that have ended now were under way, or most."""
    ago_s = row.values.get("since_loss_s")
    ops = (client.ops.get(name) for name in ("read", "write", "commit"))
    mean_us = max((stats.latency_us or 0.0 for stats in ops if stats is not None), default=0.0)
    longest_s = mean_us / 1e6
    return ago_s is not None and longest_s > client.interval_s and ago_s <= longest_s


def _port_row(tcp: LayerSnapshot | None) -> TableRow | None:
    return next((row for row in rows_of(tcp, "port") if row.key[0] == _PORT), None)
