"""A place in a server's file as ``probes/db.c`` knows it: numbers of roles, owners and sizes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioh.bpf.sites import Site

SITE = struct.Struct("=IIIIIIIIqQ6I")  # struct site of probes/db.c
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
