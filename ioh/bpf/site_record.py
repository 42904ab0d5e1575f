"""A place in a server's file as ``probes/db.c`` knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout

if TYPE_CHECKING:
    from ioh.bpf.sites import Site

SITE = Layout(
    "site",  # found by the cookie of the attachment
    """
    u32 op, role;
    u32 way; /* an op can be observed in several ways; the outermost counts */
    u32 owner, size_kind;
    u32 size_register; /* its offset in struct pt_regs */
    u32 size_bits; /* to shift out above the value */
    u32 size_is_signed;
    s64 displacement;
    u64 scale;
    u32 only[4]; /* values that the size must be one of; 0 if it is a size */
    u32 key_register; /* distinguishes a thread's operations: its offset + 1, or 0 */
    u32 is_wait; /* only a wait of another operation: others count it */
    """,
)
ROLES = ("start", "done", "cancel", "drop", "first", "unseen")
OWNERS = ("process", "parent")
SIZES = ("none", "register", "memory", "constant")
_MOST_PROBES = 64  # of a server


def pack_site(site: Site, owner: str, ops: Sequence[str], server: int = 0) -> bytes:
    """A site in the probe's format; ways of several servers in one program differ."""
    kind, register, displacement, is_signed = "none", 0, 0, 0
    bits = 64
    if site.size is not None:
        kind, register, displacement = site.size.kind, site.size.register, site.size.displacement
        bits, is_signed = 8 * site.size.width_bytes, int(site.size.signed)
    way = _MOST_PROBES * server + site.way
    head = (ops.index(site.op), ROLES.index(site.role), way, OWNERS.index(owner))
    only = (site.only * 4)[:4] or (0, 0, 0, 0)
    key = 0 if site.key is None else site.key.register + 1
    size = (SIZES.index(kind), register, 64 - bits, is_signed, displacement, site.scale)
    return SITE.pack(*head, *size, *only, key, site.is_wait)
