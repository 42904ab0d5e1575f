"""Interfaces and the IP and TCP counters."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ioh.procfs.network import (
    Link,
    LinkTable,
    read_addresses,
    read_counters,
    read_interfaces,
    read_speed,
)

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("text", [None, "", "two\nlines\n", "two\nlines\neth0: 1 2\n"])
def test_interfaces_that_cannot_be_read_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    if text is not None:
        (tmp_path / "net").mkdir()
        (tmp_path / "net/dev").write_text(text)
    assert read_interfaces() == {}


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [
        ("25000", 25_000_000_000),
        ("10", 10_000_000),
        *((text, None) for text in ("-1", "0", "65535", "4294967295", "fast", "")),
    ],
)
def test_speed(tmp_path: Path, text: str, bits_per_s: int | None) -> None:
    folder = tmp_path / "sys/class/net/eth0"
    folder.mkdir(parents=True)
    (folder / "speed").write_text(f"{text}\n")
    assert read_speed("eth0", tmp_path) == bits_per_s
    assert read_speed("gone", tmp_path) is None


def test_what_a_virtual_interface_claims_is_no_speed(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/virtual/net/veth1"
    folder.mkdir(parents=True)
    (folder / "speed").write_text("10000\n")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/veth1").symlink_to(folder)
    assert read_speed("veth1", tmp_path) is None
    assert read_speed("ens3", DATA / "proc-5.10") == 25_000_000_000


def test_link_table_reads_again_when_old(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net/eth0"
    folder.mkdir(parents=True)
    (folder / "speed").write_text("1000\n")
    lasting, fleeting = LinkTable(tmp_path, 1e6), LinkTable(tmp_path, 0.0)
    assert lasting.get("eth0") == fleeting.get("eth0") == Link(10**9, None)
    (folder / "speed").write_text("100\n")
    assert lasting.get("eth0") == Link(10**9, None)
    assert fleeting.get("eth0") == Link(10**8, None)


def test_counters_of_the_protocols() -> None:
    root = DATA / "proc-5.10"
    snmp = read_counters("snmp", root)
    assert snmp["Tcp"]["RetransSegs"] == 235
    assert snmp["Tcp"]["MaxConn"] == -1
    assert snmp["Ip"]["InDiscards"] == 3
    assert read_counters("netstat", root)["TcpExt"]["TCPLossProbes"] == 12
    assert read_counters("gone", root) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("Ip: A B\n", {}),
        ("Ip: A B\nIp: 1 2\n", {"Ip": {"A": 1, "B": 2}}),
        ("Ip: A B\nIp: 1\n", {"Ip": {"A": 1}}),
        ("Ip: A\nIp: 1 2\n", {"Ip": {"A": 1}}),
        ("Ip: A B\nIp: x 2\nTcp: A\nTcp: 3\n", {"Tcp": {"A": 3}}),
        ("Ip: A\nTcp: 3\nno colon\n", {}),
    ],
)
def test_malformed_netstat(tmp_path: Path, text: str, expected: dict[str, dict[str, int]]) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/netstat").write_text(text)
    assert read_counters("netstat", tmp_path) == expected


def test_live_counters_only_grow() -> None:
    older, newer = read_interfaces(), read_interfaces()
    assert "lo" in older
    assert all(newer[name].bytes_recv >= older[name].bytes_recv for name in older)
    for root in (DATA / "proc-6.18", Path("/")):
        pairs = [line.split() for line in (root / "proc/net/netstat").read_text().splitlines()]
        parsed = read_counters("netstat", root)
        assert sum(map(len, parsed.values())) == sum(len(p) - 1 for p in pairs) // 2


def test_a_layer_alone_imports_neither_psutil_nor_pyroute2() -> None:
    """The loader, which imports the layers, keeps what it has for good."""
    code = "import sys; from ioh.layers import all_layers; all_layers(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ioh.layers.tcp" in done.stdout.split()
    assert {"psutil", "pyroute2"}.isdisjoint(done.stdout.split())


def test_the_hosts_own_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "127.0.0.1" in read_addresses()
    for each in read_addresses():
        ipaddress.ip_address(each)

    def refused() -> None:
        raise OSError

    monkeypatch.setattr("psutil.net_if_addrs", refused)
    assert read_addresses() == ()
