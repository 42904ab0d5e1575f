"""Reads the network namespace: protocol counters, interfaces and their shapers."""

from __future__ import annotations

import importlib.machinery
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ioh.procfs.files import ROOT, path_under, read_int, read_text

ProtocolCounters = dict[str, dict[str, int]]

# What drivers write if the speed is unknown: -1, also as u16 and u32.
_UNKNOWN_SPEEDS = frozenset({-1, 0, 0xFFFF, 0xFFFFFFFF})
_RTM_NEWQDISC, _TC_H_ROOT = 36, 0xFFFFFFFF
_HEAD = struct.Struct("=IH")  # of a nlmsghdr
# RTM_GETQDISC with NLM_F_REQUEST | NLM_F_DUMP: nlmsghdr and an empty tcmsg.
_REQUEST = struct.pack("=IHHI24x", 36, 38, 0x301, 1)
_BUFFER_BYTES = 1 << 16
_TIMEOUT_S = 2


def read_counters(name: str, root: Path = ROOT) -> ProtocolCounters:
    """Counters of ``snmp`` (IPv4, and TCP over IPv4 and IPv6) or ``netstat`` (Linux-specific).

    Running totals, such as ``counters["Tcp"]["RetransSegs"]``; empty if unreadable.  The file has
    pairs of lines, first names and then values, both starting with the same ``Proto:``.
    """
    counters: ProtocolCounters = {}
    lines = (read_text(path_under(root, f"proc/net/{name}")) or "").split("\n")
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, words = names.partition(":")
        same, _, numbers = values.partition(":")
        if protocol == same:
            with suppress(ValueError):
                counters[protocol] = dict(
                    zip(words.split(), map(int, numbers.split()), strict=False)
                )
    return counters


class Link(NamedTuple):
    """The speed of an interface, and the rate of its shaper (tc tbf), headers included.

    None if unknown.
    """

    speed_bits_per_s: int | None = None
    shaped_bits_per_s: int | None = None


def read_interfaces() -> dict[str, Any]:
    """psutil's counters by the kernel's name; empty if /proc/net/dev cannot be read.

    Running totals; some drivers reset them together with the link.  Bytes include link-layer
    headers; packets are counted by the driver.
    """
    import psutil

    try:
        return dict(psutil.net_io_counters(pernic=True, nowrap=False))
    except (OSError, ValueError):
        return {}


def read_addresses() -> tuple[str, ...]:
    """The IP addresses of this network namespace; empty if ioh has denied itself sockets."""
    import psutil

    try:
        found = psutil.net_if_addrs()
    except OSError:
        return ()
    families = {socket.AF_INET, socket.AF_INET6}
    return tuple(
        each.address for all_ in found.values() for each in all_ if each.family in families
    )


def read_speed(name: str, root: Path = ROOT) -> int | None:
    """An interface's speed per direction, in bits/s; its driver finds it under the RTNL lock.

    Read from sysfs: psutil would open a socket, which ioh denies itself.  None if the driver does
    not report it (loopback, link down), and for virtual interfaces (veth, bridge, bond, tun): the
    10 Gbit/s they report limit nothing.
    """
    folder = path_under(root, f"sys/class/net/{name}")
    mbits_per_s = None if "/virtual/" in os.path.realpath(folder) else read_int(f"{folder}/speed")
    if mbits_per_s is None or mbits_per_s in _UNKNOWN_SPEEDS:
        return None
    return mbits_per_s * 1_000_000


class LinkTable:
    """A cache of each interface's Link, read again every ``max_age_s``."""

    def __init__(self, root: Path = ROOT, max_age_s: float = 10.0) -> None:
        self._root = root
        self._max_age_s = max_age_s
        self._read_s = -max_age_s
        self._links: dict[str, Link] = {}
        self._shapers: dict[str, int] = {}

    def get(self, name: str) -> Link:
        """The link of ``name`` (the kernel's name), at most ``max_age_s`` old."""
        now_s = time.monotonic()
        if now_s - self._read_s >= self._max_age_s:
            self._read_s, self._links = now_s, {}
            self._shapers = read_shapers() if self._root == ROOT else {}  # live machine only
        if name not in self._links:
            self._links[name] = Link(read_speed(name, self._root), self._shapers.get(name))
        return self._links[name]


def read_shapers() -> dict[str, int]:
    """Bits per second by interface, of shapers that are the root qdisc."""
    rates: dict[int, int] = {}
    for queue in _queues():
        if queue["parent"] == _TC_H_ROOT and queue.get_attr("TCA_KIND") == "tbf":
            options = queue.get_attr("TCA_OPTIONS")
            wide = options.get_attr("TCA_TBF_RATE64")
            rates[queue["index"]] = 8 * (wide or options.get_attr("TCA_TBF_PARMS")["rate"])
    return {name: rates[index] for index, name in socket.if_nameindex() if index in rates}


def _queues() -> Iterator[Any]:
    """Possible shapers, as pyroute2's tcmsg."""
    for data in _dump():
        offset = 0
        while offset < len(data):
            length, kind = _HEAD.unpack_from(data, offset)
            if kind != _RTM_NEWQDISC:
                return  # the end, or an error
            if b"tbf\0" in data[offset : offset + length]:
                message = _tcmsg()(data, offset=offset)
                message.decode()
                yield message
            offset += (length + 3) & ~3


def _dump() -> Iterator[bytes]:
    """The kernel's datagrams, by a plain socket: pyroute2's need asyncio and 8 MB."""
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.settimeout(_TIMEOUT_S)
        sock.send(_REQUEST)
        while data := sock.recv(_BUFFER_BYTES):
            yield data


@cache
def _tcmsg() -> Any:  # noqa: ANN401 (pyroute2 has no types)
    """pyroute2's definition of a qdisc, imported only if there is a shaper: 2 MB and 0.04 s.

    The whole package would import asyncio and 250 modules: 18 MB and 0.2 s.  So put an empty
    package in its place.
    """
    spec = importlib.machinery.PathFinder.find_spec("pyroute2")
    if spec is not None and "pyroute2" not in sys.modules:
        package = sys.modules["pyroute2"] = ModuleType("pyroute2")
        package.__path__ = list(spec.submodule_search_locations or ())
    from pyroute2.netlink.rtnl.tcmsg import sched_tbf, tcmsg

    # Rates above 34 Gbit/s; pyroute2 does not have it.
    sched_tbf.options.nla_map += (("TCA_TBF_RATE64", "uint64"),)
    return tcmsg
