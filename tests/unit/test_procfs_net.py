"""Interfaces and the IP and TCP counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioh.procfs.interfaces import (
    InterfaceCounters,
    Link,
    LinkTable,
    parse_net_dev,
    parse_speed,
    read_interfaces,
    read_link,
)
from ioh.procfs.netstat import parse_netstat, parse_snmp6, read_netstat, read_snmp, read_snmp6

DATA = Path(__file__).parents[1] / "data"


def test_columns_of_net_dev() -> None:
    interfaces = read_interfaces(DATA / "proc-5.10")
    assert interfaces is not None
    assert list(interfaces) == ["lo", "ens3"]  # veth1's line is too short
    assert interfaces["ens3"] == InterfaceCounters(
        name="ens3",
        rx_bytes_total=123456789012,
        rx_packets_total=900000,
        rx_errors_total=1,
        rx_drops_total=2,
        rx_fifo_errors_total=3,
        rx_frame_errors_total=4,
        tx_bytes_total=98765432109,
        tx_packets_total=800000,
        tx_errors_total=5,
        tx_drops_total=6,
        tx_fifo_errors_total=7,
        tx_collisions_total=8,
        tx_carrier_errors_total=9,
    )


@pytest.mark.parametrize("line", ["", "eth0", "eth0:", "eth0: 1 2", "eth0: " + "x " * 16])
def test_malformed_interface_is_left_out(line: str) -> None:
    good = "lo: " + "1 " * 16
    assert list(parse_net_dev(f"{line}\n{good}\n")) == ["lo"]


def test_more_columns_than_known() -> None:
    assert parse_net_dev("a: " + "7 " * 20)["a"].tx_carrier_errors_total == 7


def test_hostile_name_is_printable() -> None:
    interfaces = parse_net_dev("\x1b[31m\udcff: " + "1 " * 16)
    assert interfaces["\x1b[31m\udcff"].name == "\\x1b[31m\\xff"


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [
        ("25000", 25_000_000_000),
        ("10", 10_000_000),
        ("-1", None),
        ("0", None),
        ("65535", None),
        ("4294967295", None),
        ("fast", None),
        ("", None),
        (None, None),
    ],
)
def test_speed(text: str | None, bits_per_s: int | None) -> None:
    assert parse_speed(text) == bits_per_s


def test_link() -> None:
    root = DATA / "proc-5.10"
    assert read_link("ens3", root) == Link(25_000_000_000, "full", "up", False, 9000)
    assert read_link("veth1", root) == Link(None, None, "down", True, 1500)


@pytest.mark.parametrize("name", ["", ".", "..", "../../etc", "gone", "a\0b", "\ud800"])
def test_link_of_an_impossible_name(name: str) -> None:
    assert read_link(name) == Link()


def test_link_table_reads_again_when_old(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net/eth0"
    folder.mkdir(parents=True)
    (folder / "speed").write_text("1000\n")
    lasting, fleeting = LinkTable(tmp_path, 1e6), LinkTable(tmp_path, 0.0)
    assert lasting.get("eth0").speed_bits_per_s == fleeting.get("eth0").speed_bits_per_s == 10**9
    (folder / "speed").write_text("100\n")
    assert lasting.get("eth0").speed_bits_per_s == 10**9
    assert fleeting.get("eth0").speed_bits_per_s == 10**8


def test_snmp() -> None:
    snmp = read_snmp(DATA / "proc-5.10")
    assert snmp is not None
    assert snmp["Tcp"]["RetransSegs"] == 235
    assert snmp["Tcp"]["MaxConn"] == -1
    assert snmp["Ip"]["InDiscards"] == 3
    netstat = read_netstat(DATA / "proc-5.10")
    assert netstat is not None
    assert netstat["TcpExt"]["TCPLossProbes"] == 12
    assert read_snmp6(DATA / "proc-5.10") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("Ip: A B\n", {}),
        ("Ip: A B\nIp: 1 2\n", {"Ip": {"A": 1, "B": 2}}),
        ("Ip: A B\nIp: 1\n", {"Ip": {"A": 1}}),
        ("Ip: A\nIp: 1 2\n", {"Ip": {"A": 1}}),
        ("Ip: A B\nIp: x 2\n", {"Ip": {"B": 2}}),
        ("Ip: 1 2\nTcp: A\nTcp: 3\n", {"Tcp": {"A": 3}}),  # the names of Ip are lost
        ("Ip: A\nTcp: A\nTcp: 3\nno colon\n", {"Tcp": {"A": 3}}),
    ],
)
def test_malformed_netstat(text: str, expected: dict[str, dict[str, int]]) -> None:
    assert parse_netstat(text) == expected


def test_snmp6_leaves_malformed_lines_out() -> None:
    assert parse_snmp6("Ip6InDiscards \t 4\nx\n\ny z\nb 5 more") == {"Ip6InDiscards": 4, "b": 5}


def test_live_counters_only_grow() -> None:
    older, newer = read_interfaces(), read_interfaces()
    assert older
    assert newer
    assert "lo" in newer
    for name, counters in older.items():
        assert newer[name].rx_bytes_total >= counters.rx_bytes_total
    for text in (DATA / "proc-6.18/proc/net/netstat", Path("/proc/net/netstat")):
        pairs = [line.split() for line in text.read_text().splitlines()]
        parsed = parse_netstat(text.read_text())
        assert sum(map(len, parsed.values())) == sum(len(p) - 1 for p in pairs) // 2
