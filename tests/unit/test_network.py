"""Counters of protocols, interfaces and connections; truncated and hostile netlink messages."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock, Mock

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioh.procfs import network as shapers
from ioh.procfs.network import (
    Link,
    LinkTable,
    read_addresses,
    read_counters,
    read_interfaces,
    read_speed,
)
from ioh.procfs.sock_diag import (
    STATE_CLOSE,
    Counters,
    Details,
    DiagDecoder,
    Dump,
    decode_details,
    endpoints,
    find_info,
    format_endpoint,
    format_endpoints,
)

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("text", [None, "", "two\nlines\neth0: 1 2\n"])
def test_a_missing_or_malformed_net_dev_has_no_interfaces(
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
    """The speed that a virtual interface claims is ignored."""
    (tmp_path / "sys/class/net").mkdir(parents=True)
    for name, place in (("eth0", "pci/eth0"), ("veth1", "virtual/net/veth1")):
        folder = tmp_path / "sys/devices" / place
        folder.mkdir(parents=True)
        (folder / "speed").write_text(f"{text}\n")
        (tmp_path / "sys/class/net" / name).symlink_to(folder)
    assert read_speed("eth0", tmp_path) == bits_per_s
    assert read_speed("veth1", tmp_path) is read_speed("gone", tmp_path) is None


def test_the_speed_of_a_link_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net/eth0"
    folder.mkdir(parents=True)
    lasting, fleeting = LinkTable(tmp_path, 1e6), LinkTable(tmp_path, 0.0)
    for mbit, kept in ((1000, 1000), (100, 1000)):
        (folder / "speed").write_text(f"{mbit}\n")
        assert lasting.get("eth0") == Link(kept * 10**6, None)
        assert fleeting.get("eth0") == Link(mbit * 10**6, None)


def test_counters_of_the_protocols() -> None:
    root = DATA / "proc-5.10"
    snmp = read_counters("snmp", root)
    assert (snmp["Tcp"]["RetransSegs"], snmp["Tcp"]["MaxConn"], snmp["Ip"]["InDiscards"]) == (
        235, -1, 3,
    )  # fmt: skip
    assert read_counters("netstat", root)["TcpExt"]["TCPLossProbes"] == 12
    assert read_counters("gone", root) == {}
    assert "lo" in read_interfaces()
    pairs = Path("/proc/net/netstat").read_text().splitlines()  # this machine's: all are parsed
    parsed = read_counters("netstat", Path("/"))
    assert sum(map(len, parsed.values())) == sum(len(p.split()) - 1 for p in pairs) // 2


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


def test_layers_import_neither_psutil_nor_pyroute2() -> None:
    """The loader imports the layers, and whatever they import stays in its memory."""
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


@pytest.mark.parametrize(
    ("data", "bits_per_s"),
    [
        (qdisc(LO, b"tbf", tbf(10_000_000)) + DONE, 80_000_000),
        (qdisc(LO, b"tbf", tbf(0xFFFFFFFF, wide=6_250_000_000)) + DONE, 50_000_000_000),
        (qdisc(LO, b"tbf", tbf(125), parent=0x10001) + DONE, None),  # limits one class only
        (qdisc(LO, b"htb", tbf(125)) + DONE, None),
        (struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1), None),  # an error message
        (b"", None),
    ],
)
def test_rate_of_an_interface(
    monkeypatch: pytest.MonkeyPatch, data: bytes, bits_per_s: int | None
) -> None:
    for datagrams in ([data], [qdisc(99, b"noqueue"), data]):
        kernel = MagicMock()
        kernel.__enter__.return_value.recv.side_effect = datagrams
        kernel.recv.side_effect = datagrams
        monkeypatch.setattr(socket, "socket", Mock(return_value=kernel))
        assert shapers.read_shapers().get("lo") == bits_per_s


# Three connections within one host, captured on Linux 6.18: 23 × 1009 bytes to 127.0.0.1:2049 and
# 11 back; 7 × 1009 to [::1]:3260 and 1 back, then a FIN; 3 × 1009 to 127.0.0.1:5432, whose server
# listens on [::], and 5 back.  Each datagram is preceded by its length.
CAPTURE = Path(__file__).parent.parent / "data" / "sock_diag-6.18.bin"


def datagrams() -> Iterator[bytearray]:
    raw = CAPTURE.read_bytes()
    offset = 0
    while offset < len(raw):
        size = int.from_bytes(raw[offset : offset + 4], "little")
        yield bytearray(raw[offset + 4 : offset + 4 + size])
        offset += 4 + size


def decode(known: dict[int, Counters] | None = None) -> tuple[Dump, list[bool]]:
    decoder = DiagDecoder(known or {}, keep_closed=False)
    ended = [decoder.feed(data, len(data)) for data in datagrams()]
    return decoder.dump, ended


def feed(message: bytes, *, keep_closed: bool = False) -> Dump:
    decoder = DiagDecoder({}, keep_closed=keep_closed)
    decoder.feed(bytearray(message), len(message))
    return decoder.dump


# The server's end of the connection to port 2049, and where its tcp_info is.
MESSAGE = next(
    change.message
    for change in decode()[0].changed
    if struct.unpack_from("!H", endpoints(change.message)) == (2049,)
)
START, END = find_info(MESSAGE) or (0, 0)
INFO = MESSAGE[START:END]


def with_info(info: bytes, before: bytes = b"") -> bytes:
    """The message with another tcp_info, and attributes before it."""
    body = MESSAGE[16 : START - 4] + before + struct.pack("=HH", 4 + len(info), 2) + info
    return struct.pack("=I", 16 + len(body)) + MESSAGE[4:16] + body


def test_listening_ports_are_not_connections() -> None:
    dump, ended = decode()
    assert ended == [False, True]
    assert dump.listening == {2049, 3260, 5432}
    assert len(dump.seen) == len(dump.changed) == 6


def test_counters_are_payload_bytes_without_a_received_fin() -> None:
    changed = {struct.unpack_from("!H", endpoints(c.message))[0]: c for c in decode()[0].changed}
    servers = {port: changed[port].counters for port in (2049, 3260, 5432)}
    moved = {port: (c.bytes_received, c.bytes_sent) for port, c in servers.items()}
    assert moved == {2049: (23 * 1009, 11), 3260: (7 * 1009, 1), 5432: (3 * 1009, 5)}
    details = decode_details(MESSAGE)
    assert details.cwnd
    assert details.unacked == details.notsent_bytes == 0
    assert details.delivery_bytes_per_s is not None


def test_unchanged_connections_are_seen_but_not_reported_as_changed() -> None:
    first, _ = decode()
    second, _ = decode(first.seen)
    assert second.seen == first.seen
    assert second.changed == []
    cookie = first.changed[2].cookie
    third, _ = decode({**first.seen, cookie: Counters(1)})
    assert [c.cookie for c in third.changed] == [cookie]


def test_tcp_info_is_found_at_another_offset() -> None:
    """So is a longer one, as from a newer kernel; a connection sent twice counts once."""
    newer = with_info(INFO + bytes(range(64)))
    mark = struct.pack("=HHI", 8, 15, 0)  # INET_DIAG_MARK: only CAP_NET_ADMIN gets it
    shifted = bytearray(with_info(INFO, before=mark))
    shifted[60] ^= 0xFF  # another cookie
    dump = feed(MESSAGE + newer + bytes(shifted))
    assert len(dump.changed) == 2
    assert dump.changed[0].counters == dump.changed[1].counters == feed(newer).changed[0].counters


def test_a_time_wait_socket_without_counters_is_left_out() -> None:
    bare = struct.pack("=I", START - 4) + MESSAGE[4 : START - 4]
    assert feed(bare).seen == {}
    assert decode_details(bare) == Details()


def test_a_connection_closed_during_the_dump_is_left_to_the_probes() -> None:
    closed = with_info(bytes([STATE_CLOSE]) + INFO[1:])
    assert feed(closed).seen == {}
    assert len(feed(closed, keep_closed=True).seen) == 1


def test_a_netlink_error_raises_oserror_with_its_errno() -> None:
    refusal = struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -errno.ENOENT) + bytes(16)
    with pytest.raises(OSError, match="No such file") as caught:
        feed(refusal)
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize(("message", "attribute"), [(0, 0), (15, 3), (0xFFFFFFFF, 4000)])
def test_an_impossible_length_is_refused(message: int, attribute: int) -> None:
    with pytest.raises(ValueError, match="netlink message"):
        feed(struct.pack("=I", message) + MESSAGE[4:])
    with pytest.raises(ValueError, match="attribute"):
        feed(MESSAGE[:88] + struct.pack("=H", attribute) + MESSAGE[90:])


@settings(max_examples=40)
@given(st.data())
def test_any_bytes_are_decoded_or_refused(data: st.DataObject) -> None:
    message = bytearray(MESSAGE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(message) - 1))
        message[at] = data.draw(st.integers(0, 255))
    cut = message[: data.draw(st.integers(0, len(message)))]
    decoder = DiagDecoder({}, keep_closed=True)
    try:
        decoder.feed(cut + message, len(cut) + len(message))
        for change in decoder.dump.changed:
            format_endpoints(endpoints(change.message), change.message[16])
            decode_details(change.message)
    except (ValueError, OSError):
        pass


@pytest.mark.parametrize(
    ("address", "family", "text"),
    [
        (bytes([10, 0, 0, 5]) + bytes(12), socket.AF_INET, "10.0.0.5:1"),
        (bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 5]), socket.AF_INET6, "10.0.0.5:1"),
        (bytes(16), socket.AF_INET6, "[::]:1"),
        (bytes.fromhex("20010db8000000000000000000000001"), socket.AF_INET6, "[2001:db8::1]:1"),
    ],
)
def test_endpoints_as_text(address: bytes, family: int, text: str) -> None:
    assert format_endpoint(address, 1, family) == text
