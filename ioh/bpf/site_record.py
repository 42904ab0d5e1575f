"""A place in a server's file as ``probes/db.c`` knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioh.bpf.layout import Layout

if TYPE_CHECKING:
    from ioh.bpf.sites import Site

# Found by the cookie of the attachment.
SITE = Layout(
    "site",
    op="u32",
    role="u32",
    way="u32",  # an op can be observed in several ways; the outermost counts
    owner="u32",
    size_kind="u32",
    size_register="u32",  # its offset in struct pt_regs
    size_bits="u32",  # to shift out above the value
    size_is_signed="u32",
    displacement="s64",
    scale="u64",
    only="u32[4]",  # values that the size must be one of; 0 if it is a size
    key_register="u32",  # distinguishes a thread's operations: its offset + 1, or 0
    is_wait="u32",  # only a wait of another operation: others count it
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
