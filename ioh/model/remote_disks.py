"""Disks on the network: what is known of the way to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ioh.model.connections import end_of, host_of, round_trip_us
from ioh.model.snapshot import Snapshot, TableRow

_NBD = re.compile(r"nbd\d+")
_NBD_PORT = ":10809"
_OVER_TCP = frozenset({"nvme/tcp", "iscsi", "nbd"})


@dataclass(frozen=True, slots=True)
class RemoteDisk:
    """A disk whose requests cross the network.

    Shape:
        ``end``: protocol and endpoint, ``nvme/tcp 10.0.0.9:4420``.

    Units:
        ``round_trip_us``: TCP's smoothed round-trip time on its connections, in µs; None if not
        known.
    """

    end: str
    round_trip_us: float | None


def remote_disks(snapshot: Snapshot) -> dict[str, RemoteDisk]:
    """The remote disks by device name."""
    connections = snapshot.rows("tcp", "connection")
    ends: dict[str, str] = {}
    for row in snapshot.rows("block", "device"):
        name, on = row.key[0], row.key[-1]
        if on.startswith(f"{name} on ") and not row.values.get("stacked"):
            ends[name] = on.removeprefix(f"{name} on ")
        elif _NBD.fullmatch(name) and (peer := _nbd_peer(connections)):
            ends[name] = f"nbd {peer}"
    return {name: RemoteDisk(end, _round_trip_us(connections, end)) for name, end in ends.items()}


def network_us_per_s(snapshot: Snapshot, op: str) -> float:
    """The round trips of all remote disks' requests: µs a second, at most their service time."""
    parts = snapshot.measured["block"].parts if "block" in snapshot.measured else {}
    total = 0.0
    for name, disk in remote_disks(snapshot).items():
        stats = parts.get(name, {}).get(op)
        if stats is not None and stats.ops_per_s and disk.round_trip_us:
            took = stats.service_us or stats.latency_us or 0.0
            total += stats.ops_per_s * min(took, disk.round_trip_us)
    return total


def _nbd_peer(connections: Sequence[TableRow]) -> str:
    """The only server of NBD; "" if there are several or none: sysfs does not tell which."""
    peers = {row.key[1] for row in connections if row.key[1].endswith(_NBD_PORT)}
    return peers.pop() if len(peers) == 1 else ""


def _round_trip_us(connections: Sequence[TableRow], end: str) -> float | None:
    protocol, _, endpoint = end.partition(" ")
    if protocol not in _OVER_TCP or not host_of(endpoint):
        return None
    return round_trip_us(row for row in connections if end_of(row.key[1]) == end_of(endpoint))
