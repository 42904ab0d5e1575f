"""TCP: payload, retransmissions and round-trip times of all connections."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.defines import offset_defines
from ioh.bpf.probe import Event, Probe
from ioh.bpf.totals import decode_lost
from ioh.bpf.values import FilterValue
from ioh.layers.base import Layer
from ioh.layers.tcp_ledger import (
    CONNECTION,
    ENDING,
    LIVES,
    ConnectionEnd,
    Ledger,
    Traffic,
    decode_endings,
)
from ioh.layers.tcp_tables import (
    ConnectionTable,
    InterfaceTable,
    PortTable,
    RoundTrips,
    round_trips,
)
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.metric import LayerSpec, numbers, tables
from ioh.model.rates import sum_known
from ioh.model.sample import LayerSample, OpTotals, Table, Unavailable, Value
from ioh.procfs.files import path_under, read_numbers
from ioh.procfs.network import LinkTable, read_counters, read_interfaces
from ioh.procfs.sock_diag import Dump, SockDiag

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Maps

_FLOW = """
in_bytes_total      | in B/s   | Payload received.
out_bytes_total     | out B/s  | Payload sent for the first time.
retrans_bytes_total | retr B/s | Payload retransmitted.
retrans_segs_total  | retr/s   | Segments retransmitted.
"""
_BY_BYTES = "in_bytes_per_s, out_bytes_per_s, retrans_bytes_per_s"

SPEC = LayerSpec(
    name="tcp",
    title="tcp",
    rank=30,
    ops=("in", "out"),  # payload bytes; one operation is a segment that carries data
    groups={},
    metrics=numbers(
        """
        retrans_bytes_total    | retr B/s | Payload retransmitted.
        retrans_segs_total     | retr/s   | Segments retransmitted, including SYN and FIN.
        sent_segs_total | seg/s | Segments sent, including retransmissions and pure ACKs.
        received_segs_total    |          | Segments received, after the kernel merged them (GRO).
        retrans_pct = 100 * retrans_segs_total / sent_segs_total | retr% |
            Share of sent segments that were retransmissions.
        srtt_us                | rtt µs   | Smoothed round-trip time, weighted by bytes.
        min_rtt_us | min rtt | Shortest round trip of a connection, weighted by bytes.
        connections            | conns    | Open connections (within this host: both ends).
        active_connections | active | Open and ended connections that moved payload since the last
            reading.
        established            | estab    | Established connections, as the kernel counts them.
        opened_total           | open/s   | Connections opened, by either side.
        ended_total            | end/s    | Connections that ended (needs the probe).
        timeouts_total         | rto/s    | Retransmission timeouts (RTO).
        listen_overflows_total | lovf/s   | Connections refused: accept queue full.
        backlog_drops_total    | bdrop/s  | Segments dropped: socket backlog full.
        in_discards_total      | idisc/s  | Incoming IP packets dropped: out of memory.
        out_discards_total     | odisc/s  | Outgoing IP packets dropped: out of memory.
        """
    ),
    gauge_hists=numbers(
        """
        srtt_us | rtt | Connections that moved payload, by smoothed round-trip time.
        """
    ),
    tables=tables(
        f"""
        connection | connections | local, remote | {_BY_BYTES}
            {_FLOW}
            srtt_us                 | rtt µs   | Smoothed round-trip time.
            min_rtt_us              | min rtt  | Shortest round trip.
            cwnd                    | cwnd     | Congestion window, in segments.
            unacked                 | unack    | Segments sent but not acknowledged.
            notsent_bytes           | unsent   | Bytes in the send buffer, not sent yet.
            delivery_bytes_per_s    | dlv B/s  | Most recent delivery rate.
            busy_us_total           |          | Time with data to send.
            rwnd_limited_us_total   |          | Of it, limited by the peer's receive window.
            sndbuf_limited_us_total |          | Of it, limited by our send buffer.
            busy_pct = 1e-4 * busy_us_total | busy% | Share of time with data to send.
            rwnd_limited_pct = 100 * rwnd_limited_us_total / busy_us_total | rwnd% |
                Share of the busy time limited by the peer's receive window.
            sndbuf_limited_pct = 100 * sndbuf_limited_us_total / busy_us_total | sbuf% |
                Share of the busy time limited by our send buffer.
            needless_segs_total  | | Segments retransmitted that the peer already had (DSACK).
            reordered_segs_total | ooo/s | Segments received out of order: one before them was lost
                or is late.
            since_loss_s | | Seconds since a reading at which a segment had been lost or reordered.
        port | services | port, service | {_BY_BYTES}
            {_FLOW}
            connections         | conns    | Connections that moved payload.
            srtt_us             | rtt µs   | Smoothed round-trip time, weighted by bytes.
            unread_bytes        | unread   | Bytes that have arrived at the service here and that it
                has not read yet.
        interface | interfaces | interface | in_bytes_per_s, out_bytes_per_s
            in_bytes_total           | in B/s  | Bytes received, including headers.
            out_bytes_total          | out B/s | Bytes sent, including headers.
            in_packets_total         | in/s    | Packets received.
            out_packets_total        | out/s   | Packets sent.
            in_drops_total           | idrop/s | Packets dropped on arrival.
            out_drops_total          | odrop/s | Packets dropped before sending.
            in_errors_total          | ierr/s  | Packets received with errors.
            out_errors_total         | oerr/s  | Packets that could not be sent.
            capacity_bytes_total     |         | Bytes that the link could have carried each way.
            out_capacity_bytes_total | | Bytes that could have been sent: a shaper may allow less
                than the link.
            speed_bits_per_s         | bit/s   | The link's speed.
            shaped_bits_per_s        |         | Rate limit of a shaper (tc tbf).
            in_used_pct = 100 * in_bytes_total / capacity_bytes_total | in% |
                Share of the link's speed used by incoming bytes.
            out_used_pct = 100 * out_bytes_total / out_capacity_bytes_total | out% |
                Share of the outgoing capacity used.
        """
    ),
    lost=("map_full", "no_close"),
)

# Connections that end between two ticks; each entry takes about 150 bytes of kernel memory.
MAX_CLOSED = 32768
_SLOW_DUMP_S = 0.1
_NO_PROBE = (
    "No probe: bytes after a connection's last tick are missed, and connections that open and "
    "close between two ticks."
)
_OF_ONE_PORT = (
    "Segments sent and received are only those with payload. Established connections, timeouts, "
    "drops, discards and interfaces are those of the whole host, not only of this port."
)


def _defines(host: HostFacts, filters: Filters) -> Mapping[str, int] | Unavailable:
    """Offsets in struct sock, inet_sock and tcp_sock, and our network namespace."""
    # struct tcp_sock begins with inet_connection_sock, inet_sock, sock and sock_common.
    has_ipv6 = host.btf.offset("sock_common", "skc_v6_daddr") is not None  # CONFIG_IPV6
    offsets = offset_defines(
        host.btf,
        "sock sk_protocol",
        "sock_common skc_family skc_net skc_cookie skc_flags skc_dport skc_daddr skc_rcv_saddr",
        "net ns.inum",
        "inet_sock inet_sport",
        "tcp_sock bytes_received bytes_sent bytes_retrans total_retrans",
        "tcp_sock data_segs_in data_segs_out srtt_us",
        *(["sock_common skc_v6_daddr skc_v6_rcv_saddr"] if has_ipv6 else []),
        *(["tcp_sock write_seq rcv_nxt"] if host.preempted else []),
    )
    if isinstance(offsets, Unavailable):
        return offsets
    defines: dict[str, int] = {
        **offsets,
        "MAX_CLOSED": MAX_CLOSED,
        "SOCK_DONE": host.btf.enumerators("sock_flags").get("SOCK_DONE", 1),
        "NETNS_INUM": FilterValue(Path("/proc/self/ns/net").stat().st_ino),
    }
    if filters.port is not None:
        defines["PORT"] = FilterValue(socket.htons(filters.port))
    return defines


class Tcp(Layer):
    """All TCP connections of this network namespace."""

    spec = SPEC
    probe = Probe(
        SPEC,
        (Event("close", "inet_sock_set_state", function="on_inet_sock_set_state"),),
        _defines,
        structs=(ENDING, CONNECTION, LIVES),
        takes_turns=True,
    )

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._diag: SockDiag | None = None
        self._ledger = Ledger()
        self._connections = ConnectionTable()
        self._ports = PortTable()
        self._interfaces = InterfaceTable(LinkTable(root))

    def read(self, maps: Maps) -> LayerSample:
        """Read one tick: dump first, then drain; see Ledger for the reason."""
        with _no_collection():
            return self._read(maps)

    def read_proc(self) -> LayerSample | Unavailable:
        """Read sock_diag and /proc only."""
        with _no_collection():
            return self._read(None)

    def _read(self, maps: Maps | None) -> LayerSample:
        try:
            dump, traffic, slow = self._read_connections(maps)
        except (OSError, ValueError) as error:
            dump, traffic = None, []
            slow = (f"Connections are unknown: sock_diag: {error}. Try modprobe tcp_diag.",)
        tables: dict[str, Table] = {
            "interface": self._interfaces.update(read_interfaces(), time.monotonic_ns())
        }
        if dump is not None:
            tables["connection"] = self._connections.update(traffic)
            tables["port"] = self._ports.update(traffic, dump.listening)
        rtt = round_trips(traffic)
        lost: dict[str, int] = {}
        if maps is not None:
            lost = {**decode_lost(maps["lost"], SPEC.lost), "no_close": self._ledger.no_close_total}
        return LayerSample(
            source="proc" if maps is None else "bpf",
            ops=self._ops(dump),
            metrics=self._metrics(dump, rtt, maps),
            tables=tables,
            lost=lost,
            gauge_hists={} if dump is None else {"srtt_us": rtt.counts},
            notes=(*([_NO_PROBE] if maps is None else []), *slow, *self._filter_notes()),
        )

    def _read_connections(self, maps: Maps | None) -> tuple[Dump, list[Traffic], tuple[str, ...]]:
        began_s = time.perf_counter()
        if self._diag is None:
            self._diag = SockDiag(self.filters.port, keep_closed=maps is None)
            # Twice: the first pass can skip a connection (see Ledger).  Its whole history would
            # count as traffic of the first interval.
            dumps = [self._diag.dump(None) for _ in range(2)]
            self._ledger.begin(dumps, _drain(maps))
            return dumps[1], [], ()
        dump = self._diag.dump(self._ledger.counters)
        traffic = self._ledger.apply(dump, _drain(maps))
        took_s = time.perf_counter() - began_s
        if took_s < _SLOW_DUMP_S:
            return dump, traffic, ()
        note = (
            f"Reading {len(dump.seen)} connections took {took_s * 1000:.0f} ms in this tick; "
            "--port reads fewer."
        )
        return dump, traffic, (note,)

    def _ops(self, dump: Dump | None) -> dict[str, OpTotals]:
        if dump is None:
            return {"in": OpTotals(), "out": OpTotals()}
        totals = self._ledger.totals
        return {
            "in": OpTotals(count_total=totals.in_segs, bytes_total=totals.in_bytes),
            "out": OpTotals(count_total=totals.out_segs, bytes_total=totals.out_bytes),
        }

    def _metrics(self, dump: Dump | None, rtt: RoundTrips, maps: Maps | None) -> dict[str, Value]:
        values = _kernel_counters(self.root)
        opened, ended = maps["lives"].sum_cpus(maps["lives"].at(0)) if maps is not None else (0, 0)
        if maps is not None and self.filters.port is not None:
            values["opened_total"] = opened
        if dump is None:
            return values
        totals = self._ledger.totals
        values["retrans_bytes_total"] = totals.retrans_bytes
        values["srtt_us"], values["min_rtt_us"] = rtt.srtt_us, rtt.min_rtt_us
        values["connections"] = len(dump.seen)
        values["active_connections"] = rtt.active
        if maps is not None:  # the ledger has those that moved something
            values["ended_total"] = self._ledger.ended_total + ended
        if self.filters.port is not None:
            # The kernel's own counters are not by port.
            values["retrans_segs_total"] = totals.retrans_segs
            values["sent_segs_total"] = totals.out_segs
            values["received_segs_total"] = totals.in_segs
        return values

    def _filter_notes(self) -> tuple[str, ...]:
        notes = (
            *self.filters.note("port"),
            *notes_of_unfiltered(self.filters, "all connections", "port"),
        )
        return notes if self.filters.port is None else (*notes, _OF_ONE_PORT)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's cycle collector out of a tick.

    With 20,000 sockets, a tick makes and drops 10⁵ tuples without any cycle; the collector would
    take a seventh of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _drain(maps: Maps | None) -> list[ConnectionEnd]:
    return [] if maps is None else decode_endings(maps["closed"].drain())


def _kernel_counters(root: Path) -> dict[str, Value]:
    """The kernel's own counters of the whole network namespace."""
    snmp = read_counters("snmp", root)
    extended = read_counters("netstat", root).get("TcpExt", {})
    ipv6 = read_numbers(path_under(root, "proc/net/snmp6"), ("Ip6InDiscards", "Ip6OutDiscards"))
    tcp, ip = snmp.get("Tcp", {}), snmp.get("Ip", {})
    retrans_segs, first_segs = tcp.get("RetransSegs"), tcp.get("OutSegs")
    return {
        "retrans_segs_total": retrans_segs,
        # OutSegs does not include retransmissions.
        "sent_segs_total": (
            None if retrans_segs is None or first_segs is None else first_segs + retrans_segs
        ),
        "received_segs_total": tcp.get("InSegs"),
        "established": tcp.get("CurrEstab"),
        "opened_total": sum_known((tcp.get("ActiveOpens"), tcp.get("PassiveOpens"))),
        "timeouts_total": extended.get("TCPTimeouts"),
        "listen_overflows_total": extended.get("ListenOverflows"),
        "backlog_drops_total": extended.get("TCPBacklogDrop"),
        "in_discards_total": sum_known((ip.get("InDiscards"), ipv6.get("Ip6InDiscards"))),
        "out_discards_total": sum_known((ip.get("OutDiscards"), ipv6.get("Ip6OutDiscards"))),
    }
