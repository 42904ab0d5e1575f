"""Enumerators found in BTF's bytes, behind types of every kind."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ioh.bpf.btf import find_enumerator

NAMES = ("", "int", "FIRST", "SECOND", "THIRD", "SECONDS")
STRINGS = b"\0".join(name.encode() for name in NAMES) + b"\0"
# Kind, members, and what follows: int, pointer, array, struct, union, forward, function and its
# prototype, variable, section, float, declaration tag, type tag, enum of 64 bits.
OTHERS = (
    (1, 0, 4), (2, 0, 0), (3, 0, 12), (4, 2, 24), (5, 1, 12), (7, 0, 0), (8, 0, 0), (12, 0, 0),
    (13, 3, 24), (14, 0, 4), (15, 2, 24), (16, 0, 0), (17, 0, 4), (18, 0, 0), (19, 2, 24),
)  # fmt: skip


def name_at(name: str) -> int:
    return STRINGS.index(b"\0" + name.encode() + b"\0") + 1


def a_type(kind: int, members: int, more: bytes) -> bytes:
    return struct.pack("=III", 0, kind << 24 | members, 4) + more


def enum(**values: int) -> bytes:
    pairs = [struct.pack("=Ii", name_at(name), value) for name, value in values.items()]
    return a_type(6, len(pairs), b"".join(pairs))


def btf(*types: bytes) -> bytes:
    whole = b"".join(types)
    sizes = (24, 0, len(whole), len(whole), len(STRINGS))
    return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, *sizes) + whole + STRINGS


def test_an_enumerator_behind_types_of_every_kind() -> None:
    # What follows a type looks like the enumerator that is asked for.
    looks = struct.pack("=I", name_at("SECOND"))
    others = [a_type(kind, members, looks * (size // 4)) for kind, members, size in OTHERS]
    raw = btf(*others, enum(FIRST=-1), *others, enum(SECONDS=7, SECOND=5))
    assert find_enumerator(raw, "FIRST") == -1
    assert find_enumerator(raw, "SECOND") == 5
    assert find_enumerator(raw, "THIRD") is None
    assert find_enumerator(raw, "FOURTH") is None


@pytest.mark.parametrize("raw", [b"", b"\x9f\xeb", bytes(24), btf(enum(FIRST=1))[:-8]])
def test_bytes_that_are_no_btf(raw: bytes) -> None:
    assert find_enumerator(raw, "SECOND") is None


def test_this_machines_own() -> None:
    path = Path("/sys/kernel/btf/vmlinux")
    raw = path.read_bytes() if path.exists() else b""
    assert find_enumerator(raw, "SS_CONNECTED") == (3 if raw else None)
