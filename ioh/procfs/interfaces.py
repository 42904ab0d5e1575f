"""Reads network interfaces: traffic, errors and drops by psutil, the link's speed from sysfs."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from ioh.procfs.files import ROOT, path_under, read_int
from ioh.procfs.shapers import read_shapers

# What drivers of different age write for "speed not known": -1 as u16, as u32, and plain.
_UNKNOWN_SPEEDS = frozenset({-1, 0, 0xFFFF, 0xFFFFFFFF})


class Link(NamedTuple):
    """What an interface is able to carry, in bits a second; None where nobody knows.

    Shape:
        ``shaped_bits_per_s``: what a shaper (tc tbf) lets out, headers included.
    """

    speed_bits_per_s: int | None = None
    shaped_bits_per_s: int | None = None


def read_interfaces() -> dict[str, Any]:
    """psutil's counters of this network namespace, by the kernel's own name.

    Returns:
        Running totals; some drivers set them to 0 when the link is reset.  Bytes with
        link-layer headers, packets as the driver counts them.  Empty when /proc/net/dev
        cannot be read.
    """
    import psutil

    try:
        return dict(psutil.net_io_counters(pernic=True, nowrap=False))
    except (OSError, ValueError):
        return {}


def read_addresses() -> tuple[str, ...]:
    """This network namespace's own IP addresses; empty where they cannot be read.

    Not afterwards, when ioh has forbidden itself sockets.
    """
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
    """An interface's speed in each direction, which its driver asks under the RTNL lock.

    From sysfs: psutil opens a network socket for it, which ioh forbids itself.

    Returns:
        None where the driver does not say (loopback, link down), and of what software made
        (veth, bridge, bond, tun): the 10 Gbit/s that it claims limit nothing.
    """
    folder = path_under(root, f"sys/class/net/{name}")
    mbits_per_s = None if "/virtual/" in os.path.realpath(folder) else read_int(f"{folder}/speed")
    if mbits_per_s is None or mbits_per_s in _UNKNOWN_SPEEDS:
        return None
    return mbits_per_s * 1_000_000


class LinkTable:
    """Remembers each interface's Link, and reads them again only now and then."""

    def __init__(self, root: Path = ROOT, max_age_s: float = 10.0) -> None:
        self._root = root
        self._max_age_s = max_age_s
        self._read_s = -max_age_s
        self._links: dict[str, Link] = {}
        self._shapers: dict[str, int] = {}

    def get(self, name: str) -> Link:
        """The link of ``name`` (the kernel's own name), at most ``max_age_s`` old."""
        now_s = time.monotonic()
        if now_s - self._read_s >= self._max_age_s:
            self._read_s, self._links = now_s, {}
            self._shapers = read_shapers() if self._root == ROOT else {}  # of this machine alone
        if name not in self._links:
            self._links[name] = Link(read_speed(name, self._root), self._shapers.get(name))
        return self._links[name]
