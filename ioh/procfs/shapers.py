"""Reads by netlink how much traffic shapers (tc tbf) let out of each interface."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping

# linux/netlink.h, linux/rtnetlink.h, linux/pkt_sched.h
_NETLINK_ROUTE = 0
_RTM_NEWQDISC = 36
_RTM_GETQDISC = 38
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND = 1
_TCA_OPTIONS = 2
_TCA_TBF_PARMS = 1
_TCA_TBF_RATE64 = 4

_NLMSG = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=B3xiIII")  # family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")
_RATESPEC = struct.Struct("=8xI")  # tc_ratespec, first in tc_tbf_qopt: bytes a second
_RATE64 = struct.Struct("=Q")
_BUFFER_BYTES = 1 << 16
_TIMEOUT_S = 2


def read_shapers() -> dict[str, int]:
    """Bits a second by interface, of shapers at the root of its queue.

    Returns:
        Those of the caller's network namespace; empty where the kernel tells of none.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as sock:
            sock.settimeout(_TIMEOUT_S)
            body = _TCMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
            sock.send(
                _NLMSG.pack(_NLMSG.size + len(body), _RTM_GETQDISC, _NLM_F_REQUEST_DUMP, 1, 0)
                + body
            )
            rates: dict[int, int] = {}
            is_last = False
            while not is_last:
                found, is_last = parse_qdiscs(sock.recv(_BUFFER_BYTES))
                rates.update(found)
    except OSError:
        return {}
    names = {index: name for index, name in socket.if_nameindex() if index in rates}
    return {name: rates[index] for index, name in names.items()}


def parse_qdiscs(data: bytes) -> tuple[dict[int, int], bool]:
    """Bits a second by interface number from one answer, and whether it is the last one."""
    rates: dict[int, int] = {}
    at = 0
    while at + _NLMSG.size <= len(data):
        length, kind, *_ = _NLMSG.unpack_from(data, at)
        if kind in {_NLMSG_DONE, _NLMSG_ERROR} or length < _NLMSG.size:
            return rates, True
        body = data[at + _NLMSG.size : at + length]
        if kind == _RTM_NEWQDISC and len(body) >= _TCMSG.size:
            _, interface, _, parent, _ = _TCMSG.unpack_from(body)
            rate = _tbf_rate(dict(_attributes(body[_TCMSG.size :])))
            if parent == _TC_H_ROOT and rate:
                rates[interface] = rate * 8
        at += (length + 3) & ~3
    return rates, not data


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def _tbf_rate(attributes: Mapping[int, bytes]) -> int | None:
    """Bytes a second; None where it is another kind of queue."""
    if attributes.get(_TCA_KIND, b"").rstrip(b"\0") != b"tbf":
        return None
    options = dict(_attributes(attributes.get(_TCA_OPTIONS, b"")))
    wide, narrow = options.get(_TCA_TBF_RATE64, b""), options.get(_TCA_TBF_PARMS, b"")
    if len(wide) >= _RATE64.size:
        return int(_RATE64.unpack_from(wide)[0])
    return int(_RATESPEC.unpack_from(narrow)[0]) if len(narrow) >= _RATESPEC.size else None
