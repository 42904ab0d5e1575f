"""The tcp layer's tables, metrics and notes, without a kernel behind them."""

from __future__ import annotations

import errno
import struct
from typing import Any

import psutil
import pytest

from ioh.layers import tcp, tcp_tables
from ioh.layers.tcp import SPEC, Tcp
from ioh.layers.tcp_ledger import Moved
from ioh.layers.tcp_tables import (
    ConnectionTable,
    InterfaceTable,
    PortTable,
    round_trips,
    service_name,
    service_port,
)
from ioh.model.derive_table import derive_table
from ioh.model.filters import Filters
from ioh.model.hist import LATENCY_BUCKETS, latency_index
from ioh.model.sample import LayerSample
from ioh.procfs.network import Link, LinkTable
from ioh.procfs.sock_diag import Dump, SockDiag

TABLES = {table.name: table for table in SPEC.tables}


def info(busy_us: int = 0, rwnd_us: int = 0) -> bytes:
    data = bytearray(216)
    struct.pack_into("=I", data, 80, 10)
    struct.pack_into("=QQQ", data, 168, busy_us, rwnd_us, 0)
    return bytes(data)


def moved(number: int, in_bytes: int, out_bytes: int = 0, **more: Any) -> Moved:
    """A connection from local port 40000 + number to 10.0.0.5:2049."""
    fields: dict[str, Any] = {
        "cookie": number,
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
        "retrans_bytes": 0,
        "retrans_segs": 0,
        "in_segs": 1,
        "out_segs": 1,
        "srtt_us": 200,
        "min_rtt_us": 100,
        "family": 2,
        "pair": b"",
    }
    tcp_info = more.pop("info", info())
    ended = more.pop("ended", False)
    fields |= more
    fields["all_bytes"] = in_bytes + out_bytes + fields["retrans_bytes"]
    pair = struct.pack(
        "!HH16s16s", 40000 + number, 2049, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 5])
    )
    if ended:
        return Moved(**fields | {"pair": pair, "message": b""})
    head = bytes(16) + bytes([2, 1, 0, 0]) + pair + struct.pack("=IQ", 0, number) + bytes(20)
    attribute = struct.pack("=HH", 4 + len(tcp_info), 2) + tcp_info
    return Moved(**fields | {"message": head + attribute})


def key(number: int) -> tuple[str, str]:
    return f"10.0.0.1:{40000 + number}", "10.0.0.5:2049"


def test_shares_of_the_busy_time_are_unknown_until_two_readings_are_known() -> None:
    table = ConnectionTable()
    samples = [
        table.update([moved(1, 1, info=info(busy_us=busy, rwnd_us=rwnd))])
        for busy, rwnd in ((9_000_000, 9_000_000), (9_100_000, 9_000_000), (9_500_000, 9_100_000))
    ]
    shares = [
        derive_table(TABLES["connection"], older, newer, 1.0)[0].values
        for older, newer in zip([{}, *samples], samples, strict=False)
    ]
    assert [s["rwnd_limited_pct"] for s in shares] == [None, None, 25.0]
    assert [s["busy_pct"] for s in shares] == [None, None, 40.0]
    ended = table.update([moved(1, 1, ended=True)])
    assert ended[key(1)][10:] == (None, None, None)


def test_an_ended_connection_is_shown_once() -> None:
    table = ConnectionTable()
    table.update([moved(1, 100)])
    assert table.update([moved(1, 7, ended=True)])[key(1)][0] == 107
    assert table.update([]) == {}


def test_only_the_busiest_are_listed_and_those_stay_for_a_while() -> None:
    table = ConnectionTable()
    crowd = [moved(n, n) for n in range(1, 1001)]
    rows = table.update(crowd)
    assert set(rows) == {key(n) for n in range(961, 1001)}
    rows = table.update([moved(n, 2000 - n) for n in range(1, 1001)])
    assert rows[key(1000)][0] == 2000, "listed before, counted on although no longer busiest"
    assert len(rows) == 80
    for _ in range(9):
        rows = table.update([])
    assert len(rows) == 80
    assert table.update([]) == {}


@pytest.mark.parametrize(
    ("local", "remote", "listening", "port"),
    [
        (2049, 700, {2049}, 2049),
        (40000, 2049, set(), 2049),
        (40000, 50000, {50000}, 50000),
        (50000, 40000, {50000}, 50000),
        (60000, 50000, set(), 50000),
    ],
)
def test_the_service_is_the_side_that_listens(
    local: int, remote: int, listening: set[int], port: int
) -> None:
    assert service_port(local, remote, listening) == port


def test_ports_are_bounded_and_the_latest_stay() -> None:
    table = PortTable()
    for port in range(1024, 1024 + tcp_tables.MAX_ROWS + 20):
        item = moved(1, 5)
        message = bytearray(item.message)
        struct.pack_into("!HH", message, 20, 65000, port)
        rows = table.update([item._replace(message=bytes(message))], set())
    assert len(rows) == tcp_tables.MAX_ROWS
    assert (str(port), service_name(port)) in rows


def test_round_trips_are_weighted_with_bytes_and_counted_by_connection() -> None:
    found = round_trips(
        [moved(1, 100, srtt_us=100), moved(2, 300, srtt_us=500, min_rtt_us=0), moved(3, 0)]
    )
    assert found.active == 2
    assert found.srtt_us == pytest.approx(400)
    assert found.min_rtt_us == 100
    assert len(found.counts) == LATENCY_BUCKETS
    assert sum(found.counts) == 2
    assert found.counts[latency_index(100)] == found.counts[latency_index(500)] == 1
    nothing = round_trips([])
    assert (nothing.srtt_us, nothing.min_rtt_us, nothing.active) == (None, None, 0)


NIC = type(psutil.net_io_counters(nowrap=False))(*(0,) * 8)


class Links(LinkTable):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link

    def get(self, name: str) -> Link:
        return self.link


def used_pct(link: Link) -> tuple[object, object]:
    table = InterfaceTable(Links(link))
    older = table.update({"eth0": NIC}, 1_000_000_000)
    later = NIC._replace(bytes_recv=12_500_000, bytes_sent=25_000_000)
    newer = table.update({"eth0": later}, 2_000_000_000)
    (row,) = derive_table(TABLES["interface"], older, newer, 1.0)
    return row.values["in_used_pct"], row.values["out_used_pct"]


@pytest.mark.parametrize(
    ("speed", "shaped", "into", "out"),
    [
        (1_000_000_000, None, 10, 20),
        (1_000_000_000, 400_000_000, 10, 50),  # a shaper limits what goes out
        (None, 400_000_000, None, 50),
        (None, None, None, None),
    ],
)
def test_share_of_an_interfaces_speed(
    speed: int | None, shaped: int | None, into: float | None, out: float | None
) -> None:
    link = Link(speed_bits_per_s=speed, shaped_bits_per_s=shaped)
    assert used_pct(link) == pytest.approx((into, out))


class NoDiag(SockDiag):
    def dump(self, known: object) -> Dump:
        raise OSError(errno.ENOENT, "No such file or directory")


def test_without_sock_diag_the_rest_is_shown_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SockDiag", NoDiag)
    sample = Tcp(Filters(pid=1, comm="fio", port=2049)).read_proc()
    assert isinstance(sample, LayerSample)
    assert sample.ops["in"].bytes_total is None
    assert sample.metrics["retrans_segs_total"] is not None
    assert "connection" not in sample.tables
    for said in ("modprobe tcp_diag", "--pid, --comm not applied", "whole host"):
        assert any(said in note for note in sample.notes), said
