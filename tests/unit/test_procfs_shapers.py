"""Shapers from the kernel's answers, made by hand; and what it costs to understand them."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from contextlib import nullcontext

import pytest

from ioh.procfs import network as shapers

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
        (qdisc(99, b"noqueue") + qdisc(LO, b"tbf", tbf(125)) + DONE, 1000),
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


def test_no_more_of_pyroute2_is_imported_than_the_messages() -> None:
    code = "import sys; from ioh.procfs.network import _tcmsg; _tcmsg(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pyroute2.netlink.rtnl.tcmsg" in done.stdout.split()
    assert {"asyncio", "pyroute2.iproute", "pyroute2.ndb"}.isdisjoint(done.stdout.split())
