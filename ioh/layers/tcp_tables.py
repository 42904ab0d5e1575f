"""Breakdowns of the tcp layer: connections, service ports, interfaces, round-trip times."""

from __future__ import annotations

import heapq
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from operator import add, attrgetter
from typing import Any

from ioh.layers.tcp_ledger import Traffic
from ioh.model.hist import LATENCY_BUCKETS, latency_index
from ioh.model.printable import printable
from ioh.model.rows import FOREVER, Rows
from ioh.model.sample import OTHERS, Row, Table
from ioh.procfs.network import LinkTable
from ioh.procfs.sock_diag import NO_DETAILS, Details, decode_details, unread_bytes

# Busiest connections added per tick, and most rows including earlier ones.
CONNECTIONS_PER_TICK = 40
MAX_ROWS = 200
# A dropped row that comes back starts at 0 again, so keep it for a while.
_IDLE_TICKS = 10

# Storage and databases; /etc/services of a small system lacks half of them.
_SERVICES = {
    111: "rpcbind",
    445: "smb",
    860: "iscsi",
    1521: "oracle",
    2049: "nfs",
    3260: "iscsi",
    3300: "ceph-mon",
    3306: "mysql",
    4420: "nvme",
    5432: "postgresql",
    6379: "redis",
    6789: "ceph-mon",
    7789: "drbd",
    9042: "cassandra",
    9092: "kafka",
    9200: "elasticsearch",
    11211: "memcached",
    20048: "mountd",
    24007: "glusterd",
    27017: "mongodb",
}


_PORTS = struct.Struct("!HH")
_TO_NFS = struct.pack("!H", 2049)


@cache
def service_name(port: int) -> str:
    """The usual service of a port; "" if unknown."""
    name = _SERVICES.get(port)
    if name is not None:
        return name
    try:
        return printable(socket.getservbyport(port, "tcp"))
    except OSError:
        return ""


def service_port(local_port: int, remote_port: int, listening: AbstractSet[int]) -> int:
    """The server side's port: the one that listens here, else a known one, else the lower one."""
    if local_port in listening:
        return local_port
    if remote_port in listening:  # the client end of a connection within this host
        return remote_port
    # An NFS client's own port is below 1024, and may be another service's: 860.
    ports = [port for port in (local_port, remote_port) if port in _SERVICES]
    return max(ports) if ports else min(local_port, remote_port)


@dataclass(slots=True)
class _Flow:
    """Running totals of one row since it was listed."""

    in_bytes: int = 0
    out_bytes: int = 0
    retrans_bytes: int = 0
    retrans_segs: int = 0
    idle_ticks: int = 0

    def add(self, traffic: Traffic) -> None:
        # Ignore -1 (see Traffic): a row must not decrease.
        self.in_bytes += max(0, traffic.in_bytes)
        self.out_bytes += traffic.out_bytes
        self.retrans_bytes += traffic.retrans_bytes
        self.retrans_segs += traffic.retrans_segs
        self.idle_ticks = 0

    @property
    def carried(self) -> tuple[int, ...]:
        return self.in_bytes, self.out_bytes, self.retrans_bytes, self.retrans_segs


@dataclass(slots=True)
class _Connection(_Flow):
    """A listed connection; gauges are as of its last change."""

    cookie: int = 0
    has_ended: bool = False
    srtt_us: int | None = None
    min_rtt_us: int | None = None
    details: Details = NO_DETAILS
    totals: tuple[int, ...] | None = None
    lost_at_s: float | None = None

    def update(self, traffic: Traffic, now_s: float) -> None:
        self.add(traffic)
        self.srtt_us = traffic.srtt_us or None
        self.has_ended = not traffic.message
        if traffic.message:
            before = self.details if self.cookie == traffic.cookie else None
            self.cookie = traffic.cookie
            self.details = decode_details(traffic.message)
            self.min_rtt_us = traffic.min_rtt_us or None
            needless, reordered = self._add_totals(before)
            if traffic.retrans_segs > needless or reordered:
                self.lost_at_s = now_s

    def _add_totals(self, before: Details | None) -> tuple[int, int]:
        """Return what the last two have grown by."""
        if before is None or self.details.sndbuf_limited_us is None:
            # Newly listed: this tick's part of the kernel's total is unknown.
            self.totals = None
            return 0, 0
        total = self.totals or (0,) * len(self.details[4:])
        pairs = zip(before[4:], self.details[4:], strict=True)
        growth = [max(0, (new or 0) - (old or 0)) for old, new in pairs]
        self.totals = tuple(map(add, total, growth))
        return growth[-2], growth[-1]

    def row(self, now_s: float) -> Row:
        # At the end, the probe does not read them.
        totals = None if self.has_ended else self.totals
        return (
            *self.carried,
            self.srtt_us,
            self.min_rtt_us,
            *self.details[:4],
            *(totals or (None,) * len(NO_DETAILS[4:])),
            None if self.lost_at_s is None else now_s - self.lost_at_s,
        )


