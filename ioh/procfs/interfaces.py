"""Reads network interfaces: traffic, errors and drops from /proc/net/dev, link from sysfs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ioh.model.printable import printable
from ioh.procfs.files import (
    ROOT,
    int_or_none,
    ints_or_none,
    path_under,
    read_int,
    read_line,
    read_text,
)
from ioh.procfs.shapers import read_shapers

_RX_FIELDS = 8
_FIELDS = 16
# What drivers of different age write for "speed not known": -1 as u16, as u32, and plain.
_UNKNOWN_SPEEDS = frozenset({0xFFFF, 0xFFFFFFFF})


@dataclass(frozen=True, slots=True)
class InterfaceCounters:
    """What one interface carried since it was made.

    Shape:
        ``name`` is printable; it may differ from the kernel's own name, which is the key of
        read_interfaces().

    Units:
        Bytes with link-layer headers, so more than the payload of TCP above; packets as the
        driver counts them (after GRO / before TSO they may be large).  All running totals;
        some drivers set them to 0 when the link is reset.

    Source:
        /proc/net/dev.  ``rx_drops_total`` is rx_dropped + rx_missed_errors (no buffer in the
        host, or in the adapter); ``rx_frame_errors_total`` sums length, over, CRC and frame
        errors; ``tx_carrier_errors_total`` aborted, carrier, window and heartbeat errors.
    """

    name: str
    rx_bytes_total: int
    rx_packets_total: int
    rx_errors_total: int
    rx_drops_total: int
    rx_fifo_errors_total: int
    rx_frame_errors_total: int
    tx_bytes_total: int
    tx_packets_total: int
    tx_errors_total: int
    tx_drops_total: int
    tx_fifo_errors_total: int
    tx_collisions_total: int
    tx_carrier_errors_total: int


@dataclass(frozen=True, slots=True)
class Link:
    """What an interface is able to carry.

    Shape:
        ``speed_bits_per_s`` None where the driver does not tell (loopback, link down, most
        virtual adapters).  ``is_virtual``: made by software (veth, bridge, bond, tun); the
        speed it claims, if any, limits nothing.  ``duplex`` is ``full``, ``half`` or None;
        ``operstate`` is ``up``, ``down``, ``unknown`` (loopback) …

    Units:
        Speed in bits a second (sysfs: 10⁶ bits a second), in each direction when ``full``.
        ``mtu_bytes`` is the largest IP packet.  ``shaped_bits_per_s``: what a shaper (tc tbf)
        lets out, headers included; None where there is none.
    """

    speed_bits_per_s: int | None = None
    duplex: str | None = None
    operstate: str | None = None
    is_virtual: bool = False
    mtu_bytes: int | None = None
    shaped_bits_per_s: int | None = None


def parse_net_dev(text: str) -> dict[str, InterfaceCounters]:
    """Parse /proc/net/dev.

    Returns:
        By the kernel's own name.  Header lines and lines with fewer than 16 numbers are
        left out.
    """
    interfaces: dict[str, InterfaceCounters] = {}
    for line in text.split("\n"):
        name, colon, rest = line.rpartition(":")
        numbers = ints_or_none(rest.split()[:_FIELDS]) if colon else None
        if numbers is None or len(numbers) < _FIELDS:
            continue
        rx, tx = numbers[:_RX_FIELDS], numbers[_RX_FIELDS:]
        name = name.strip(" ")
        # Left out: rx compressed and multicast, tx compressed.
        interfaces[name] = InterfaceCounters(printable(name), *rx[:6], *tx[:7])
    return interfaces


def read_interfaces(root: Path = ROOT) -> dict[str, InterfaceCounters] | None:
    """The interfaces of the caller's network namespace, by the kernel's own name.

    Returns:
        None when /proc/net/dev cannot be read.
    """
    text = read_text(path_under(root, "proc/net/dev"))
    return None if text is None else parse_net_dev(text)


def parse_speed(text: str | None) -> int | None:
    """Bits a second from sysfs' ``speed`` (10⁶ bits a second); None where it is not known."""
    mbits_per_s = None if text is None else int_or_none(text.strip())
    if mbits_per_s is None or mbits_per_s <= 0 or mbits_per_s in _UNKNOWN_SPEEDS:
        return None
    return mbits_per_s * 1_000_000


def read_link(name: str, root: Path = ROOT) -> Link:
    """Read what sysfs says of an interface; a gone interface gives ``Link()``.

    ``speed`` and ``duplex`` make the driver ask the adapter under the RTNL lock: do not do
    this on every tick (LinkTable).
    """
    if "/" in name or name in {"", ".", ".."}:
        return Link()
    folder = path_under(root, f"sys/class/net/{name}")
    try:
        target = os.readlink(folder)  # noqa: PTH115
    except (OSError, ValueError):
        target = ""
    duplex = read_line(f"{folder}/duplex")
    operstate = read_line(f"{folder}/operstate")
    return Link(
        speed_bits_per_s=parse_speed(read_line(f"{folder}/speed")),
        duplex=duplex if duplex in {"full", "half"} else None,
        operstate=None if operstate is None else printable(operstate),
        is_virtual="/virtual/" in target,
        mtu_bytes=read_int(f"{folder}/mtu"),
    )


class LinkTable:
    """Remembers each interface's Link, and reads it again only now and then."""

    def __init__(self, root: Path = ROOT, max_age_s: float = 10.0) -> None:
        self._root = root
        self._max_age_s = max_age_s
        self._links: dict[str, tuple[float, Link]] = {}
        self._shapers: tuple[float, dict[str, int]] = (-max_age_s, {})

    def get(self, name: str) -> Link:
        """The link of ``name`` (the kernel's own name), at most ``max_age_s`` old."""
        now_s = time.monotonic()
        known = self._links.get(name)
        if known is not None and now_s - known[0] < self._max_age_s:
            return known[1]
        link = replace(read_link(name, self._root), shaped_bits_per_s=self._shaped(name, now_s))
        self._links[name] = (now_s, link)
        return link

    def _shaped(self, name: str, now_s: float) -> int | None:
        """What a shaper lets out; asked once for all interfaces, and only of this machine."""
        if now_s - self._shapers[0] >= self._max_age_s and self._root == ROOT:
            self._shapers = now_s, read_shapers()
        return self._shapers[1].get(name)
