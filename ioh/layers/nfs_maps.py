"""Decodes the maps of probes/nfs.h: totals by file system, procedures by name."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ioh.bpf.totals import STARTED, WORDS, decode_op_totals
from ioh.layers.base import PLEASE_REPORT
from ioh.model.derive import add_ops
from ioh.model.printable import printable
from ioh.model.sample import OpTotals, Unavailable

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map

DEV_OP = struct.Struct("=II")
PROCEDURE_KEY = struct.Struct("=I28s")  # version, name
PROCEDURE_WORDS = 7
_MOST_BYTES = 32 << 20  # of kernel memory for the totals of all file systems and CPUs
_FLOWS_MOST_BYTES = 16 << 20
# Stands for all file systems that find the table full; no device has major number 4095.
OTHER_DEVS = 0xFFFFFFFF
NOTHING = OpTotals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def map_sizes(host: HostFacts, flow_bytes: int) -> dict[str, int]:
    """How many entries the per-CPU maps have, within bounds on big hosts."""
    return {
        "MAX_DEV_OPS": max(16, min(256, _MOST_BYTES // (WORDS * 8 * host.cpu_count))),
        "OTHER_DEVS": OTHER_DEVS,
        "FLOWS": max(1024, min(16384, _FLOWS_MOST_BYTES // (flow_bytes * host.cpu_count))),
    }


def alias_define(btf: Btf) -> dict[str, int] | Unavailable:
    """Where a dentry is linked to its inode: in union d_u until Linux 7, in an unnamed one since.

    The union lost its name between 6.12 and 7.2.
    """
    for path in ("d_u.d_alias", "d_alias"):
        offset = btf.offset("dentry", path)
        if offset is not None:
            return {"OFF_dentry_alias": offset}
    return Unavailable("this kernel's struct dentry has no d_alias", PLEASE_REPORT)


class DevTotals:
    """Totals of each file system and op; remembers the last reading to spare idle ops.

    Each op has an entry from the start for the file systems that find the table full.
    """

    def __init__(self, ops: tuple[str, ...], *, queue: bool) -> None:
        self._ops = ops
        self._queue = queue
        self._previous: dict[bytes, OpTotals] = {}
        self._has_others = False

    def read(self, totals: Map, ended: int) -> dict[int, dict[str, OpTotals]]:
        """By the file system's dev_t, then by op."""
        parts: dict[int, dict[str, OpTotals]] = defaultdict(dict)
        if not self._has_others:
            for op in range(len(self._ops)):
                totals.ensure(DEV_OP.pack(OTHER_DEVS, op))
            self._has_others = True
        for key, value in totals.items_bytes():
            dev, op = DEV_OP.unpack(key)
            if dev == OTHER_DEVS and not totals.per_cpu(value)[:, STARTED].any():
                continue
            decoded = decode_op_totals(
                totals.per_cpu(value), ended, queue=self._queue, previous=self._previous.get(key)
            )
            self._previous[key] = decoded
            done = (decoded.count_total or 0) + (decoded.errors_total or 0)
            inflight = max(0, (decoded.started_total or 0) - done)
            parts[dev][self._ops[op]] = replace(decoded, inflight=inflight)
        return parts


def sum_parts(
    parts: Mapping[int, Mapping[str, OpTotals]], ops: tuple[str, ...]
) -> dict[str, OpTotals]:
    """Each op over all file systems; zero where none has seen it."""
    by_op: dict[str, list[OpTotals]] = defaultdict(list)
    for totals in parts.values():
        for name, op in totals.items():
            by_op[name].append(op)
    nothing = replace(NOTHING, inflight=0)
    return {name: add_ops(by_op[name]) if by_op[name] else nothing for name in ops}


def read_procedures(procedures: Map) -> dict[tuple[str, str], list[int]]:
    """Counters of each procedure in struct procedure's order, by version and name."""
    found: dict[tuple[str, str], list[int]] = {}
    for key, counters in procedures.sums(PROCEDURE_WORDS):
        version, name = PROCEDURE_KEY.unpack(key)
        shown = printable(name.split(b"\0")[0]).removeprefix("OP_")
        found[f"v{version}", shown] = counters
    return found
