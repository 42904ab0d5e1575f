"""Shared by the NFS client and server: columns, offsets, procedures, sampled calls."""

from __future__ import annotations

import ipaddress
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ioh.bpf.defines import PLEASE_REPORT, dentry_alias, known_offsets, offset_defines
from ioh.bpf.layout import Layout
from ioh.layers.flows import FILE_KEY, FLOW
from ioh.layers.mount_roots import PATH_DEFINES
from ioh.layers.nfs_procedures import METADATA, PROCEDURE_KEY
from ioh.layers.part_totals import PART_OP, part_defines
from ioh.model.calls import CALL_OPS, KEPT_BATCHES, MOST_CALLS, CallBatch, Calls, packed_calls
from ioh.model.printable import printable
from ioh.model.sample import OpTotals, Unavailable

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map, Maps
    from ioh.model.filters import Filters

BY_BYTES = "read_bytes_per_s, write_bytes_per_s"

FLOW_COLUMNS = """
reads_total       | r/s  | READs.
read_bytes_total  | rB/s | Bytes read.
read_ns_total     |      | Time of all READs.
read_latency_us = 1e-3 * read_ns_total / reads_total | r µs | Mean time of a READ.
writes_total      | w/s  | WRITEs.
write_bytes_total | wB/s | Bytes written.
write_ns_total    |      | Time of all WRITEs.
write_latency_us = 1e-3 * write_ns_total / writes_total | w µs | Mean time of a WRITE.
commits_total     | c/s  | COMMITs.
commit_ns_total   |      | Time of all COMMITs.
commit_latency_us = 1e-3 * commit_ns_total / commits_total | c µs |
    Mean time of a COMMIT.
"""
META_COLUMNS = """
metas_total       | meta/s | Metadata calls: all but READ, WRITE and COMMIT.
meta_ns_total     |      | Time of all metadata calls.
meta_latency_us = 1e-3 * meta_ns_total / metas_total | meta µs | Mean time of a metadata call.
"""

# Counters of one RPC procedure (NFSv4: one operation of a compound).
PROCEDURE = Layout(
    "procedure", "u64 calls, errors, queue_ns, rtt_ns, execute_ns, retransmits, timeouts;"
)
# One call; the address is the other end's.
SAMPLED_KEY = Layout("sampled_key", "u32 xid, op; u16 family, port; u8 address[16];")
NFS_STRUCTS = (FILE_KEY, FLOW, PART_OP, PROCEDURE_KEY, PROCEDURE, SAMPLED_KEY)
_FLOWS_MOST_BYTES = 16 << 20
_AF_INET = 2
_NS, _LEVEL = struct.Struct("=Q"), struct.Struct("=I")
_ENOUGH = 256  # sampled calls per tick
_FIRST, _LAST_LEVEL = bytes(4), 31  # as in probes/nfs_calls.h


def nfs_defines(
    host: HostFacts,
    filters: Filters,
    ops: int,
    structs: tuple[str, ...],
    of_call: tuple[str, ...],
) -> dict[str, int] | Unavailable:
    """Constants of both NFS probes, with so many ``ops``.

    No call is sampled unless the kernel has all of ``of_call``.
    """
    offsets = offset_defines(host.btf, *structs)
    if isinstance(offsets, Unavailable):
        return offsets
    calls = known_offsets(host.btf, *of_call) if filters.sample_calls else {}
    alias = dentry_alias(host.btf)
    if alias is None:
        return Unavailable("this kernel's struct dentry has no d_alias", PLEASE_REPORT)
    return {
        **part_defines(host, ops),
        **PATH_DEFINES,
        **offsets,
        "OFF_dentry_alias": alias,
        "FLOWS": max(1024, min(16384, _FLOWS_MOST_BYTES // (FLOW.size * host.cpu_count))),
        **({**calls, "SAMPLED_CALLS": MOST_CALLS} if calls else {}),
    }


def read_procedures(procedures: Map) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Counters of each procedure, in struct procedure's order, by version and name."""
    rows: dict[tuple[str, ...], tuple[int, ...]] = {}
    for key, counters in procedures.sums(PROCEDURE.words):
        version, name = PROCEDURE_KEY.unpack(key)
        title = printable(name.split(b"\0")[0]).removeprefix("OP_")
        rows[f"v{version}", title] = counters
    return rows


def address_text(family: int, address: bytes) -> str:
    """``10.0.0.7`` or ``2001:db8::7``; "" for any other family."""
    if family == _AF_INET:
        return str(ipaddress.IPv4Address(address[:4]))
    return str(ipaddress.IPv6Address(address)) if family == 10 else ""


class SampledCalls:
    """Take sampled calls out of the map; make the probe sample fewer if there are many.

    ``kinds``: one of CALL_OPS for each of the layer's ops, in the probe's order.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = [CALL_OPS.index(kind) for kind in kinds]
        self._batches: deque[CallBatch] = deque(maxlen=KEPT_BATCHES)
        self._count = 0

    def read(self, maps: Maps, ops: Mapping[str, OpTotals]) -> Calls:
        """The newest calls of ``ops``, and earlier ones; () if calls are not sampled."""
        if "sampled" not in maps:
            return ()
        count = sum(op.count_total or 0 for name, op in ops.items() if name not in METADATA)
        level, self._count = ((count - self._count) // _ENOUGH).bit_length(), count
        maps["sample_level"].update(_FIRST, _LEVEL.pack(min(_LAST_LEVEL, level)))
        calls = []
        for key, value in maps["sampled"].drain():
            xid, op, family, _, address = SAMPLED_KEY.unpack(key)
            if op < len(self._kinds):
                ns = _NS.unpack(value)[0]
                calls.append((xid, self._kinds[op], address_text(family, address), ns))
        self._batches.append(packed_calls(time.monotonic_ns(), calls[:MOST_CALLS]))
        return tuple(self._batches)
