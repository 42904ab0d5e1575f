"""Counters of protocols and interfaces, links and what shapers let out."""

from __future__ import annotations

import ipaddress
import socket
import struct
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

from ioh.procfs import network as shapers
from ioh.procfs.network import (
    read_addresses,
    read_counters,
    read_interfaces,
    read_speed,
)

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("text", [None, "", "two\nlines\neth0: 1 2\n"])
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
    """What a virtual interface claims is none."""
    (tmp_path / "sys/class/net").mkdir(parents=True)
    for name, place in (("eth0", "pci/eth0"), ("veth1", "virtual/net/veth1")):
        folder = tmp_path / "sys/devices" / place
        folder.mkdir(parents=True)
        (folder / "speed").write_text(f"{text}\n")
        (tmp_path / "sys/class/net" / name).symlink_to(folder)
    assert read_speed("eth0", tmp_path) == bits_per_s
    assert read_speed("veth1", tmp_path) is read_speed("gone", tmp_path) is None


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


def test_counters_of_this_machine_are_all_read() -> None:
    assert "lo" in read_interfaces()
    for root in (DATA / "proc-6.18", Path("/")):
        pairs = [line.split() for line in (root / "proc/net/netstat").read_text().splitlines()]
        parsed = read_counters("netstat", root)
        assert sum(map(len, parsed.values())) == sum(len(p) - 1 for p in pairs) // 2


def test_a_layer_alone_imports_neither_psutil_nor_pyroute2() -> None:
    """The loader, which imports the layers, keeps what it has for good."""
    code = (
        "import sys; from ioh.layers import all_layers; all_layers(); print(*sys.modules)\n"
        "from ioh.procfs.network import _tcmsg; _tcmsg(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    layers, messages = (set(line.split()) for line in done.stdout.splitlines())
    assert "ioh.layers.tcp" in layers
    assert {"psutil", "pyroute2"}.isdisjoint(layers)
    assert "pyroute2.netlink.rtnl.tcmsg" in messages
    assert {"asyncio", "pyroute2.iproute", "pyroute2.ndb"}.isdisjoint(messages)


def test_the_hosts_own_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "127.0.0.1" in read_addresses()
    for each in read_addresses():
        ipaddress.ip_address(each)

    def refused() -> None:
        raise OSError

    monkeypatch.setattr("psutil.net_if_addrs", refused)
    assert read_addresses() == ()


ROOT = 0xFFFFFFFF
DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)
LO = socket.if_nametoindex("lo")


def attribute(kind: int, payload: bytes) -> bytes:
    data = struct.pack("=HH", 4 + len(payload), kind) + payload
    return data + bytes(-len(data) % 4)


def tbf(bytes_per_s: int, *, wide: int | None = None) -> bytes:
    """TCA_OPTIONS of a tbf: struct tc_tbf_qopt, and a rate that needs 64 bits."""
    options = attribute(1, struct.pack("=8xI24x", bytes_per_s))
    if wide is not None:
        options += attribute(4, struct.pack("=Q", wide))
    return attribute(2, options)


def qdisc(interface: int, kind: bytes, options: bytes = b"", parent: int = ROOT) -> bytes:
    body = struct.pack("=B3xiIII", 0, interface, 0x80010000, parent, 2)
    body += attribute(1, kind + b"\0") + options
    return struct.pack("=IHHII", 16 + len(body), 36, 2, 1, 0) + body


class FakeSocket(nullcontext[object]):
    """One that answers with these datagrams."""

    def __init__(self, *datagrams: bytes) -> None:
        super().__init__(self)
        self.datagrams = list(datagrams)

    def settimeout(self, _: float) -> None: ...

    def send(self, request: bytes) -> None:
        assert struct.unpack_from("=IHH", request) == (36, 38, 0x301)

    def recv(self, _: int) -> bytes:
        return self.datagrams.pop(0)


@pytest.mark.parametrize(
    ("data", "bits_per_s"),
    [
        (qdisc(LO, b"tbf", tbf(10_000_000)) + DONE, 80_000_000),
        (qdisc(LO, b"tbf", tbf(0xFFFFFFFF, wide=6_250_000_000)) + DONE, 50_000_000_000),
        (qdisc(LO, b"tbf", tbf(125), parent=0x10001) + DONE, None),  # of one class only
        (qdisc(LO, b"htb", tbf(125)) + DONE, None),
        (struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1), None),  # a refusal
        (b"", None),
    ],
)
def test_rate_of_an_interface(
    monkeypatch: pytest.MonkeyPatch, data: bytes, bits_per_s: int | None
) -> None:
    for datagrams in ([data], [qdisc(99, b"noqueue"), data]):
        monkeypatch.setattr(socket, "socket", lambda *_, d=datagrams: FakeSocket(*d))
        assert shapers.read_shapers().get("lo") == bits_per_s
