"""BTF read through libbpf's few calls: the types here are made by hand, byte by byte."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from ioh.bpf import btf as btf_module
from ioh.bpf.btf import Btf

INT, PTR, STRUCT, UNION, ENUM, TYPEDEF, VOLATILE, CONST = 1, 2, 4, 5, 6, 8, 9, 10
RESTRICT, FUNC_PROTO, TYPE_TAG, ENUM64 = 11, 13, 18, 19


class FakeLib:
    """libbpf's BTF calls over types that the test adds; ids begin at 1, 0 is void."""

    def __init__(self) -> None:
        self.strings = b"\0"
        self.types: list[Any] = [ctypes.create_string_buffer(struct.pack("=III", 0, 0, 0))]
        self.kinds: list[tuple[str, int]] = [("", 0)]
        self.handle: int | None = 4096
        outer = self

        def load() -> int | None:
            return outer.handle

        self.btf__load_vmlinux_btf = load

    def name(self, text: str) -> int:
        if not text:
            return 0
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at

    def add(
        self,
        kind: int,
        name: str = "",
        size: int = 0,
        rest: bytes = b"",
        count: int = 0,
        flag: int = 0,
    ) -> int:
        """A type; ``size`` is the other type's id where the kind has one."""
        info = flag << 31 | kind << 24 | count
        raw = struct.pack("=III", self.name(name), info, size) + rest
        self.types.append(ctypes.create_string_buffer(raw, len(raw)))
        self.kinds.append((name, kind))
        return len(self.types) - 1

    def struct(
        self, name: str, *members: tuple[str, int, int], kind: int = STRUCT, flag: int = 0
    ) -> int:
        """Members as (name, type, byte offset); with ``flag`` a bit field's size on top."""
        rest = b"".join(struct.pack("=III", self.name(n), t, o * 8) for n, t, o in members)
        return self.add(kind, name, 64, rest, len(members), flag)

    def tracepoint(self, name: str, *arguments: int) -> int:
        rest = b"".join(struct.pack("=II", 0, argument) for argument in (0, *arguments))
        proto = self.add(FUNC_PROTO, rest=rest, count=len(arguments) + 1)
        return self.add(TYPEDEF, f"btf_trace_{name}", self.add(PTR, size=proto))

    def btf__type_by_id(self, _: object, type_id: int) -> int:
        return ctypes.addressof(self.types[type_id]) if type_id < len(self.types) else 0

    def btf__name_by_offset(self, _: object, offset: int) -> bytes:
        return self.strings[offset:].split(b"\0")[0]

    def btf__find_by_name_kind(self, _: object, name: bytes, kind: int) -> int:
        wanted = (name.decode(), kind)
        return self.kinds.index(wanted) if wanted in self.kinds else -2


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch) -> FakeLib:
    fake = FakeLib()
    monkeypatch.setattr(btf_module, "libbpf", lambda: fake)
    return fake


