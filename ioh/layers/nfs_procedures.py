"""Which procedures of NFSv2 and v3, and operations of NFSv4, are which op of the NFS layers."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout
from ioh.layers.per_owner_totals import Ops
from ioh.model.sample import OpTotals

if TYPE_CHECKING:
    from ioh.bpf.maps import Map

PROCEDURE_KEY = Layout("proc_key", "u32 version; char name[28];")

# As the client, the server and mountstats call them.  Not: READ, WRITE and COMMIT, which have ops
# of their own; COPY and CLONE, which move data; those of a mount and of a session.
PROCEDURES: dict[str, tuple[str, ...]] = {
    "getattr": ("GETATTR", "READLINK", "GETACL", "GETXATTR", "LISTXATTRS", "STATFS", "FSSTAT"),
    "lookup": ("LOOKUP", "LOOKUPP"),
    "access": ("ACCESS",),
    "open": ("OPEN", "OPEN_NOATTR", "OPEN_CONFIRM"),
    "close": ("CLOSE", "OPEN_DOWNGRADE", "DELEGRETURN"),
    "create": ("CREATE", "MKDIR", "SYMLINK", "MKNOD"),
    "remove": ("REMOVE", "RMDIR"),
    "rename": ("RENAME", "LINK"),
    "readdir": ("READDIR", "READDIRPLUS"),
    "setattr": (
        "SETATTR", "SETACL", "SETXATTR", "REMOVEXATTR", "ALLOCATE", "DEALLOCATE", "ZERO_RANGE",
    ),
    "lock": ("LOCK", "LOCKT", "LOCKU", "FREE_STATEID", "RELEASE_LOCKOWNER"),
}  # fmt: skip
METADATA = tuple(PROCEDURES)
METADATA_NAMES = tuple(name for names in PROCEDURES.values() for name in names)


def tell_ops(op_of: Map, ops: tuple[str, ...], *, v4_prefix: str = "") -> None:
    """Tell the probe the number of each procedure's op: fill its map ``metadata_ops``."""
    for op, names in PROCEDURES.items():
        number = ops.index(op).to_bytes(4, sys.byteorder)
        for name in names:
            for version, prefix in ((2, ""), (3, ""), (4, v4_prefix)):
                op_of.update(PROCEDURE_KEY.pack(version, f"{prefix}{name}".encode()), number)


def without_starts(ops: Ops) -> dict[str, OpTotals]:
    """The probe sees only the end of metadata calls: how many are in flight is not known."""
    return {
        name: replace(op, inflight=None, started_total=None, weighted_ns_total=None)
        if name in PROCEDURES
        else op
        for name, op in ops.items()
    }
