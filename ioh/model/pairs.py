"""NFS between hosts that are measured together: the server's part of a call's time.

The client's mean round trip minus the server's mean time is network and RPC.  Both are means over
the calls of an interval, each by its own host's clock, so the clocks need not agree.  If both ends
sample calls, the network time of each call in both samples is known, too.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import isfinite

from ioh.model.calls import CALL_OPS, network_hists
from ioh.model.connections import address_of, host_of
from ioh.model.path import disk_shares
from ioh.model.rates import sum_known, weighted_mean
from ioh.model.sample import Sample
from ioh.model.snapshot import LayerSnapshot, OpStats, Pair, PairOp, Snapshot, TableRow

OPS = CALL_OPS
_NFS_PORT = ":2049"
_GOOD_CLOCK_S = 0.05


@dataclass(frozen=True, slots=True)
class HostInterval:
    """One host's part of an interval.

    Shape:
        ``addresses``: its own, as text.  ``samples``: the two samples of the interval, with times
        of ``snapshot``'s clock; None if they are not kept.
    """

    name: str
    addresses: tuple[str, ...]
    snapshot: Snapshot
    samples: tuple[Sample, Sample] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class HostState:
    """The state of a host.

    Shape:
        ``is_here``: its intervals arrive.  ``why``: why they do not, or what is missing in them;
        printable.  ``is_recorded``: only recorded values of its clock are known.

    Units:
        ``lost_s``: time since the last interval, None if there was none or ``is_here``.
        ``offset_s``: of its clock, positive if it is ahead, with an error of at most ``error_s``;
        None if unknown.
    """

    name: str
    is_here: bool
    lost_s: float | None = None
    why: str = ""
    offset_s: float | None = None
    error_s: float | None = None
    is_recorded: bool = False

    @property
    def clock_is_good(self) -> bool:
        """Whether its clock is known to 50 ms, or will never be known better."""
        return self.is_recorded or (self.error_s is not None and self.error_s <= _GOOD_CLOCK_S)


@dataclass(frozen=True, slots=True)
class Round:
    """The matching intervals of all hosts, and the state of every host, lost ones included.

    A single machine is a stack of one: its rounds have one interval, without a host's name.

    Shape:
        ``pairs`` of the hosts, once they are known.

    Units:
        ``time_unix_s``: the first end of an interval, by a steady clock of ours.
    """

    time_unix_s: float
    intervals: tuple[HostInterval, ...]
    states: tuple[HostState, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def interval_s(self) -> float:
        """The length of its longest interval; 0 without any."""
        return max((interval.snapshot.interval_s for interval in self.intervals), default=0.0)

    @property
    def snapshot(self) -> Snapshot:
        """The interval of a single machine."""
        return self.intervals[0].snapshot


def pairs(
    hosts: Sequence[HostInterval], earlier: set[tuple[str, str]] | None = None
) -> tuple[Pair, ...]:
    """Every client with every host that serves one of its mounts.

    An address of several hosts (a container bridge) identifies none of them.  New pairs are added
    to ``earlier``: an idle client does not list its server, which may still have served it.
    """
    earlier = set() if earlier is None else earlier
    own = {host.name: set(_addresses(host.addresses)) for host in hosts}
    count = Counter(address for addresses in own.values() for address in addresses)
    shared = {address for address, times in count.items() if times > 1}
    own = {name: addresses - shared for name, addresses in own.items()}
    every = (
        _pair(client, server, own, count, earlier) for client, server in permutations(hosts, 2)
    )
    return tuple(pair for pair in every if pair is not None)


def with_own_pairs(snapshot: Snapshot, every: Sequence[Pair], own: str) -> Snapshot:
    """Add the pairs of which this host is the client, as the rules expect."""
    pairs_of = tuple(pair for pair in every if pair.client == own)
    return replace(snapshot, pairs=pairs_of, name=own)


def _pair(
    client: HostInterval,
    server: HostInterval,
    own: Mapping[str, set[str]],
    addresses: Container[str],
    earlier: set[tuple[str, str]],
) -> Pair | None:
    ours, theirs = own[client.name], own[server.name]
    layer = client.snapshot.layer("nfs_client")
    server_rows = client.snapshot.rows("nfs_client", "server")
    servers = [(row, address_of(row.key[-1])) for row in server_rows if row.key]
    rows = [row for row, address in servers if address in theirs]
    both = (client.name, server.name)
    if layer is None or not (rows or both in earlier):
        return None
    earlier.add(both)
    # A part has only the server's name, which several servers can share (round-robin DNS).
    elsewhere = {row.key[0] for row, address in servers if address and address not in theirs}
    begins = tuple(f"{row.key[0]}:/" for row in rows if row.key[0] not in elsewhere)
    mounts = [ops for part, ops in layer.parts.items() if part.startswith(begins)]
    there = server.snapshot.layer("nfs_server")
    served = server.snapshot.rows("nfs_server", "client")
    by_address = [(row, host_of(row.key[0])) for row in served if row.key]
    clients = [row for row, address in by_address if address in ours]
    # Behind NAT, or if the table is full, this client's calls can be in a stranger's row.
    is_whole = all(address in addresses for _, address in by_address)
    by_op = {op: _op(op, mounts, there, clients, is_whole=is_whole) for op in OPS}
    by_op = {op: _with_disk(op, stats, server.snapshot) for op, stats in by_op.items()}
    if there is not None and all(each.calls or each.earlier_calls for each in (layer, there)):
        network = network_hists(
            (layer.calls, layer.earlier_calls),
            (there.calls, there.earlier_calls),
            lambda text: address_of(text) in ours,
            lambda text: address_of(text) in theirs,
        )
        by_op = {op: replace(stats, network=network[op]) for op, stats in by_op.items()}
    if not rows:
        by_op = {op: replace(stats, client_calls=0) for op, stats in by_op.items()}
        if not any(stats.server_calls for stats in by_op.values()):
            return None
    tcp = [
        row
        for row in client.snapshot.rows("tcp", "connection")
        if len(row.key) == 2 and host_of(row.key[1]) in theirs and row.key[1].endswith(_NFS_PORT)
    ]
    return Pair(
        client.name,
        server.name,
        {op: stats for op, stats in by_op.items() if stats.client_calls or stats.server_calls},
        sum_known(row.values.get("retransmits_per_s") for row in rows),
        sum_known(row.values.get("retrans_segs_per_s") for row in tcp),
        weighted_mean((1.0, row.values.get("srtt_us")) for row in tcp),
        server.snapshot,
    )


def _op(
    op: str,
    mounts: Iterable[Mapping[str, OpStats]],
    there: LayerSnapshot | None,
    clients: Sequence[TableRow],
    *,
    is_whole: bool,
) -> PairOp:
    ours = [stats for ops in mounts if (stats := ops.get(op)) is not None]
    calls = [row.values.get(f"{op}s_per_s") for row in clients]
    served = sum_known(calls)
    if served is None and is_whole and there is not None and there.source == "bpf":
        served = 0.0  # this host made no call
    seconds = 0.0 if there is None else there.interval_s
    times_us = [row.values.get(f"{op}_latency_us") for row in clients]
    return PairOp(
        _count(sum_known(stats.count for stats in ours)),
        None if served is None else _count(served * seconds),
        weighted_mean((stats.ops_per_s, stats.service_us) for stats in ours),
        weighted_mean(zip(calls, times_us, strict=True)),
    )


def _with_disk(op: str, stats: PairOp, there: Snapshot) -> PairOp:
    """Add the part of the server's disk."""
    if stats.server_us is None:
        return stats
    queue, device = disk_shares(there, "sync" if op == "commit" else op)
    us = stats.server_us
    return replace(
        stats,
        block_queue_us=None if queue is None else us * queue,
        device_us=None if device is None else us * device,
    )


def _addresses(texts: Iterable[str]) -> Iterator[str]:
    """The addresses by which other hosts can reach this one, normalized."""
    for text in texts:
        address = address_of(text)
        if address and not ipaddress.ip_address(address).is_loopback:
            yield address


def _count(value: float | None) -> int | None:
    return None if value is None or not isfinite(value) else round(value)