def test_a_members_offset(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    lib.struct("file", ("f_mode", number, 0), ("f_flags", number, 12))
    assert Btf().offset("file", "f_flags") == 12
    assert Btf().offset("file", "f_mode") == 0


def test_what_is_missing_is_none(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    lib.struct("file", ("f_flags", number, 12))
    btf = Btf()
    assert btf.offset("file", "f_gone") is None
    assert btf.offset("gone", "f_flags") is None
    assert btf.offset("file", "f_flags.deeper") is None
    assert btf.offset("file", "f_gone.deeper") is None


def test_a_nested_member_through_typedef_and_const(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    path = lib.struct("path", ("mnt", number, 0), ("dentry", number, 8))
    alias = lib.add(TYPEDEF, "path_t", path)
    for kind in (CONST, VOLATILE, RESTRICT, TYPE_TAG):
        alias = lib.add(kind, size=alias)
    lib.struct("file", ("f_path", lib.add(TYPEDEF, "again_t", alias), 16))
    assert Btf().offset("file", "f_path.dentry") == 24


def test_members_of_unnamed_structs_and_unions(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    inner = lib.struct("", ("tail", number, 0), ("hash", number, 4))
    other = lib.struct("", ("cookie", number, 0), kind=UNION)
    union = lib.struct("", ("ino", number, 0), ("", inner, 0), ("", other, 8), kind=UNION)
    padding = lib.add(INT, "", 4)
    lib.struct("sock_common", ("", padding, 0), ("first", number, 0), ("", union, 32))
    btf = Btf()
    assert btf.offset("sock_common", "first") == 0
    assert btf.offset("sock_common", "ino") == 32
    assert btf.offset("sock_common", "hash") == 36
    assert btf.offset("sock_common", "cookie") == 40


def test_bit_field_sizes_are_no_part_of_the_offset(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    raw = struct.pack("=III", lib.name("flag"), number, 3 << 24 | 100)
    raw += struct.pack("=III", lib.name("after"), number, 128)
    lib.add(STRUCT, "bits", 32, raw, 2, flag=1)
    assert Btf().offset("bits", "flag") == 12
    assert Btf().offset("bits", "after") == 16


def test_without_bit_fields_an_offset_has_all_its_bits(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    lib.struct("huge", ("far", number, 1 << 25))
    assert Btf().offset("huge", "far") == 1 << 25


def test_a_union_by_name(lib: FakeLib) -> None:
    number = lib.add(INT, "int", 4)
    lib.struct("either", ("a", number, 0), ("b", number, 0), kind=UNION)
    assert Btf().offset("either", "b") == 0


def test_enumerators(lib: FakeLib) -> None:
    rest = struct.pack("=Ii", lib.name("REQ_OP_READ"), 0) + struct.pack("=Ii", lib.name("BAD"), -1)
    lib.add(ENUM, "req_op", 4, rest, 2)
    wide = struct.pack("=III", lib.name("BIG"), 7, 1) + struct.pack("=III", lib.name("ONE"), 1, 0)
    lib.add(ENUM64, "wide", 8, wide, 2)
    btf = Btf()
    assert btf.enumerators("req_op") == {"REQ_OP_READ": 0, "BAD": -1}
    assert btf.enumerators("wide") == {"BIG": 1 << 32 | 7, "ONE": 1}
    assert btf.enumerators("gone") == {}


def test_a_tracepoints_arguments(lib: FakeLib) -> None:
    request = lib.struct("request")
    number = lib.add(INT, "unsigned int", 4)
    status = lib.add(TYPEDEF, "blk_status_t", number)
    pointer = lib.add(CONST, size=lib.add(PTR, size=lib.add(CONST, size=request)))
    untyped = lib.add(PTR, size=0)
    found = lib.tracepoint("block_rq_complete", pointer, status, untyped)
    btf = Btf()
    assert btf.tracepoint("block_rq_complete") == ("request", "", "")
    assert btf.tracepoint_id("block_rq_complete") == found
    assert btf.tracepoint("block_rq_gone") is None
    assert btf.tracepoint_id("block_rq_gone") is None


def test_a_typedef_of_another_kind_is_no_tracepoint(lib: FakeLib) -> None:
    lib.add(TYPEDEF, "btf_trace_odd", lib.add(INT, "int", 4))
    lib.add(TYPEDEF, "btf_trace_pointer", lib.add(PTR, size=lib.add(INT, "int", 4)))
    assert Btf().tracepoint("odd") is None
    assert Btf().tracepoint("pointer") is None


def test_an_offset_is_looked_up_once(lib: FakeLib, monkeypatch: pytest.MonkeyPatch) -> None:
    lib.struct("file", ("f_flags", lib.add(INT, "int", 4), 12))
    btf = Btf()
    assert btf.offset("file", "f_flags") == 12
    monkeypatch.setattr(lib, "btf__find_by_name_kind", None)
    assert btf.offset("file", "f_flags") == 12


@pytest.mark.parametrize("handle", [None, 0, ctypes.c_size_t(-1).value - 1])
def test_a_kernel_without_btf(lib: FakeLib, handle: int | None) -> None:
    lib.handle = handle
    with pytest.raises(OSError, match="no readable BTF"):
        Btf()


def test_without_libbpf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(btf_module, "libbpf", lambda: None)
    with pytest.raises(OSError, match="libbpf"):
        Btf()


def test_the_older_name_of_the_loading_call(lib: FakeLib) -> None:
    lib.libbpf_find_kernel_btf = lib.btf__load_vmlinux_btf  # type: ignore[attr-defined]
    del lib.btf__load_vmlinux_btf
    lib.struct("file", ("f_flags", lib.add(INT, "int", 4), 12))
    assert Btf().offset("file", "f_flags") == 12
