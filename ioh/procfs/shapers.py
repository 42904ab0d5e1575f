"""Reads by netlink how much traffic shapers (tc tbf) let out of each interface."""

from __future__ import annotations

import importlib.machinery
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any

_RTM_NEWQDISC, _TC_H_ROOT = 36, 0xFFFFFFFF
_HEAD = struct.Struct("=IH")  # of a nlmsghdr
# RTM_GETQDISC with NLM_F_REQUEST | NLM_F_DUMP: nlmsghdr and an empty tcmsg.
_REQUEST = struct.pack("=IHHI24x", 36, 38, 0x301, 1)
_BUFFER_BYTES = 1 << 16
_TIMEOUT_S = 2


def read_shapers() -> dict[str, int]:
    """Bits a second by interface, of shapers at the root of its queue.

    Returns:
        Those of the caller's network namespace; empty where the kernel reports none.
    """
    rates: dict[int, int] = {}
    for queue in _queues():
        if queue["parent"] == _TC_H_ROOT and queue.get_attr("TCA_KIND") == "tbf":
            options = queue.get_attr("TCA_OPTIONS")
            wide = options.get_attr("TCA_TBF_RATE64")
            rates[queue["index"]] = 8 * (wide or options.get_attr("TCA_TBF_PARMS")["rate"])
    return {name: rates[index] for index, name in socket.if_nameindex() if index in rates}


def _queues() -> Iterator[Any]:
    """What may be a shaper, as pyroute2's tcmsg."""
    for data in _dump():
        offset = 0
        while offset < len(data):
            length, kind = _HEAD.unpack_from(data, offset)
            if kind != _RTM_NEWQDISC:
                return  # the end, or a refusal
            if b"tbf\0" in data[offset : offset + length]:
                message = _tcmsg()(data, offset=offset)
                message.decode()
                yield message
            offset += (length + 3) & ~3


def _dump() -> Iterator[bytes]:
    """The kernel's datagrams; by a plain socket, since pyroute2's need asyncio and 8 MB."""
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.settimeout(_TIMEOUT_S)
        sock.send(_REQUEST)
        while data := sock.recv(_BUFFER_BYTES):
            yield data


@cache
def _tcmsg() -> Any:  # noqa: ANN401 (pyroute2 has no types)
    """pyroute2's definition of a queue, imported where there is a shaper: 2 MB and 0.04 s.

    Its package would import all of it, asyncio and 250 modules: 18 MB and 0.2 s.  So its
    submodules find an empty one.
    """
    spec = importlib.machinery.PathFinder.find_spec("pyroute2")
    if spec is not None and "pyroute2" not in sys.modules:
        package = sys.modules["pyroute2"] = ModuleType("pyroute2")
        package.__path__ = list(spec.submodule_search_locations or ())
    from pyroute2.netlink.rtnl.tcmsg import sched_tbf, tcmsg

    # Above 34 Gbit/s, which pyroute2 does not know.
    sched_tbf.options.nla_map += (("TCA_TBF_RATE64", "uint64"),)
    return tcmsg
