"""The demo's layer ``tcp``."""

from __future__ import annotations

from dataclasses import dataclass

from ioh.model.hist import LATENCY_BUCKETS, latency_index
from ioh.model.metric import LayerSpec
from ioh.model.sample import LayerSample, OpTotals, Row, Table, Value
from ioh.sources.demo import names
from ioh.sources.demo.counts import Dice
from ioh.sources.demo.rows import make_row, table_of
from ioh.sources.demo.story import Load
from ioh.sources.demo.traffic import Traffic

MSS_BYTES = 1448
_CALL_BYTES, _REPLY_BYTES = 184, 132  # of an RPC, beside what it reads or writes
_HEADER_BYTES = 66  # Ethernet, IP and TCP, of a segment
_SPEED_BITS_PER_S = 10_000_000_000
_NFS_PORT, _SQL_PORT, _SSH_PORT = 2049, 5432, 22
_SERVICES = {_NFS_PORT: "nfs", _SQL_PORT: "postgresql", _SSH_PORT: "ssh"}
_SQL_CLIENTS = ("10.0.0.31:50114", "10.0.0.31:50116", "10.0.0.32:41822")
_OPENED_EARLIER = 100  # by whoever connected before the story began


@dataclass(slots=True)
class _Connection:
    """Running totals of one connection, and its gauges of this tick."""

    local: str
    remote: str
    port: int
    base_rtt_us: int
    in_bytes: int = 0
    out_bytes: int = 0
    in_segs: int = 0
    out_segs: int = 0
    retrans_segs: int = 0
    busy_us: int = 0
    srtt_us: int = 0
    moved_bytes: int = 0
    delivery_bytes_per_s: int = 0

    def take(self, in_bytes: int, out_bytes: int, lost_segs: int) -> None:
        self.in_bytes += in_bytes
        self.out_bytes += out_bytes
        self.in_segs += -(-in_bytes // MSS_BYTES)
        self.out_segs += -(-out_bytes // MSS_BYTES)
        self.retrans_segs += lost_segs
        self.moved_bytes = in_bytes + out_bytes + lost_segs * MSS_BYTES

    @property
    def flow(self) -> dict[str, int]:
        """The columns that a connection and a service share."""
        return {
            "in_bytes_total": self.in_bytes,
            "out_bytes_total": self.out_bytes,
            "retrans_bytes_total": self.retrans_segs * MSS_BYTES,
            "retrans_segs_total": self.retrans_segs,
        }


def _connections() -> list[_Connection]:
    server = f"{names.SERVER}:{_NFS_PORT}"
    return [
        *(_Connection(client, server, _NFS_PORT, 60) for client in names.CLIENTS),
        *(_Connection(f"10.0.0.7:{_SQL_PORT}", c, _SQL_PORT, 180) for c in _SQL_CLIENTS),
        _Connection(f"10.0.0.7:{_SSH_PORT}", "192.0.2.44:61022", _SSH_PORT, 21_000),
    ]


class DemoTcp:
    """The made-up machine's connections: NFS, who asks the database, and one ssh."""

    def __init__(self, spec: LayerSpec) -> None:
        self._spec = spec
        self._connections = _connections()
        self._metrics = {m.name: 0 for m in spec.metrics if m.kind == "counter"}
        self._metrics["opened_total"] = _OPENED_EARLIER
        self._capacity_bytes = 0

    def take(self, traffic: Traffic, dice: Dice, interval_s: float, load: Load) -> None:
        """Count one tick."""
        rpcs = sum(work.batch.operations for work in traffic.client)
        read = sum(w.batch.bytes_total for w in traffic.client if w.op == "read")
        written = sum(w.batch.bytes_total for w in traffic.client if w.op.startswith("write"))
        nfs_in, nfs_out = read + rpcs * _REPLY_BYTES, written + rpcs * _CALL_BYTES
        queries = sum(w.batch.operations for w in traffic.app if w.op.startswith("read")) // 40
        for connection in self._connections:
            if connection.port == _NFS_PORT:
                is_first = connection.local == names.CLIENTS[0]
                share = names.CONNECTION_SHARES[0]
                in_bytes, out_bytes = int(nfs_in * share), int(nfs_out * share)
                if not is_first:
                    in_bytes, out_bytes = nfs_in - in_bytes, nfs_out - out_bytes
                rtt_us = load.wire_us
            elif connection.port == _SQL_PORT:
                count = dice.count(queries / len(_SQL_CLIENTS))
                in_bytes, out_bytes = 210 * count, 1_900 * count
                rtt_us = connection.base_rtt_us + load.wire_us - 60
            else:
                count = dice.count(4 * interval_s)
                in_bytes, out_bytes, rtt_us = 36 * count, 240 * count, connection.base_rtt_us
            lost = dice.count(out_bytes / MSS_BYTES * load.loss_ratio) if out_bytes else 0
            lost = lost if load.loss_ratio and connection.port != _SSH_PORT else 0
            connection.take(in_bytes, out_bytes, lost)
            connection.srtt_us = int(dice.around(rtt_us * 1.12, 0.1))
            connection.delivery_bytes_per_s = int(in_bytes / interval_s)
            busy_us = min(interval_s * 1e6, out_bytes / 1.25e9 * 1e6 * 3)
            connection.busy_us += int(busy_us)
        self._capacity_bytes += int(_SPEED_BITS_PER_S / 8 * interval_s)
        self._metrics["timeouts_total"] += traffic.late
        opened = dice.count(0.2 * interval_s)
        self._metrics["opened_total"] += opened
        self._metrics["ended_total"] += opened

    def sample(self, dice: Dice) -> LayerSample:
        """The layer as it is now."""
        del dice
        every = self._connections
        out_segs, retrans = sum(c.out_segs for c in every), sum(c.retrans_segs for c in every)
        in_segs = sum(c.in_segs for c in every)
        moved = [c for c in every if c.moved_bytes]
        whole = sum(c.moved_bytes for c in moved)
        counts = [0] * LATENCY_BUCKETS
        for connection in moved:
            counts[latency_index(connection.srtt_us)] += 1
        metrics: dict[str, Value] = {
            **self._metrics,
            "retrans_bytes_total": retrans * MSS_BYTES,
            "retrans_segs_total": retrans,
            "sent_segs_total": out_segs + retrans + in_segs // 2,  # with bare ACKs
            "received_segs_total": in_segs + out_segs // 2,
            "srtt_us": sum(c.srtt_us * c.moved_bytes for c in moved) / whole if whole else None,
            "min_rtt_us": (
                sum(c.base_rtt_us * c.moved_bytes for c in moved) / whole if whole else None
            ),
            "connections": len(every),
            "active_connections": len(moved),
            "established": len(every),
        }
        return LayerSample(
            source="demo",
            ops={
                "in": OpTotals(count_total=in_segs, bytes_total=sum(c.in_bytes for c in every)),
                "out": OpTotals(count_total=out_segs, bytes_total=sum(c.out_bytes for c in every)),
            },
            metrics=metrics,
            tables={
                "connection": self._connection_table(),
                "port": self._port_table(),
                "interface": self._interface_table(in_segs, out_segs + retrans),
            },
            lost=dict.fromkeys(self._spec.lost, 0),
            gauge_hists={"srtt_us": tuple(counts)},
        )

    def _connection_table(self) -> Table:
        spec = table_of(self._spec, "connection")
        rows: dict[tuple[str, ...], Row] = {}
        for connection in self._connections:
            is_trouble = connection.srtt_us > 2 * connection.base_rtt_us
            values: dict[str, Value] = {
                **connection.flow,
                "srtt_us": connection.srtt_us,
                "min_rtt_us": connection.base_rtt_us,
                "cwnd": 12 if is_trouble else 240,
                "unacked": 9 if is_trouble else 2,
                "notsent_bytes": 0,
                "delivery_bytes_per_s": connection.delivery_bytes_per_s,
                "busy_us_total": connection.busy_us,
                "rwnd_limited_us_total": 0,
                "sndbuf_limited_us_total": 0,
            }
            rows[connection.local, connection.remote] = make_row(spec, values)
        return rows

    def _port_table(self) -> Table:
        spec = table_of(self._spec, "port")
        rows: dict[tuple[str, ...], Row] = {}
        for port, service in _SERVICES.items():
            those = [c for c in self._connections if c.port == port]
            moved = [c for c in those if c.moved_bytes]
            whole = sum(c.moved_bytes for c in moved)
            flows = [c.flow for c in those]
            values: dict[str, Value] = {name: sum(f[name] for f in flows) for name in flows[0]}
            values["connections"] = len(moved)
            rtt_us = sum(c.srtt_us * c.moved_bytes for c in moved) / whole if whole else None
            values["srtt_us"] = rtt_us
            rows[str(port), service] = make_row(spec, values)
        return rows

    def _interface_table(self, in_segs: int, out_segs: int) -> Table:
        values: dict[str, Value] = {
            "in_bytes_total": sum(c.in_bytes for c in self._connections) + in_segs * _HEADER_BYTES,
            "out_bytes_total": (
                sum(c.out_bytes + c.retrans_segs * MSS_BYTES for c in self._connections)
                + out_segs * _HEADER_BYTES
            ),
            "in_packets_total": in_segs + out_segs // 2,
            "out_packets_total": out_segs + in_segs // 2,
            "in_drops_total": 0,
            "out_drops_total": 0,
            "in_errors_total": 0,
            "out_errors_total": 0,
            "capacity_bytes_total": self._capacity_bytes,
            "out_capacity_bytes_total": self._capacity_bytes,
            "speed_bits_per_s": _SPEED_BITS_PER_S,
            "shaped_bits_per_s": None,
        }
        return {("eth0",): make_row(table_of(self._spec, "interface"), values)}