class ConnectionTable:
    """The busiest connections, and those to NFS servers.

    A listed one stays until it has been idle for a while.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rows: dict[tuple[str, str], _Connection] = {}
        self._keys: dict[int, tuple[str, str]] = {}

    def update(self, traffic: list[Traffic]) -> Table:
        """Add one tick; return rows by (local, remote): the busiest of the last few ticks."""
        now_s = self._clock()
        for connection in self._rows.values():
            connection.idle_ticks += 1
        busiest = heapq.nlargest(CONNECTIONS_PER_TICK, traffic, key=attrgetter("all_bytes"))
        by_id = {id(m): m for m in busiest}
        if len(traffic) > len(busiest):
            keys = self._keys
            by_id.update((id(m), m) for m in traffic if m.cookie in keys or m.pair[2:4] == _TO_NFS)
        for item in by_id.values():
            key = self._keys.get(item.cookie) or item.ends
            self._rows.setdefault(key, _Connection()).update(item, now_s)
            if item.message:
                self._keys[item.cookie] = key
        self._drop_idle()
        return {key: connection.row(now_s) for key, connection in self._rows.items()}

    def _drop_idle(self) -> None:
        by_age = sorted(self._rows.items(), key=lambda item: item[1].idle_ticks)
        self._rows = {
            key: connection
            for key, connection in by_age[:MAX_ROWS]
            if connection.idle_ticks < (1 if connection.has_ended else _IDLE_TICKS)
        }
        self._keys = {
            connection.cookie: key
            for key, connection in self._rows.items()
            if connection.cookie and not connection.has_ended
        }


@dataclass(slots=True)
class _Port(_Flow):
    """What moved in one tick."""

    connections: int = 0
    unread_bytes: int | None = None
    weighted_us: int = 0
    weight: int = 0

    def take(self, item: Traffic, *, is_here: bool) -> None:
        self.add(item)
        self.connections += 1
        if item.message and is_here:
            self.unread_bytes = (self.unread_bytes or 0) + unread_bytes(item.message)
        if item.srtt_us:
            self.weighted_us += item.srtt_us * item.all_bytes
            self.weight += item.all_bytes


_IDLE_PORT = (0, None, None)


class PortTable:
    """All traffic by service port, however many connections carried it."""

    def __init__(self) -> None:
        self._rows = Rows(2, MAX_ROWS, FOREVER, facts=len(_IDLE_PORT))

    def update(self, traffic: list[Traffic], listening: AbstractSet[int]) -> Table:
        """Add one tick; ``listening``: the listening ports of this host.

        Returns rows by (port, service); of more than MAX_ROWS, the most recently active ones.
        """
        ports: defaultdict[int, _Port] = defaultdict(_Port)
        for item in traffic:
            local_port, remote_port = _PORTS.unpack_from(item.pair)
            port = service_port(local_port, remote_port, listening)
            ports[port].take(item, is_here=port == local_port)
        active = set()
        for port, now in sorted(ports.items(), key=lambda each: each[1].weight):
            key = str(port), service_name(port)
            mean_us = now.weighted_us / now.weight if now.weight else None
            self._rows.add(key, now.carried, (now.connections, mean_us, now.unread_bytes))
            active.add(key)
        return {
            key: row if key in active or key[0] == OTHERS else (*row[:-3], *_IDLE_PORT)
            for key, row in self._rows.table().items()
        }


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Round-trip times of the connections that moved payload since the last reading.

    Shape:
        ``counts``: connections by smoothed time, over LATENCY_EDGES_US.  ``srtt_us`` and
        ``min_rtt_us`` are means weighted by bytes, None if nothing moved.  They differ by queueing
        and delayed acknowledgements.  Ended connections have no shortest time.
    """

    active: int
    counts: tuple[int, ...]
    srtt_us: float | None
    min_rtt_us: float | None


def round_trips(traffic: list[Traffic]) -> RoundTrips:
    """Summarize all connections of a tick in one pass."""
    counts = [0] * LATENCY_BUCKETS
    active = sum_us = weight = min_sum_us = min_weight = 0
    for item in traffic:
        size, srtt_us, min_rtt_us = item.all_bytes, item.srtt_us, item.min_rtt_us
        if size <= 0:
            continue
        active += 1
        if srtt_us:
            counts[latency_index(srtt_us)] += 1
            sum_us += srtt_us * size
            weight += size
        if min_rtt_us:
            min_sum_us += min_rtt_us * size
            min_weight += size
    return RoundTrips(
        active,
        tuple(counts),
        sum_us / weight if weight else None,
        min_sum_us / min_weight if min_weight else None,
    )


class InterfaceTable:
    """Network interfaces: bytes carried, and the capacity over the same time."""

    def __init__(self, links: LinkTable) -> None:
        self._links = links
        self._capacity_bytes: dict[str, tuple[float, float]] = {}  # inwards, outwards
        self._last_mono_ns: int | None = None

    def update(self, interfaces: dict[str, Any], mono_ns: int) -> Table:
        """Add one reading of read_interfaces(), taken at ``mono_ns``."""
        elapsed_s = 0.0 if self._last_mono_ns is None else (mono_ns - self._last_mono_ns) / 1e9
        self._last_mono_ns = mono_ns
        rows: dict[tuple[str, ...], Row] = {}
        for name, counters in interfaces.items():
            speed, shaped = self._links.get(name)
            out = min((rate for rate in (speed, shaped) if rate is not None), default=None)
            old = self._capacity_bytes.get(name, (0.0, 0.0))
            capacity, out_capacity = (
                total + (rate or 0) / 8 * elapsed_s
                for total, rate in zip(old, (speed, out), strict=True)
            )
            self._capacity_bytes[name] = capacity, out_capacity
            rows[printable(name),] = (
                counters.bytes_recv,
                counters.bytes_sent,
                counters.packets_recv,
                counters.packets_sent,
                counters.dropin,
                counters.dropout,
                counters.errin,
                counters.errout,
                None if speed is None else round(capacity),
                None if out is None else round(out_capacity),
                speed,
                shaped,
            )
        self._capacity_bytes = {name: self._capacity_bytes[name] for name in interfaces}
        return rows
