"""The ``-D`` constants of probes: numbers of names, and where this kernel's structs have what."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ioh.bpf.values import FilterValue, marker
from ioh.model.failures import TROUBLE
from ioh.model.sample import Unavailable

if TYPE_CHECKING:
    from ioh.bpf.btf import Btf

PLEASE_REPORT = "ioh does not know this kernel yet: please report its version"


def c_flags(defines: Mapping[str, int]) -> tuple[list[str], tuple[int, ...]]:
    """The compiler's flags, and the FilterValues, on which the flags do not depend."""
    flags: list[str] = []
    values: list[int] = []
    for name, number in defines.items():
        if isinstance(number, FilterValue):
            flags.append(f"-D{name}={marker(len(values))}")
            values.append(number)
        else:
            flags.append(f"-D{name}={number}{'ULL' * (number >= 1 << 31)}")
    return flags, tuple(values)


def numbered(prefix: str, names: Iterable[str]) -> dict[str, int]:
    """``-D`` constants of names that the probe knows by their position, from 0."""
    return {f"{prefix}{name.upper()}": at for at, name in enumerate(names)}


def errno_of(name: str) -> int:
    """This machine's number of an errno."""
    number: int = getattr(errno, name)
    return number


def trouble_defines(number_of: Callable[[str], int | None]) -> dict[str, int]:
    """Errnos that are no answer to a metadata call: a bit each, from 0 and from 64.

    ``number_of``: None for an errno that does not occur.
    """
    numbers = {number for name in TROUBLE if (number := number_of(name)) is not None}
    bits = sum(1 << number for number in numbers)
    return {"TROUBLE_LOW": bits & (1 << 64) - 1, "TROUBLE_HIGH": bits >> 64}


def offset_defines(btf: Btf, *structs: str) -> dict[str, int] | Unavailable:
    """``OFF_<struct>_<member>`` constants of ``"task_struct pid tgid"`` …; a dot becomes ``_``.

    Unavailable names the first member that this kernel lacks.
    """
    defines: dict[str, int] = {}
    for owner, *paths in map(str.split, structs):
        for path in paths:
            offset = btf.offset(owner, path)
            if offset is None:
                return Unavailable(f"this kernel's struct {owner} has no {path}", PLEASE_REPORT)
            defines[f"OFF_{owner}_{path.replace('.', '_')}"] = offset
    return defines


def known_offsets(btf: Btf, *structs: str) -> dict[str, int]:
    """Like offset_defines(), for optional members: empty if this kernel lacks one of them."""
    found = offset_defines(btf, *structs)
    return {} if isinstance(found, Unavailable) else found


def dentry_alias(btf: Btf) -> int | None:
    """Offset of a dentry's d_alias; Linux 7.2 no longer has the union d_u around it."""
    offset = btf.offset("dentry", "d_u.d_alias")
    return btf.offset("dentry", "d_alias") if offset is None else offset


def argument_at(btf: Btf, tracepoint: str, kind: str, default: int = 0) -> int:
    """Index of a tracepoint's argument that points to a struct ``kind``."""
    args = btf.tracepoint(tracepoint) or ()
    return args.index(kind) if kind in args else default
