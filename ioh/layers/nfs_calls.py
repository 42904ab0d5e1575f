"""A sample of NFS calls out of the map of probes/nfs_calls.h, the same ones as at the other end."""

from __future__ import annotations

import ipaddress
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ioh.layers.base import known_offsets
from ioh.model.calls import CALL_OPS, KEPT_BATCHES, MOST_CALLS, CallBatch, Calls, packed_calls
from ioh.model.sample import OpTotals

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Maps
    from ioh.model.filters import Filters

_AF_INET = 2
_KEY = struct.Struct("=IIH2s16s")  # XID, op, family, port, address
_NS, _LEVEL = struct.Struct("=Q"), struct.Struct("=I")
_ENOUGH = 256  # calls of a sample
_FIRST, _LAST_LEVEL = bytes(4), 31  # as in probes/nfs_calls.h


def call_defines(host: HostFacts, filters: Filters, *structs: str) -> dict[str, int]:
    """What makes the probe keep calls; nothing where nobody asks, or this kernel has no such."""
    found = known_offsets(host.btf, *structs) if filters.sample_calls else {}
    return {**found, "SAMPLED_CALLS": MOST_CALLS} if found else {}


def address_text(family: int, address: bytes) -> str:
    """``10.0.0.7`` or ``2001:db8::7``; "" for a family that is neither."""
    if family == _AF_INET:
        return str(ipaddress.IPv4Address(address[:4]))
    return str(ipaddress.IPv6Address(address)) if family == 10 else ""


class SampledCalls:
    """Takes the calls out of the map, and has the probe keep fewer where there are many.

    Args:
        kinds: The layer's ops in the probe's order, each as one of CALL_OPS.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = [CALL_OPS.index(kind) for kind in kinds]
        self._batches: deque[CallBatch] = deque(maxlen=KEPT_BATCHES)
        self._done = 0

    def read(self, maps: Maps, ops: Mapping[str, OpTotals]) -> Calls:
        """The newest calls and those of the samples before; nothing where the probe keeps none.

        Args:
            maps: The probe's.
            ops: The layer's totals: the calls to choose from.
        """
        if "sampled" not in maps:
            return ()
        done = sum(op.count_total or 0 for op in ops.values())
        level, self._done = ((done - self._done) // _ENOUGH).bit_length(), done
        maps["sample_level"].update(_FIRST, _LEVEL.pack(min(_LAST_LEVEL, level)))
        calls = []
        for key, value in maps["sampled"].drain():
            xid, op, family, _, address = _KEY.unpack(key)
            if op < len(self._kinds):
                ns = _NS.unpack(value)[0]
                calls.append((xid, self._kinds[op], address_text(family, address), ns))
        self._batches.append(packed_calls(time.monotonic_ns(), calls[:MOST_CALLS]))
        return tuple(self._batches)
