"""What libbpf's searches by name cannot find in BTF: members of enums that have no name."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("=HBBIIIII")  # magic, version, flags, header; types, strings: at, bytes
_TYPE = struct.Struct("=III")
_ENUMERATOR = struct.Struct("=Ii")
_KIND_ENUM = 6
# Bytes that follow a type of each kind, once and for each of its members (uapi/linux/btf.h).
_MORE = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0)}
_MORE |= {15: (0, 12), 17: (4, 0), 19: (0, 12)}


def find_enumerator(raw: bytes, name: str) -> int | None:
    """Value of an enumerator of whatever enum, from the bytes of /sys/kernel/btf/vmlinux.

    Returns:
        None where there is none of that name, or the bytes are no BTF.
    """
    if len(raw) < _HEADER.size:
        return None
    _, _, _, header, types_at, types, strings_at, strings = _HEADER.unpack_from(raw)
    strings_at += header
    # Most kernels do not have it; going through their types takes a tenth of a second.
    found = raw.find(f"\0{name}\0".encode(), strings_at, strings_at + strings)
    if found < 0:
        return None
    wanted = found + 1 - strings_at
    at, end = header + types_at, min(header + types_at + types, len(raw) - _TYPE.size)
    while at < end:
        _, info, _ = _TYPE.unpack_from(raw, at)
        at += _TYPE.size
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        once, each = _MORE.get(kind, (0, 0))
        if kind == _KIND_ENUM:
            for name_at, value in _ENUMERATOR.iter_unpack(raw[at : at + each * members]):
                if name_at == wanted:
                    return int(value)
        at += once + each * members
    return None
