"""TCP: what connections carried, sent again, and how long a round trip took."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ioh.bpf.totals import decode_lost, hist_defines
from ioh.layers.base import Event, Layer, members_of, offset_defines
from ioh.layers.tcp_ledger import ConnectionEnd, Ledger, Moved, decode_endings
from ioh.layers.tcp_tables import (
    ConnectionTable,
    InterfaceTable,
    PortTable,
    RoundTrips,
    round_trips,
)
from ioh.model.filters import Filters, notes_of_unfiltered
from ioh.model.metric import LayerSpec, TableSpec, counter, gauge, ratio
from ioh.model.sample import LayerSample, OpTotals, Table, Unavailable, Value
from ioh.procfs.files import path_under, read_numbers
from ioh.procfs.interfaces import LinkTable, read_interfaces
from ioh.procfs.netstat import read_counters
from ioh.procfs.sock_diag import Dump, SockDiag

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Maps

_FLOW = (
    counter("in_bytes_total", "Payload received.", "in B/s"),
    counter("out_bytes_total", "Payload sent for the first time.", "out B/s"),
    counter("retrans_bytes_total", "Payload sent again.", "retr B/s"),
    counter("retrans_segs_total", "Segments sent again.", "retr/s"),
)
_BY_BYTES = ("in_bytes_per_s", "out_bytes_per_s", "retrans_bytes_per_s")

SPEC = LayerSpec(
    name="tcp",
    title="tcp",
    rank=30,
    ops=("in", "out"),  # payload bytes; one operation is a segment that carries data
    groups={},
    metrics=(
        counter("retrans_bytes_total", "Payload sent again.", "retr B/s"),
        counter("retrans_segs_total", "Segments sent again, SYN and FIN included.", "retr/s"),
        counter("sent_segs_total", "Segments sent, repeats and bare ACKs included.", "seg/s"),
        counter("received_segs_total", "Segments received, as the kernel joined them.", ""),
        ratio("retrans_pct", "retrans_segs_total", "sent_segs_total",
              "Share of the segments sent that were sent again.", scale=100.0, title="retr%"),
        gauge("srtt_us", "Smoothed round-trip time, mean over the bytes moved.", "rtt µs"),
        gauge("min_rtt_us", "Shortest round trip of a connection, mean over the bytes moved.",
              "min rtt"),
        gauge("connections", "Open connections (both ends of one within this host).", "conns"),
        gauge("active_connections", "Of these, and of those that ended, the ones that moved "
              "payload since the reading before.", "active"),
        gauge("established", "Connections established, as the kernel counts.", "estab"),
        counter("opened_total", "Connections opened, by either side.", "open/s"),
        counter("ended_total", "Connections that ended; needs the probe.", "end/s"),
        counter("timeouts_total", "Retransmission timeouts (RTO).", "rto/s"),
        counter("listen_overflows_total", "Connections refused: accept queue full.", "lovf/s"),
        counter("backlog_drops_total", "Segments dropped: the socket's backlog full.", "bdrop/s"),
        counter("in_discards_total", "IP packets in, dropped for want of memory.", "idisc/s"),
        counter("out_discards_total", "IP packets out, dropped for want of memory.", "odisc/s"),
    ),
    gauge_hists=(
        gauge("srtt_us", "Connections that moved payload, by smoothed round-trip time.", "rtt"),
    ),
    tables=(
        TableSpec(
            "connection",
            "connections",
            ("local", "remote"),
            (
                *_FLOW,
                gauge("srtt_us", "Smoothed round-trip time.", "rtt µs"),
                gauge("min_rtt_us", "Shortest round trip.", "min rtt"),
                gauge("cwnd", "Congestion window, in segments.", "cwnd"),
                gauge("unacked", "Segments sent and not acknowledged.", "unack"),
                gauge("notsent_bytes", "In the send buffer, not sent yet.", "unsent"),
                gauge("delivery_bytes_per_s", "Rate at which data last arrived.", "dlv B/s"),
                counter("busy_us_total", "Time with data to send.", ""),
                counter("rwnd_limited_us_total", "Of it, held up by the peer's window.", ""),
                counter("sndbuf_limited_us_total", "Of it, held up by our send buffer.", ""),
                ratio("busy_pct", "busy_us_total", "", "Share of time with data to send.",
                      scale=1e-4, title="busy%"),
                ratio("rwnd_limited_pct", "rwnd_limited_us_total", "busy_us_total",
                      "Share of the busy time that the peer's window held up.",
                      scale=100.0, title="rwnd%"),
                ratio("sndbuf_limited_pct", "sndbuf_limited_us_total", "busy_us_total",
                      "Share of the busy time that our send buffer held up.",
                      scale=100.0, title="sbuf%"),
            ),
            _BY_BYTES,
        ),
        TableSpec(
            "port",
            "services",
            ("port", "service"),
            (
                *_FLOW,
                gauge("connections", "Connections that moved payload.", "conns"),
                gauge("srtt_us", "Smoothed round-trip time, mean over the bytes.", "rtt µs"),
            ),
            _BY_BYTES,
        ),
        TableSpec(
            "interface",
            "interfaces",
            ("interface",),
            (
                counter("in_bytes_total", "Bytes received, with headers.", "in B/s"),
                counter("out_bytes_total", "Bytes sent, with headers.", "out B/s"),
                counter("in_packets_total", "Packets received.", "in/s"),
                counter("out_packets_total", "Packets sent.", "out/s"),
                counter("in_drops_total", "Packets dropped on arrival.", "idrop/s"),
                counter("out_drops_total", "Packets dropped before sending.", "odrop/s"),
                counter("in_errors_total", "Packets received broken.", "ierr/s"),
                counter("out_errors_total", "Packets that could not be sent.", "oerr/s"),
                counter("capacity_bytes_total", "What the link could have carried each way.", ""),
                counter("out_capacity_bytes_total", "What could have been sent: a shaper may let "
                        "less out than the link carries.", ""),
                gauge("speed_bits_per_s", "The link's speed.", "bit/s"),
                gauge("shaped_bits_per_s", "What a shaper (tc tbf) lets out.", ""),
                ratio("in_used_pct", "in_bytes_total", "capacity_bytes_total",
                      "Share of the speed used inwards.", scale=100.0, title="in%"),
                ratio("out_used_pct", "out_bytes_total", "out_capacity_bytes_total",
                      "Share used of what can be sent.", scale=100.0, title="out%"),
            ),
            ("in_bytes_per_s", "out_bytes_per_s"),
        ),
    ),
    lost=("map_full", "no_close"),
)  # fmt: skip

# Entries, each some 150 bytes of kernel memory: connections that end between two ticks.
MAX_CLOSED = 32768
_SLOW_DUMP_S = 0.1
_NO_PROBE = (
    "No probe: what a connection moves after its last tick is missed, and all of one that opens "
    "and closes between two."
)
_OF_ONE_PORT = (
    "Segments sent and received are those with payload. Established connections, timeouts, drops, "
    "discards and interfaces are the whole host's, not only this port's."
)


class Tcp(Layer):
    """All TCP connections of this network namespace."""

    spec = SPEC
    probe = "tcp"
    events = (Event("close", "inet_sock_set_state", function="on_inet_sock_set_state"),)
    takes_turns = True

    def __init__(self, filters: Filters, root: Path = Path("/")) -> None:
        super().__init__(filters, root)
        self._diag: SockDiag | None = None
        self._ledger = Ledger()
        self._connections = ConnectionTable()
        self._ports = PortTable()
        self._interfaces = InterfaceTable(LinkTable(root))

    @classmethod
    def defines(cls, host: HostFacts, filters: Filters) -> Mapping[str, int | str] | Unavailable:
        """Offsets in struct sock, inet_sock and tcp_sock, and our network namespace."""
        # struct tcp_sock begins with inet_connection_sock, inet_sock, sock and sock_common.
        wanted = members_of(
            "sock sk_protocol",
            "sock_common skc_family skc_net skc_cookie skc_flags skc_dport skc_daddr skc_rcv_saddr",
            "net ns.inum",
            "inet_sock inet_sport",
            "tcp_sock bytes_received bytes_sent bytes_retrans total_retrans",
            "tcp_sock data_segs_in data_segs_out srtt_us",
        )
        if host.btf.offset("sock_common", "skc_v6_daddr") is not None:  # CONFIG_IPV6
            wanted += members_of("sock_common skc_v6_daddr skc_v6_rcv_saddr")
        if cls.copies(host) > 1:
            wanted += members_of("tcp_sock write_seq rcv_nxt")
        offsets = offset_defines(host.btf, wanted)
        if isinstance(offsets, Unavailable):
            return offsets
        defines: dict[str, int | str] = {
            **hist_defines(),
            **offsets,
            "LOST_REASONS": len(SPEC.lost),
            "MAX_CLOSED": MAX_CLOSED,
            "SOCK_DONE": host.btf.enumerators("sock_flags").get("SOCK_DONE", 1),
            "NETNS_INUM": Path("/proc/self/ns/net").stat().st_ino,
        }
        if filters.port is not None:
            defines["PORT"] = socket.htons(filters.port)
        return defines

    def read(self, maps: Maps) -> LayerSample:
        """One tick: dump first, then drain; Ledger says why in this order."""
        lost = decode_lost(maps["lost"], SPEC.lost)
        with _no_collection():
            sample = self._read("bpf", maps, ())
        opened, ended = maps["lives"].sum_cpus(maps["lives"].at(0))
        metrics: dict[str, Value] = dict(sample.metrics)
        if "ended_total" in metrics:  # those that moved something are known one by one
            metrics["ended_total"] = self._ledger.ended_total + ended
        if self.filters.port is not None:
            metrics["opened_total"] = opened
        lost["no_close"] = self._ledger.no_close_total
        return replace(sample, metrics=metrics, lost=lost)

    def read_proc(self) -> LayerSample | Unavailable:
        """The same from sock_diag and /proc alone."""
        with _no_collection():
            return self._read("proc", None, (_NO_PROBE,))

    def _read(self, source: str, maps: Maps | None, notes: tuple[str, ...]) -> LayerSample:
        try:
            dump, moved, slow = self._read_connections(maps)
        except (OSError, ValueError) as error:
            dump, moved = None, []
            slow = (f"Connections are not known: sock_diag: {error}; modprobe tcp_diag may help.",)
        tables: dict[str, Table] = {
            "interface": self._interfaces.update(read_interfaces(), time.monotonic_ns())
        }
        if dump is not None:
            tables["connection"] = self._connections.update(moved)
            tables["port"] = self._ports.update(moved, dump.listening)
        rtt = round_trips(moved)
        return LayerSample(
            source=source,
            ops=self._ops(dump),
            metrics=self._metrics(dump, rtt, has_probe=maps is not None),
            tables=tables,
            gauge_hists={} if dump is None else {"srtt_us": rtt.counts},
            notes=(*notes, *slow, *self._filter_notes()),
        )

    def _read_connections(self, maps: Maps | None) -> tuple[Dump, list[Moved], tuple[str, ...]]:
        began_s = time.perf_counter()
        if self._diag is None:
            self._diag = SockDiag(self.filters.port, keep_closed=maps is None)
            # Twice: the first pass can skip a connection (Ledger), whose whole history would
            # count as the first interval's traffic.
            dumps = [self._diag.dump(None) for _ in range(2)]
            self._ledger.begin(dumps, _drain(maps))
            return dumps[1], [], ()
        dump = self._diag.dump(self._ledger.known)
        moved = self._ledger.apply(dump, _drain(maps))
        took_s = time.perf_counter() - began_s
        if took_s < _SLOW_DUMP_S:
            return dump, moved, ()
        note = (
            f"Reading {len(dump.seen)} connections took {took_s * 1000:.0f} ms of this tick; "
            "--port reads fewer."
        )
        return dump, moved, (note,)

    def _ops(self, dump: Dump | None) -> dict[str, OpTotals]:
        if dump is None:
            return {"in": OpTotals(), "out": OpTotals()}
        totals = self._ledger.totals
        return {
            "in": OpTotals(count_total=totals.in_segs, bytes_total=totals.in_bytes),
            "out": OpTotals(count_total=totals.out_segs, bytes_total=totals.out_bytes),
        }

    def _metrics(self, dump: Dump | None, rtt: RoundTrips, *, has_probe: bool) -> dict[str, Value]:
        values = _kernel_counters(self.root)
        if dump is None:
            return values
        totals = self._ledger.totals
        values["retrans_bytes_total"] = totals.retrans_bytes
        values["srtt_us"], values["min_rtt_us"] = rtt.srtt_us, rtt.min_rtt_us
        values["connections"] = len(dump.seen)
        values["active_connections"] = rtt.active
        if has_probe:
            values["ended_total"] = self._ledger.ended_total
        if self.filters.port is not None:
            # The kernel's own counters know no port.
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

    With 20,000 sockets a tick makes and drops 10⁵ tuples, none of them in a cycle; walking them
    again and again would be a seventh of its time.
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


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _kernel_counters(root: Path) -> dict[str, Value]:
    """What the kernel counts for the whole network namespace, exactly."""
    snmp = read_counters("snmp", root)
    extended = read_counters("netstat", root).get("TcpExt", {})
    ipv6 = read_numbers(path_under(root, "proc/net/snmp6"), ("Ip6InDiscards", "Ip6OutDiscards"))
    tcp, ip = snmp.get("Tcp", {}), snmp.get("Ip", {})
    retrans_segs, first_segs = tcp.get("RetransSegs"), tcp.get("OutSegs")
    return {
        "retrans_segs_total": retrans_segs,
        # Linux counts a segment in OutSegs when it is sent for the first time only.
        "sent_segs_total": (
            None if retrans_segs is None or first_segs is None else first_segs + retrans_segs
        ),
        "received_segs_total": tcp.get("InSegs"),
        "established": tcp.get("CurrEstab"),
        "opened_total": _sum(tcp.get("ActiveOpens"), tcp.get("PassiveOpens")),
        "timeouts_total": extended.get("TCPTimeouts"),
        "listen_overflows_total": extended.get("ListenOverflows"),
        "backlog_drops_total": extended.get("TCPBacklogDrop"),
        "in_discards_total": _sum(ip.get("InDiscards"), ipv6.get("Ip6InDiscards")),
        "out_discards_total": _sum(ip.get("OutDiscards"), ipv6.get("Ip6OutDiscards")),
    }
