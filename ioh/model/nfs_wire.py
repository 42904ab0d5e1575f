"""What is known about the network between NFS mounts and their servers.

docs/path.md says how the path uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioh.model.addresses import address_of, host_of
from ioh.model.rates import sum_known, weighted_mean
from ioh.model.snapshot import LayerSnapshot, Snapshot, TableRow, rows_of

_PORT = "2049"


@dataclass(frozen=True, slots=True)
class NfsWire:
    """The connections of this host's NFS mounts, over one interval.

    Shape:
        ``is_lossy``: segments were lost, in either direction.  Calls that wait for a lost segment
        are not in the round-trip time, so it does not tell network and server apart.
        ``is_server_local``: whether the servers run on this machine; None if not known, or if some
        do and some do not.

    Units:
        ``round_trip_us``: TCP's smoothed round-trip time, in µs; None if not known.
    """

    round_trip_us: float | None = None
    is_lossy: bool = False
    is_server_local: bool | None = None


def nfs_wire(snapshot: Snapshot) -> NfsWire:
    """The connections to the servers that the mounts use in this interval."""
    layers = snapshot.measured
    servers = {address_of(row.key[-1]) for row in rows_of(layers.get("nfs_client"), "server")}
    tcp = layers.get("tcp")
    ours = [row for row in rows_of(tcp, "connection") if _is_to(row, servers - {""})]
    by_bytes = weighted_mean(
        (_bytes_per_s(row), row.values.get("srtt_us")) for row in ours
    )  # a large connection carries more calls
    here = {_is_local(row, layers) for row in ours}
    return NfsWire(
        by_bytes if ours else _of_port(tcp),
        any(row.values.get("retrans_segs_per_s") for row in ours),
        here.pop() if len(here) == 1 else None,
    )


def _is_to(row: TableRow, servers: set[str]) -> bool:
    """Whether a connection was made from here to an NFS server."""
    remote = row.key[1]
    is_nfs = remote.endswith(f":{_PORT}")
    return is_nfs and (not servers or host_of(remote) in servers)


def _bytes_per_s(row: TableRow) -> float | None:
    return sum_known(row.values.get(f"{way}_bytes_per_s") for way in ("in", "out"))


def _is_local(row: TableRow, layers: dict[str, LayerSnapshot]) -> bool:
    """Whether this machine has the other end of a connection."""
    local, remote = row.key
    ends = {host_of(each.key[0]) for each in rows_of(layers["tcp"], "connection")}
    clients = {each.key[0] for each in rows_of(layers.get("nfs_server"), "client")}
    return host_of(remote) in ends or local in clients


def _of_port(tcp: LayerSnapshot | None) -> float | None:
    """The round-trip time of all connections to the port, in a recording without the mounts'."""
    rows = (row for row in rows_of(tcp, "port") if row.key[0] == _PORT)
    return next((value for row in rows if (value := row.values.get("srtt_us")) is not None), None)
