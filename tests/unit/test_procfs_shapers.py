"""Answers of the kernel about queues, made by hand and cut anywhere."""

from __future__ import annotations

import struct

import pytest

from ioh.procfs.shapers import parse_qdiscs

ROOT = 0xFFFFFFFF
DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)


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
    ("data", "rates"),
    [
        (qdisc(3, b"tbf", tbf(10_000_000)) + DONE, {3: 80_000_000}),
        (qdisc(3, b"tbf", tbf(0xFFFFFFFF, wide=6_250_000_000)) + DONE, {3: 50_000_000_000}),
        (qdisc(1, b"noqueue") + qdisc(3, b"tbf", tbf(125)) + DONE, {3: 1000}),
        (qdisc(3, b"tbf", tbf(125), parent=0x10001) + DONE, {}),  # of one class only
        (qdisc(3, b"htb", tbf(125)) + DONE, {}),
        (qdisc(3, b"tbf") + DONE, {}),
        (struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1), {}),
        (b"", {}),
    ],
)
def test_rates_by_interface(data: bytes, rates: dict[int, int]) -> None:
    assert parse_qdiscs(data) == (rates, True)


def test_there_may_be_more_to_come() -> None:
    assert parse_qdiscs(qdisc(3, b"tbf", tbf(125))) == ({3: 1000}, False)


def test_what_is_cut_anywhere_is_read_as_far_as_it_goes() -> None:
    data = qdisc(3, b"tbf", tbf(125, wide=200)) + DONE
    for length in range(len(data)):
        rates, _ = parse_qdiscs(data[:length])
        assert rates in ({}, {3: 1000}, {3: 1600})
