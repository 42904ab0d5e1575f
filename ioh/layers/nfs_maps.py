"""Decodes the maps of probes/nfs.h: procedures by name."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ioh.layers.base import PLEASE_REPORT, offset_defines
from ioh.layers.part_totals import part_defines
from ioh.model.printable import printable
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from ioh.bpf.host import HostFacts
    from ioh.bpf.maps import Map

PROCEDURE_KEY = struct.Struct("=I28s")  # version, name
PROCEDURE_WORDS = 7
_FLOWS_MOST_BYTES = 16 << 20


def nfs_defines(
    host: HostFacts, structs: tuple[str, ...], flow_bytes: int, lost: int
) -> dict[str, int | str] | Unavailable:
    """What both of NFS' probes are compiled with.

    Args:
        host: How large per-CPU maps may be, and the kernel's structs.
        structs: Whose offsets are wanted, as for offset_defines().
        flow_bytes: Of one value of map ``flows``.
        lost: How many reasons there are.
    """
    offsets = offset_defines(host.btf, *structs)
    if isinstance(offsets, Unavailable):
        return offsets
    # In union d_u until it lost its name, between Linux 6.12 and 7.2.
    aliases = (host.btf.offset("dentry", path) for path in ("d_u.d_alias", "d_alias"))
    alias = next((offset for offset in aliases if offset is not None), None)
    if alias is None:
        return Unavailable("this kernel's struct dentry has no d_alias", PLEASE_REPORT)
    return {
        **part_defines(host),
        **offsets,
        "OFF_dentry_alias": alias,
        "FLOWS": max(1024, min(16384, _FLOWS_MOST_BYTES // (flow_bytes * host.cpu_count))),
        "LOST_REASONS": lost,
    }


def read_procedures(procedures: Map) -> dict[tuple[str, str], tuple[int, ...]]:
    """Counters of each procedure in struct procedure's order, by version and name."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for key, counters in procedures.sums(PROCEDURE_WORDS):
        version, name = PROCEDURE_KEY.unpack(key)
        shown = printable(name.split(b"\0")[0]).removeprefix("OP_")
        found[f"v{version}", shown] = counters
    return found
